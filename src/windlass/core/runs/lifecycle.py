"""The life of a run: constraints before its job, the job, attempts, the actions after it, and the end."""

from msgspec import structs

from windlass.core.delays import exponential_delay
from windlass.core.events import EventType
from windlass.core.ids import JobId, derived_job_id
from windlass.core.runs import actions
from windlass.core.runs.actions import POST_RUN_HOOK, PRE_RUN_HOOK
from windlass.core.runs.commands import AdmitJob, CancelJob, MakeJob, RetryJob
from windlass.core.runs.constraints import (
    MAX_CONCURRENT_RUNS,
    BrokenConstraint,
    broken_constraints,
    has_checks,
)
from windlass.core.runs.messages import Container, JobFinished, RunWait
from windlass.core.runs.metrics import metrics_of
from windlass.core.runs.registry import R, Run, WorkflowRuns, bounds
from windlass.core.runs.rows import RunMetrics
from windlass.core.runs.rules import ActionEvent, ActionKind, Hook, OnCheckError, RunRetry
from windlass.core.runs.states import RunState
from windlass.core.runs.turn import RunTurn

# Before the job


def begin(turn: RunTurn, run: Run) -> None:
    """Start an attempt: check the constraints, or go straight to the job."""
    turn.clear_timer(run)
    turn.move(run, R.PENDING)
    run.detail.is_hook_passed = False
    if not has_checks(turn.registry.rules_of(run).constraints):
        launch(turn, run)
        return
    turn.move(run, R.CONDITION_PENDING)
    turn.move(run, R.CONDITION_RUNNING)
    check(turn, run)


def check(turn: RunTurn, run: Run) -> None:
    """Check every constraint. The hook is called last; its answer arrives as a signal."""
    broken = broken_constraints(turn, run)
    if broken:
        act_on_violations(turn, run, broken)
        return
    hook = _pending_hook(turn, run)
    if hook is None:
        launch(turn, run)
        return
    run.detail.constraints_checked += 1
    actions.call(turn, run, PRE_RUN_HOOK, hook)


def check_again(turn: RunTurn, run: Run) -> None:
    """Check the constraints again, after a delay or because another run ended."""
    checks = run.detail.constraints_checked
    broken = broken_constraints(turn, run)
    if broken and run.is_waiting:
        # It keeps waiting, and nothing is recorded.
        run.detail.constraints_checked = checks
        return
    if broken:
        act_on_violations(turn, run, broken)
        return
    hook = _pending_hook(turn, run)
    if hook is None:
        actions.complete(turn, run)
        launch(turn, run)
    elif PRE_RUN_HOOK not in run.detail.calls.values():
        actions.call(turn, run, PRE_RUN_HOOK, hook)


def _pending_hook(turn: RunTurn, run: Run) -> Hook | None:
    """Return the hook that must still allow this attempt."""
    if run.detail.is_hook_passed:
        return None
    return turn.registry.rules_of(run).constraints.pre_run_hook


def act_on_violations(turn: RunTurn, run: Run, broken: list[BrokenConstraint]) -> None:
    """Record violations and carry out the workflow's action."""
    for one in broken:
        turn.violate(run, one.constraint, one.message)
    action = actions.on_violation(turn, run)
    if run.state is R.CONDITION_RUNNING:
        _move_to_action(turn, run)
        run.detail.checks = 0
        actions.start(turn, run, action)
    match action.kind:
        case ActionKind.RETRY_LATER:
            _retry_later(turn, run)
        case ActionKind.WAIT:
            if not run.is_waiting:
                turn.set_timer_after(run, action.timeout_seconds, RunWait.OTHERS)
        case ActionKind.KILL_OLD:
            _kill_old(turn, run)
        case ActionKind.WEBHOOK | ActionKind.TRIGGER_JOB:
            actions.perform(turn, run, action, ActionEvent.CONSTRAINT_VIOLATION)
        case ActionKind.SKIP:
            skip(turn, run, run.detail.violations[-1].message)


def _move_to_action(turn: RunTurn, run: Run) -> None:
    turn.move(run, R.ACTION_PENDING)
    turn.move(run, R.ACTION_RUNNING)


