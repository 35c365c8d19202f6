"""Before the job of a run: its constraints, the hook that may forbid it, the action on a violation, and the queue.

Room comes first, then the hook: a run whose hook is being asked keeps its room until the answer.
"""

from windlass.core.delays import exponential_delay
from windlass.core.events import EventType
from windlass.core.ids import JobId
from windlass.core.instants import MICROSECONDS
from windlass.core.runs import actions
from windlass.core.runs.closing import fail, skip, stop
from windlass.core.runs.constraints import (
    MAX_CONCURRENT_RUNS,
    BrokenConstraint,
    broken_constraints,
    has_checks,
    joins_queue,
    lacks_room,
    lacks_success,
    reason_in,
    refusal_in,
    rivals,
    stops_others,
    waits_only_for_room,
)
from windlass.core.runs.execution import launch
from windlass.core.runs.messages import JobFinished, RunWait
from windlass.core.runs.registry import R, Run, WorkflowRuns
from windlass.core.runs.rules import (
    PRE_RUN_HOOK,
    Action,
    ActionEvent,
    ActionKind,
    Hook,
    OnCheckError,
)
from windlass.core.runs.turn import RunTurn

# A run that waits for what other runs do not change asks again after these delays.
RECHECK_SECONDS_MIN = 1.0
RECHECK_SECONDS_MAX = 60.0
WAITING = frozenset({ActionKind.RETRY_LATER, ActionKind.WAIT})


def begin(turn: RunTurn, run: Run) -> None:
    """Start an attempt: check the constraints, or go straight to the job."""
    turn.clear_timer(run)
    turn.move(run, R.PENDING)
    rules, detail = turn.registry.rules_of(run), run.detail
    detail.reason = None
    detail.refusal = None
    detail.is_vetoed = False
    detail.checks = 0
    detail.max_retries = rules.retry.max_retries
    if detail.heartbeats_before is None:
        detail.heartbeats_before = turn.registry.heartbeats
    if not has_checks(rules.constraints):
        launch(turn, run)
        return
    turn.move(run, R.CONDITION_PENDING)
    turn.move(run, R.CONDITION_RUNNING)
    check(turn, run)


# Checks


def check(turn: RunTurn, run: Run, *, is_allowed: bool = False) -> None:
    """Check every constraint. The hook is asked last, unless it has just allowed the run."""
    broken = broken_constraints(turn, run)
    hook = None if is_allowed else _hook(turn, run)
    # No run is stopped for one that its hook then forbids.
    is_asked_first = hook is not None and _only_stops_others(turn, run, broken)
    if broken and not is_asked_first:
        act_on_violations(turn, run, broken)
    elif hook is None:
        launch(turn, run)
    else:
        _ask_hook(turn, run, hook)


def check_again(turn: RunTurn, run: Run, *, is_allowed: bool = False) -> None:
    """Check the constraints again: after a delay, because another run ended, or after the answer of the hook."""
    if run.is_asking:
        return
    if run.is_waiting and not run.is_queued_for_room and lacks_success(turn, run):
        # Whether there is room, which takes a look at every other run, does not matter yet.
        _recheck_later(turn, run)
        return
    checks = run.detail.constraints_checked
    broken = broken_constraints(turn, run)
    if broken and run.is_waiting and (lacks_room(broken) or not run.is_queued_for_room):
        # It keeps waiting, and nothing is recorded. Its hook is asked again when it could start.
        run.detail.constraints_checked = checks
        return
    if broken:
        act_on_violations(turn, run, broken)
        return
    hook = None if is_allowed else _hook(turn, run)
    if hook is not None:
        _ask_hook(turn, run, hook)
        return
    _complete_wait(turn, run)
    launch(turn, run)


def recheck(turn: RunTurn, run: Run) -> None:
    """Check again what other runs do not change, while the run waits."""
    due_at = run.detail.recheck_at
    if due_at is None or not run.is_waiting:
        return
    if turn.now < due_at:
        turn.run_changes.timers.append(run.timer(due_at, RunWait.RECHECK))
        return
    run.detail.recheck_at = None
    run.detail.is_vetoed = False
    turn.save(run)
    check_again(turn, run)


