"""The life of a run: constraints before its job, the job, what is done after it, attempts, and the end."""

from msgspec import structs

from windlass.core.instants import MICROSECONDS
from windlass.core.runs import actions
from windlass.core.runs.commands import CancelJob, MakeJob, ReleaseJob, RetryJob
from windlass.core.runs.ids import derived_job_id
from windlass.core.runs.messages import Container, JobEnded
from windlass.core.runs.registry import R, Run, RunTurn, WorkflowRuns, bounds, metrics_of
from windlass.core.runs.rows import RunMetrics
from windlass.core.runs.rules import ActionKind, OnCheckError, RunRetry
from windlass.core.runs.states import RunState

PRE_RUN_HOOK, POST_RUN_HOOK = "pre_run_hook", "post_run_hook"
_EXPONENT_MAX = 64


def begin(turn: RunTurn, run: Run) -> None:
    """Its moment has come: check what there is to check, or go straight to its job."""
    turn.rest(run)
    turn.move(run, R.PENDING)
    run.detail.is_hook_passed = False
    constraints = turn.book.rules_of(run).constraints
    if (
        constraints.max_concurrent_runs is None
        and not constraints.require_previous_success
        and constraints.pre_run_hook is None
    ):
        launch(turn, run)
        return
    turn.move(run, R.CONDITION_PENDING)
    turn.move(run, R.CONDITION_RUNNING)
    check(turn, run)


def check(turn: RunTurn, run: Run) -> None:
    """Look at every constraint; what cannot be decided here is asked of others, and the answer comes as a message."""
    broken = _broken(turn, run)
    if broken:
        for constraint, message in broken:
            turn.violated(run, constraint, message)
        act_on_violation(turn, run)
        return
    hook = turn.book.rules_of(run).constraints.pre_run_hook
    if hook is not None and not run.detail.is_hook_passed:
        run.detail.constraints_checked += 1
        actions.call(turn, run, PRE_RUN_HOOK, hook, "run.starting")
        return
    launch(turn, run)


def _broken(turn: RunTurn, run: Run) -> list[tuple[str, str]]:
    constraints = turn.book.rules_of(run).constraints
    shelf = turn.book.shelf(run.workflow_id)
    found: list[tuple[str, str]] = []
    limit = constraints.max_concurrent_runs
    if limit is not None and not run.attempt:
        run.detail.constraints_checked += 1
        others, ahead = _others(shelf, run)
        if others + ahead >= limit:
            text = f"{others} of at most {limit} runs are under way"
            found.append(("max_concurrent_runs", f"{text}, and {ahead} wait before this one" if ahead else text))
    # What is retried is the previous run itself, which is to be made good.
    if constraints.require_previous_success and not run.attempt and run.detail.origin != "retry":
        run.detail.constraints_checked += 1
        if shelf.last_succeeded is False:
            found.append(("require_previous_success", "the run before this one did not succeed"))
    return found


def _others(shelf: WorkflowRuns, run: Run) -> tuple[int, int]:
    """How many other runs are under way, and how many stand in line before this one."""
    busy = sum(1 for other in shelf.runs.values() if other.is_busy and other is not run)
    line = shelf.waiting()
    return busy, line.index(run) if run in line else len(line)


def act_on_violation(turn: RunTurn, run: Run) -> None:
    """A constraint does not hold: do what the workflow says, which is to skip the run when it says nothing."""
    if run.state is R.CONDITION_RUNNING:
        turn.move(run, R.ACTION_PENDING)
        turn.move(run, R.ACTION_RUNNING)
        run.detail.checks = 0
        actions.begin(turn, run, actions.on_violation(turn, run))
    action = actions.on_violation(turn, run)
    match action.kind:
        case ActionKind.RETRY_LATER:
            run.detail.checks += 1
            if run.detail.checks > action.times_max:
                fail(turn, run, f"the constraints did not hold after {action.times_max} further looks")
                return
            turn.set_timer(run, turn.now + round(action.delay_seconds * MICROSECONDS), "run_check")
            turn.save(run)
        case ActionKind.WAIT:
            if run.detail.due_kind != "run_wait":
                turn.set_timer(run, turn.now + round(action.timeout_seconds * MICROSECONDS), "run_wait")
                turn.save(run)
        case ActionKind.KILL_OLD:
            _kill_old(turn, run)
        case ActionKind.WEBHOOK | ActionKind.TRIGGER_JOB:
            actions.perform(turn, run, action, actions.ON_VIOLATION)
        case ActionKind.SKIP:
            skip(turn, run, run.detail.violations[-1].message if run.detail.violations else "a check failed")