def _retry_later(turn: RunTurn, run: Run) -> None:
    action = actions.on_violation(turn, run)
    run.detail.checks += 1
    if run.detail.checks > action.times_max:
        fail(turn, run, f"the constraints did not hold after {action.times_max} further checks")
    else:
        turn.set_timer_after(run, action.delay_seconds, RunWait.CHECK)


def _kill_old(turn: RunTurn, run: Run) -> None:
    """Cancel as many of the oldest runs as necessary; that helps against no other constraint."""
    limit = turn.registry.rules_of(run).constraints.max_concurrent_runs
    last = run.detail.violations[-1]
    if limit is None or last.constraint != MAX_CONCURRENT_RUNS:
        skip(turn, run, last.message)
        return
    workflow = turn.registry.workflow(run.workflow_id)
    oldest_first = sorted(
        workflow.busy(besides=run), key=lambda one: (one.scheduled_at, one.created_at, one.id)
    )
    for victim in oldest_first[: max(0, len(oldest_first) - limit + 1)]:
        stop(turn, victim, R.CANCELLED, f"stopped to make room for run {run.id}", wake_others=False)
    actions.complete(turn, run)
    continue_after_violation(turn, run)


def continue_after_violation(turn: RunTurn, run: Run) -> None:
    """Launch the run after its action, unless too many runs are active."""
    for one in broken_constraints(turn, run):
        if one.constraint == MAX_CONCURRENT_RUNS:
            skip(turn, run, one.message)
            return
    launch(turn, run)


def skip(turn: RunTurn, run: Run, reason: str) -> None:
    """End a run without a job. A further attempt that may not start fails the run instead."""
    if run.attempt:
        fail(turn, run, reason)
        return
    run.detail.is_skipped = True
    run.detail.reason = reason
    turn.move(run, R.COMPLETED, f"skipped: {reason}")
    if run.job_id is not None and run.detail.origin == "submit":
        turn.commands.append(CancelJob(run.job_id, f"the run was skipped: {reason}"))
    end(turn, run)


def wake_waiting(turn: RunTurn, workflow: WorkflowRuns) -> None:
    """Let waiting runs check again, in their order, until one has to keep waiting."""
    for run in workflow.waiting():
        # The launch of one run may have ended another.
        if run.is_final or not run.is_waiting:
            continue
        check_again(turn, run)
        if run.is_waiting:
            return


# The job


def launch(turn: RunTurn, run: Run) -> None:
    """Let the run's job start: a new one, a submitted one, or the failed nodes of the last attempt."""
    turn.clear_timer(run)
    turn.move(run, R.CONTAINER_CREATING)
    detail = run.detail
    if detail.metrics is not None:
        # The exit code of the last attempt is not that of this one.
        detail.metrics = structs.replace(detail.metrics, exit_code=None)
    job_id = run.job_id
    if job_id is None or _needs_new_job(turn, run):
        job_id = _make_job(turn, run)
    elif run.attempt:
        turn.commands.append(RetryJob(job_id))
    elif detail.origin == "retry":
        turn.commands.append(RetryJob(job_id, detail.from_node))
    else:
        turn.commands.append(AdmitJob(job_id))
    turn.registry.by_job[job_id] = run
    turn.save(run)


def _needs_new_job(turn: RunTurn, run: Run) -> bool:
    return run.attempt > 0 and turn.registry.rules_of(run).retry.full


def _make_job(turn: RunTurn, run: Run) -> JobId:
    if run.job_id is not None:
        run.detail.earlier_jobs.append(run.job_id)
        turn.registry.by_job.pop(run.job_id, None)
    job_id = run.job_id = derived_job_id(turn.now, f"{run.id}/{run.attempt}")
    command = MakeJob(
        run_id=run.id,
        job_id=job_id,
        workflow_id=run.workflow_id,
        version=run.version,
        input=run.detail.input or {},
        scheduled_at=run.scheduled_at,
    )
    turn.commands.append(command)
    return job_id