def _recheck_later(turn: RunTurn, run: Run) -> None:
    """Set the next check of a waiting run, with growing delays; the timeout of the wait bounds them."""
    detail = run.detail
    if detail.recheck_at is not None:
        return
    detail.checks += 1
    seconds = min(exponential_delay(RECHECK_SECONDS_MIN, 2.0, detail.checks), RECHECK_SECONDS_MAX)
    detail.recheck_at = turn.now + round(seconds * MICROSECONDS)
    turn.run_changes.timers.append(run.timer(detail.recheck_at, RunWait.RECHECK))
    turn.save(run)


def wake_waiting(turn: RunTurn, workflow: WorkflowRuns) -> None:
    """Let waiting runs check again, in their order, until there is no room left."""
    for run in workflow.waiting():
        # The start of one run may have ended another. A vetoed run asks again after its delay.
        if run.is_final or not run.is_waiting or run.is_asking or run.detail.is_vetoed:
            continue
        check_again(turn, run)
        if run.is_waiting and not run.is_asking and waits_only_for_room(turn, run):
            return


# The hook


def _hook(turn: RunTurn, run: Run) -> Hook | None:
    return turn.registry.rules_of(run).constraints.pre_run_hook


def _ask_hook(turn: RunTurn, run: Run, hook: Hook) -> None:
    run.detail.constraints_checked += 1
    run.detail.is_vetoed = False
    actions.call(turn, run, PRE_RUN_HOOK, hook)


def end_hook(turn: RunTurn, run: Run, message: JobFinished) -> None:
    """Continue a run after the answer of its hook, or without one."""
    if run.state not in (R.CONDITION_RUNNING, R.ACTION_RUNNING):
        return
    # Unless it starts now, its room is free for others.
    turn.wake_others(run.workflow_id)
    if message.failure is not None:
        error = f"the hook could not be called: {message.failure}"
        decision = turn.registry.rules_of(run).constraints.on_check_error
        data = {"constraint": PRE_RUN_HOOK, "error": message.failure, "decision": decision.value}
        turn.emit(run, EventType.CHECK_FAILED, data)
        if decision is OnCheckError.SKIP:
            _skip_unchecked(turn, run, error)
            return
    if message.refusal is not None:
        act_on_violations(turn, run, [BrokenConstraint(PRE_RUN_HOOK, message.refusal)])
    elif run.state is R.CONDITION_RUNNING:
        check(turn, run, is_allowed=True)
    else:
        check_again(turn, run, is_allowed=True)


def _skip_unchecked(turn: RunTurn, run: Run, reason: str) -> None:
    turn.violate(run, PRE_RUN_HOOK, reason)
    _complete_wait(turn, run)
    if run.state is R.CONDITION_RUNNING:
        _move_to_action(turn, run)
    actions.start(turn, run, actions.SKIP)
    _skip_after(turn, run, actions.SKIP, reason)


# Violations


def act_on_violations(turn: RunTurn, run: Run, broken: list[BrokenConstraint]) -> None:
    """Record violations and carry out the workflow's action, or queue the run of a made-up slot."""
    if lacks_room(broken) and joins_queue(turn, run):
        _queue_for_room(turn, run, broken)
        return
    if run.is_queued_for_room:
        turn.clear_timer(run)
    for one in broken:
        turn.violate(run, one.constraint, one.message)
    run.detail.refusal = refusal_in(broken)
    action = actions.on_violation(turn, run)
    if run.state is R.CONDITION_RUNNING:
        _move_to_action(turn, run)
    if not _is_in_wait(turn, run):
        actions.start(turn, run, action)
    match action.kind:
        case ActionKind.RETRY_LATER:
            _retry_later(turn, run, action)
        case ActionKind.WAIT:
            run.detail.is_vetoed = any(one.constraint == PRE_RUN_HOOK for one in broken)
            _wait(turn, run, action.timeout_seconds)
        case ActionKind.KILL_OLD:
            _kill_old(turn, run, action)
        case ActionKind.WEBHOOK | ActionKind.TRIGGER_JOB:
            error = actions.perform(turn, run, action, ActionEvent.CONSTRAINT_VIOLATION)
            if error is not None:
                end_action(turn, run, error)
        case ActionKind.SKIP:
            _skip_after(turn, run, action, reason_in(broken))


def _move_to_action(turn: RunTurn, run: Run, reason: str | None = None) -> None:
    turn.move(run, R.ACTION_PENDING)
    turn.move(run, R.ACTION_RUNNING, reason)