def _kill_old(turn: RunTurn, run: Run) -> None:
    """Stop as many of the oldest runs as it takes to make room; that helps against no other constraint."""
    shelf = turn.book.shelf(run.workflow_id)
    limit = turn.book.rules_of(run).constraints.max_concurrent_runs
    last = run.detail.violations[-1]
    if limit is None or last.constraint != "max_concurrent_runs":
        skip(turn, run, last.message)
        return
    busy = sorted((one for one in shelf.runs.values() if one.is_busy and one is not run), key=_age)
    for victim in busy[: max(0, len(busy) - limit + 1)]:
        stop(turn, victim, R.CANCELLED, f"stopped to make room for the run {run.id}", wake_others=False)
    actions.complete(turn, run)
    proceed(turn, run)


def _age(run: Run) -> tuple[int, int, str]:
    return (run.scheduled_at, run.created_at, run.id)


def proceed(turn: RunTurn, run: Run) -> None:
    """The action is done: go on where nothing stands in the way that must, else the run is skipped."""
    broken = dict(_broken(turn, run))
    if "max_concurrent_runs" in broken:
        skip(turn, run, broken["max_concurrent_runs"])
    else:
        launch(turn, run)


def skip(turn: RunTurn, run: Run, reason: str) -> None:
    """End a run without a job. An attempt that may not be made again leaves what failed before as it is."""
    if run.attempt:
        fail(turn, run, reason)
        return
    run.detail.is_skipped = True
    run.detail.reason = reason
    turn.move(run, R.COMPLETED, f"skipped: {reason}")
    if run.job_id is not None and run.detail.origin == "submit":
        turn.orders.append(CancelJob(run.job_id, f"the run was skipped: {reason}"))
    end(turn, run)


def launch(turn: RunTurn, run: Run) -> None:
    """Let the run's job begin: a new one, one that was submitted, or what failed of the last."""
    turn.rest(run)
    turn.move(run, R.CONTAINER_CREATING)
    detail = run.detail
    if detail.metrics is not None:
        # How the last attempt ended is not how this one does.
        detail.metrics = structs.replace(detail.metrics, exit_code=None)
    rules = turn.book.rules_of(run)
    full = rules.retry is not None and rules.retry.full and run.attempt > 0
    if run.job_id is None or full:
        if run.job_id is not None:
            detail.earlier_jobs.append(run.job_id)
            turn.book.by_job.pop(run.job_id, None)
        run.job_id = derived_job_id(turn.now, f"{run.id}/{run.attempt}", run.workflow_id)
        given = detail.input or {}
        turn.orders.append(MakeJob(run.id, run.job_id, run.workflow_id, run.version, given, run.scheduled_at))
    elif detail.origin == "retry" or run.attempt:
        turn.orders.append(RetryJob(run.job_id, None if run.attempt else detail.from_node))
    else:
        turn.orders.append(ReleaseJob(run.job_id))
    turn.book.by_job[run.job_id] = run
    turn.save(run)


def start(turn: RunTurn, run: Run) -> None:
    """The first task of the job has started."""
    turn.move(run, R.RUNNING)
    detail = run.detail
    if detail.started_at is None:
        detail.started_at = turn.now
    for kind, due_at in bounds(turn.book.rules_of(run), detail.started_at):
        turn.changes.timers.append(actions.timer(run, due_at, kind))
    turn.save(run)


def end_job(turn: RunTurn, run: Run, message: JobEnded) -> None:
    """The run's job has ended, by itself or because somebody stopped it."""
    turn.book.creating.pop(message.job_id, None)
    if message.status == "cancelled":
        run.detail.reason = message.error or "its job was cancelled"
        stop(turn, run, R.CANCELLED, run.detail.reason)
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
    """Add what an attempt told of its container to the figures."""
    known = run.detail.metrics or RunMetrics()
    starts = [one for one in (known.pod_start_seconds, container.pod_start_seconds) if one is not None]
    run.detail.metrics = structs.replace(
        known,
        api_calls=known.api_calls + container.api_calls,
        pod_start_seconds=max(starts, default=None),
        # One that failed tells more than one that did not.
        exit_code=known.exit_code or (known.exit_code if container.exit_code is None else container.exit_code),
    )
    turn.save(run)