def start(turn: RunTurn, run: Run) -> None:
    """Record that the first task of the job has started."""
    turn.move(run, R.RUNNING)
    if run.detail.started_at is None:
        run.detail.started_at = turn.now
    turn.run_changes.timers += bounds(run, turn.registry.rules_of(run))
    turn.save(run)


def end_job(turn: RunTurn, run: Run, message: JobFinished) -> None:
    """Record that the run's job has ended or was cancelled."""
    turn.registry.creating.pop(message.job_id, None)
    if message.status == "cancelled":
        stop(turn, run, R.CANCELLED, message.error or "the job was cancelled")
        return
    if run.state is R.CONTAINER_CREATING:
        start(turn, run)
    if run.state is not R.RUNNING:
        return
    turn.move(run, R.TERMINATING)
    run.detail.outcome = message.status
    run.detail.reason = message.error if message.status == "failed" else None
    conclude(turn, run)


def note_container(turn: RunTurn, run: Run, container: Container) -> None:
    """Add what an attempt reported about its container to the metrics."""
    known = run.detail.metrics or RunMetrics()
    starts = [
        one for one in (known.pod_start_seconds, container.pod_start_seconds) if one is not None
    ]
    exit_code = known.exit_code
    # The exit code of a container that failed is kept.
    if not exit_code and container.exit_code is not None:
        exit_code = container.exit_code
    run.detail.metrics = structs.replace(
        known,
        api_calls=known.api_calls + container.api_calls,
        pod_start_seconds=max(starts, default=None),
        exit_code=exit_code,
    )
    turn.save(run)


# The bounds on its duration


def report_slow(turn: RunTurn, run: Run) -> None:
    """Record once that the run takes longer than expected; it continues."""
    if run.state is not R.RUNNING or run.detail.is_slow:
        return
    rules = turn.registry.rules_of(run)
    run.detail.is_slow = True
    limit = rules.constraints.max_expected_run_seconds or 0.0
    turn.violate(
        run, "max_expected_run_time", f"the run takes longer than the expected {limit:g} s"
    )
    if rules.on_slow is not None:
        actions.start(turn, run, rules.on_slow)
        actions.perform(turn, run, rules.on_slow, ActionEvent.SLOW)


def exceed_limit(turn: RunTurn, run: Run) -> None:
    """Stop and fail a run that takes longer than allowed."""
    if run.state not in (R.CONTAINER_CREATING, R.RUNNING) or run.job_id is None:
        return
    limit = turn.registry.rules_of(run).constraints.max_allowed_run_seconds or 0.0
    text = f"the run took longer than the allowed {limit:g} s"
    turn.violate(run, "max_allowed_run_time", text)
    if run.state is R.CONTAINER_CREATING:
        turn.move(run, R.RUNNING)
    turn.move(run, R.TERMINATING, text)
    turn.registry.forget_job(run.job_id)
    turn.commands.append(CancelJob(run.job_id, text))
    run.detail.outcome = "failed"
    run.detail.reason = text
    run.detail.has_failed_permanently = True
    conclude(turn, run)


# After the job


def conclude(turn: RunTurn, run: Run) -> None:
    """Start another attempt after the job, or make the last calls and end."""
    rules, detail = turn.registry.rules_of(run), run.detail
    has_failed = _has_failed(run)
    if has_failed and not detail.has_failed_permanently and run.attempt < rules.retry.max_retries:
        run.attempt += 1
        turn.move(run, R.RETRYING, detail.reason)
        turn.set_timer_after(run, delay_seconds(rules.retry, run.attempt), RunWait.RETRY)
        return
    detail.is_closing = True
    if rules.constraints.post_run_hook is not None:
        detail.constraints_checked += 1
        actions.call(turn, run, POST_RUN_HOOK, rules.constraints.post_run_hook)
    event = ActionEvent.FAILURE if has_failed else ActionEvent.SUCCESS
    action = rules.action(event)
    if action is not None:
        actions.start(turn, run, action)
        actions.perform(turn, run, action, event)
    settle(turn, run)


def _has_failed(run: Run) -> bool:
    return run.detail.outcome == "failed" or run.detail.has_failed_permanently