def _queue_for_room(turn: RunTurn, run: Run, broken: list[BrokenConstraint]) -> None:
    [reason] = [one.message for one in broken if one.constraint == MAX_CONCURRENT_RUNS]
    if run.state is R.CONDITION_RUNNING:
        _move_to_action(turn, run, f"queued: {reason}")
    _complete_wait(turn, run)
    turn.clear_timer(run)
    run.detail.due_kind = RunWait.OTHERS
    turn.save(run)


def _is_in_wait(turn: RunTurn, run: Run) -> bool:
    """Return whether the action of a run has started to wait, or to check again later."""
    if actions.on_violation(turn, run).kind not in WAITING or run.is_queued_for_room:
        return False
    return run.is_waiting or run.detail.checks > 0


def _complete_wait(turn: RunTurn, run: Run) -> None:
    if _is_in_wait(turn, run):
        actions.complete(turn, run, actions.on_violation(turn, run))
        run.detail.checks = 0


def _wait(turn: RunTurn, run: Run, timeout_seconds: float) -> None:
    if not run.is_waiting:
        turn.set_timer_after(run, timeout_seconds, RunWait.OTHERS)
    if run.detail.refusal is not None:
        # The end of another run does not change a veto.
        _recheck_later(turn, run)


def exceed_wait(turn: RunTurn, run: Run) -> None:
    """Fail a run that waited as long as its action allows."""
    seconds = actions.on_violation(turn, run).timeout_seconds
    _give_up(turn, run, f"timed out after waiting {seconds:g} s for the constraints to hold")


def _retry_later(turn: RunTurn, run: Run, action: Action) -> None:
    run.detail.checks += 1
    if run.detail.checks > action.times_max:
        _give_up(turn, run, f"the constraints did not hold after {action.times_max} further checks")
    else:
        turn.set_timer_after(run, action.delay_seconds, RunWait.CHECK)


def _give_up(turn: RunTurn, run: Run, reason: str) -> None:
    """Fail a run whose action did not lead to its start, with what it lacked."""
    if run.detail.violations:
        reason = f"{reason}: {run.detail.violations[-1].message}"
    actions.finish(turn, run, ActionEvent.CONSTRAINT_VIOLATION, reason)
    fail(turn, run, reason)


def _only_stops_others(turn: RunTurn, run: Run, broken: list[BrokenConstraint]) -> bool:
    """Return whether the run only has to stop others to start."""
    return bool(broken) and refusal_in(broken) is None and stops_others(turn, run)


def _kill_old(turn: RunTurn, run: Run, action: Action) -> None:
    """Cancel as many of the oldest runs as necessary; that helps against no other constraint."""
    limit = turn.registry.rules_of(run).constraints.max_concurrent_runs
    if limit is not None and run.detail.refusal is None:
        oldest_first = sorted(rivals(turn, run), key=lambda one: one.queue_position)
        for victim in oldest_first[: max(0, len(oldest_first) - limit + 1)]:
            stop(turn, victim, R.CANCELLED, f"stopped to make room for run {run.id}")
    actions.complete(turn, run, action)
    _continue_after_violation(turn, run, is_allowed=True)


def end_action(turn: RunTurn, run: Run, error: str | None, job_id: JobId | None = None) -> None:
    """Continue a run after its action on a violation."""
    failure = actions.finish(turn, run, ActionEvent.CONSTRAINT_VIOLATION, error, job_id)
    if failure is None:
        _continue_after_violation(turn, run)
    else:
        fail(turn, run, f"{actions.reason_of(run)}; {failure}")


def _continue_after_violation(turn: RunTurn, run: Run, *, is_allowed: bool = False) -> None:
    """Launch the run after its action if it only lacked room and now has it; otherwise skip it."""
    if run.detail.refusal is not None:
        skip(turn, run, run.detail.refusal)
        return
    broken = broken_constraints(turn, run)
    if broken:
        skip(turn, run, reason_in(broken))
        return
    hook = None if is_allowed else _hook(turn, run)
    if hook is None:
        launch(turn, run)
    else:
        _ask_hook(turn, run, hook)


def _skip_after(turn: RunTurn, run: Run, action: Action, reason: str) -> None:
    actions.complete(turn, run, action)
    skip(turn, run, reason)