def conclude(turn: RunTurn, run: Run) -> None:
    """After the job: another attempt, or the last calls and then the end."""
    rules, detail = turn.book.rules_of(run), run.detail
    retry = rules.retry
    has_failed = detail.outcome == "failed" or detail.is_doomed
    if has_failed and not detail.is_doomed and retry is not None and run.attempt < retry.max_retries:
        run.attempt += 1
        turn.move(run, R.RETRYING, detail.reason)
        turn.set_timer(run, turn.now + round(delay_seconds(retry, run.attempt) * MICROSECONDS), "run_retry")
        turn.save(run)
        return
    detail.is_closing = True
    if rules.constraints.post_run_hook is not None:
        detail.constraints_checked += 1
        actions.call(turn, run, POST_RUN_HOOK, rules.constraints.post_run_hook, "run.ended")
    action = rules.on_failure if has_failed else rules.on_success
    if action is not None:
        actions.begin(turn, run, action)
        actions.perform(turn, run, action, actions.ON_FAILURE if has_failed else actions.ON_SUCCESS)
    settle(turn, run)


def delay_seconds(retry: RunRetry, attempt: int) -> float:
    """How long a run waits before an attempt; the first retry is number 1."""
    grown = retry.initial_delay_seconds * retry.backoff_multiplier ** min(attempt - 1, _EXPONENT_MAX)
    return min(grown, retry.max_delay_seconds)


def settle(turn: RunTurn, run: Run) -> None:
    """End a run that terminates, once nothing that it called is waited for."""
    detail = run.detail
    if run.state is not R.TERMINATING or not detail.is_closing or detail.calls:
        turn.save(run)
        return
    has_failed = detail.outcome == "failed" or detail.is_doomed
    turn.move(run, R.FAILED if has_failed else R.COMPLETED, detail.reason)
    end(turn, run)


def fail(turn: RunTurn, run: Run, reason: str) -> None:
    """End a run in failure that did not come as far as terminating."""
    run.detail.reason = reason
    turn.move(run, R.FAILED, reason)
    _let_go_of_jobs(turn, run, reason)
    end(turn, run)


def stop(turn: RunTurn, run: Run, target: RunState, reason: str, *, wake_others: bool = True) -> None:
    """End a run wherever it is, and all that is under way for it."""
    run.detail.reason = reason
    turn.move(run, target, reason)
    _let_go_of_jobs(turn, run, reason)
    end(turn, run, wake_others=wake_others)


def _let_go_of_jobs(turn: RunTurn, run: Run, reason: str) -> None:
    jobs = list(run.detail.calls)
    if run.job_id is not None:
        jobs.append(run.job_id)
    turn.orders.extend(CancelJob(job_id, reason) for job_id in jobs)


def end(turn: RunTurn, run: Run, *, wake_others: bool = True) -> None:
    """Close the books on a run that has reached a final state; others may have waited for that."""
    turn.rest(run)
    run.completed_at = turn.now
    detail = run.detail
    detail.metrics = metrics_of(run, turn.book.rules_of(run))
    if not detail.is_skipped and (detail.started_at is not None or run.state is R.FAILED):
        run.succeeded = run.state is R.COMPLETED
    shelf = turn.book.shelf(run.workflow_id)
    if run.succeeded is not None:
        shelf.last_succeeded = run.succeeded
    turn.book.close(run)
    detail.calls.clear()
    turn.save(run)
    if wake_others:
        wake_line(turn, shelf)


def wake_line(turn: RunTurn, shelf: WorkflowRuns) -> None:
    """Let those that wait look again, the first one first; none overtakes another."""
    for run in shelf.waiting():
        if run.ended or not run.is_waiting:
            continue
        check_again(turn, run)
        if run.is_waiting:
            return