def delay_seconds(retry: RunRetry, attempt: int) -> float:
    """Return the delay before an attempt; the first retry is number 1."""
    grown = exponential_delay(retry.initial_delay_seconds, retry.backoff_multiplier, attempt)
    return min(grown, retry.max_delay_seconds)


def settle(turn: RunTurn, run: Run) -> None:
    """End a terminating run once all of its calls have ended."""
    detail = run.detail
    if run.state is not R.TERMINATING or not detail.is_closing or detail.calls:
        turn.save(run)
        return
    turn.move(run, R.FAILED if _has_failed(run) else R.COMPLETED, detail.reason)
    end(turn, run)


def fail(turn: RunTurn, run: Run, reason: str) -> None:
    """Fail a run before it terminates."""
    stop(turn, run, R.FAILED, reason)


def stop(
    turn: RunTurn, run: Run, target: RunState, reason: str, *, wake_others: bool = True
) -> None:
    """End a run in any state, and cancel its job and its calls."""
    run.detail.reason = reason
    turn.move(run, target, reason)
    turn.commands += [CancelJob(job_id, reason) for job_id in run.job_ids]
    end(turn, run, wake_others=wake_others)


def end(turn: RunTurn, run: Run, *, wake_others: bool = True) -> None:
    """Complete the row of a run that has reached a final state, and wake the runs that waited for it."""
    turn.clear_timer(run)
    run.completed_at = turn.now
    detail = run.detail
    detail.metrics = metrics_of(run, turn.registry.rules_of(run))
    workflow = turn.registry.workflow(run.workflow_id)
    if not detail.is_skipped and (detail.started_at is not None or run.state is R.FAILED):
        run.succeeded = run.state is R.COMPLETED
        workflow.last_succeeded = run.succeeded
    turn.registry.close(run)
    detail.calls.clear()
    turn.save(run)
    if wake_others:
        wake_waiting(turn, workflow)


# Calls


def end_call(turn: RunTurn, run: Run, message: JobFinished) -> None:
    """Continue a run after a call that was made for it."""
    purpose = run.detail.calls.pop(message.job_id)
    turn.registry.by_job.pop(message.job_id, None)
    if purpose == PRE_RUN_HOOK:
        _end_pre_run_hook(turn, run, message)
    elif purpose == POST_RUN_HOOK:
        if message.failure is not None:
            turn.violate(run, POST_RUN_HOOK, f"the hook could not be called: {message.failure}")
        settle(turn, run)
    else:
        end_action(turn, run, ActionEvent(purpose), message.failure)


def _end_pre_run_hook(turn: RunTurn, run: Run, message: JobFinished) -> None:
    if run.state not in (R.CONDITION_RUNNING, R.ACTION_RUNNING):
        return
    if message.failure is not None:
        if turn.registry.rules_of(run).constraints.on_check_error is OnCheckError.SKIP:
            _skip_unchecked(turn, run, f"the hook could not be called: {message.failure}")
            return
        data = {"constraint": PRE_RUN_HOOK, "error": message.failure, "decision": "allow"}
        turn.emit(run, EventType.CHECK_FAILED, data)
    if message.refusal is not None:
        act_on_violations(turn, run, [BrokenConstraint(PRE_RUN_HOOK, message.refusal)])
        return
    run.detail.is_hook_passed = True
    if run.state is R.CONDITION_RUNNING:
        check(turn, run)
    else:
        check_again(turn, run)


def _skip_unchecked(turn: RunTurn, run: Run, reason: str) -> None:
    turn.violate(run, PRE_RUN_HOOK, reason)
    if run.state is R.CONDITION_RUNNING:
        _move_to_action(turn, run)
    skip(turn, run, reason)


def end_action(turn: RunTurn, run: Run, event: ActionEvent, error: str | None) -> None:
    """Continue a run after an action, successful or not."""
    actions.finish(turn, run, event, error)
    if run.is_final:
        return
    if event is not ActionEvent.CONSTRAINT_VIOLATION:
        settle(turn, run)
    elif run.detail.has_failed_permanently:
        fail(turn, run, run.detail.reason or "a critical action failed")
    else:
        continue_after_violation(turn, run)