def check_again(turn: RunTurn, run: Run) -> None:
    """Look at the constraints once more, after a while or because another run ended."""
    counted = run.detail.constraints_checked
    broken = _broken(turn, run)
    if broken and run.is_waiting:
        # It goes on waiting, and nothing is written about that.
        run.detail.constraints_checked = counted
        return
    if not broken:
        hook = turn.book.rules_of(run).constraints.pre_run_hook
        if hook is not None and not run.detail.is_hook_passed:
            if PRE_RUN_HOOK not in run.detail.calls.values():
                actions.call(turn, run, PRE_RUN_HOOK, hook, "run.starting")
            return
        actions.complete(turn, run)
        launch(turn, run)
        return
    for constraint, message in broken:
        turn.violated(run, constraint, message)
    act_on_violation(turn, run)


def take_answer(turn: RunTurn, run: Run, message: JobEnded) -> None:
    """A call that was made for a run has ended."""
    purpose = run.detail.calls.pop(message.job_id)
    turn.book.by_job.pop(message.job_id, None)
    has_failed = message.status != "completed"
    if purpose == PRE_RUN_HOOK:
        _take_hook_answer(turn, run, message, has_failed=has_failed)
    elif purpose == POST_RUN_HOOK:
        if has_failed:
            turn.violated(run, POST_RUN_HOOK, f"the hook could not be called: {message.error}")
        settle(turn, run)
    else:
        actions.finish(turn, run, purpose, message.error or "it failed" if has_failed else None)
        after_action(turn, run, purpose)


def _take_hook_answer(turn: RunTurn, run: Run, message: JobEnded, *, has_failed: bool) -> None:
    if run.state not in (R.CONDITION_RUNNING, R.ACTION_RUNNING):
        return
    rules = turn.book.rules_of(run)
    if has_failed and rules.constraints.on_check_error is OnCheckError.SKIP:
        text = f"the hook could not be asked: {message.error}"
        turn.violated(run, PRE_RUN_HOOK, text)
        if run.state is R.CONDITION_RUNNING:
            turn.move(run, R.ACTION_PENDING)
            turn.move(run, R.ACTION_RUNNING)
        skip(turn, run, text)
        return
    if has_failed:
        turn.emit(run, "check_failed", {"constraint": PRE_RUN_HOOK, "error": message.error, "decision": "allow"})
    if message.refusal is None:
        run.detail.is_hook_passed = True
        if run.state is R.CONDITION_RUNNING:
            check(turn, run)
        else:
            check_again(turn, run)
        return
    turn.violated(run, PRE_RUN_HOOK, message.refusal)
    act_on_violation(turn, run)


def slow_down(turn: RunTurn, run: Run) -> None:
    """The run takes longer than was expected: that is told, once, and it goes on."""
    if run.state is not R.RUNNING or run.detail.is_slow:
        return
    rules = turn.book.rules_of(run)
    run.detail.is_slow = True
    limit = rules.constraints.max_expected_run_seconds or 0.0
    turn.violated(run, "max_expected_run_time", f"the run takes longer than the expected {limit:g} s")
    if rules.on_slow is not None:
        actions.begin(turn, run, rules.on_slow)
        actions.perform(turn, run, rules.on_slow, actions.ON_SLOW)


def pass_limit(turn: RunTurn, run: Run) -> None:
    """The run takes longer than is allowed: it is stopped, and fails."""
    if run.state not in (R.CONTAINER_CREATING, R.RUNNING) or run.job_id is None:
        return
    limit = turn.book.rules_of(run).constraints.max_allowed_run_seconds or 0.0
    text = f"the run took longer than the allowed {limit:g} s"
    turn.violated(run, "max_allowed_run_time", text)
    if run.state is R.CONTAINER_CREATING:
        turn.move(run, R.RUNNING)
    turn.move(run, R.TERMINATING, text)
    turn.book.by_job.pop(run.job_id, None)
    turn.book.creating.pop(run.job_id, None)
    turn.orders.append(CancelJob(run.job_id, text))
    run.detail.outcome, run.detail.reason, run.detail.is_doomed = "failed", text, True
    conclude(turn, run)


def after_action(turn: RunTurn, run: Run, purpose: str) -> None:
    """Go on after something that was done for a run, well or not."""
    if run.ended:
        return
    if purpose == actions.ON_VIOLATION:
        if run.detail.is_doomed:
            fail(turn, run, run.detail.reason or "a critical action failed")
        else:
            proceed(turn, run)
    else:
        settle(turn, run)
