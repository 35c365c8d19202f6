"""The end of a run: another attempt or none, its last calls, and its final state.

`on_failure` and the hook after the run are carried out once for every run that fails, with its outcome and reason. The
outcome is therefore decided first: critical actions that can still fail the run end before the last calls.
"""

from windlass.core.delays import exponential_delay
from windlass.core.ids import JobId
from windlass.core.runs import actions
from windlass.core.runs.commands import CancelJob
from windlass.core.runs.constraints import (
    MAX_ALLOWED_RUN_TIME,
    MAX_EXPECTED_RUN_TIME,
    START_TIMEOUT,
)
from windlass.core.runs.messages import RunWait
from windlass.core.runs.metrics import metrics_of
from windlass.core.runs.registry import R, Run, bounds
from windlass.core.runs.rules import POST_RUN_HOOK, Action, ActionEvent, RunRetry, RunRules
from windlass.core.runs.states import RunState
from windlass.core.runs.turn import RunTurn

# After a job that ended


def conclude(turn: RunTurn, run: Run) -> None:
    """Start another attempt after the job, or make the last calls; first end the critical actions that decide which."""
    rules, detail = turn.registry.rules_of(run), run.detail
    if not detail.has_failed_permanently and actions.has_critical_call(turn, run):
        turn.save(run)
        return
    if _has_failed(run):
        if may_retry(turn, run):
            run.attempt += 1
            turn.move(run, R.RETRYING, detail.reason)
            turn.set_timer_after(run, delay_seconds(rules.retry, run.attempt), RunWait.RETRY)
            # Those that were reached while it terminated.
            turn.run_changes.timers += bounds(run, rules)
        else:
            detail.outcome = R.FAILED.value
            _make_last_calls(turn, run, ActionEvent.FAILURE)
        return
    action = rules.on_success
    if action is None or not action.critical or _has_performed(run):
        _make_last_calls(turn, run, ActionEvent.SUCCESS)
        return
    error = _start_action(turn, run, action, ActionEvent.SUCCESS)
    if error is not None:
        end_action(turn, run, ActionEvent.SUCCESS, error)


def _has_performed(run: Run) -> bool:
    """Return whether the action on success has ended. There is at most one, at the end of the run."""
    return any(one.on == ActionEvent.SUCCESS for one in run.detail.actions)


def _start_action(turn: RunTurn, run: Run, action: Action, event: ActionEvent) -> str | None:
    actions.start(turn, run, action)
    return actions.perform(turn, run, action, event)


def end_action(
    turn: RunTurn, run: Run, event: ActionEvent, error: str | None, job_id: JobId | None = None
) -> None:
    """Continue a run after an action on its success, failure or slowness."""
    _record_end(turn, run, event, error, job_id)
    if run.detail.is_closing:
        settle(turn, run)
    elif run.state is R.TERMINATING:
        conclude(turn, run)
    else:
        turn.save(run)


def _record_end(
    turn: RunTurn, run: Run, event: ActionEvent, error: str | None, job_id: JobId | None = None
) -> None:
    failure = actions.finish(turn, run, event, error, job_id)
    if failure is not None:
        fail_permanently(run, failure)


def fail_permanently(run: Run, reason: str) -> None:
    """Record why a run fails at its end, without another attempt; earlier reasons stay first."""
    run.detail.has_failed_permanently = True
    run.add_reason(reason)


def may_retry(turn: RunTurn, run: Run) -> bool:
    """Return whether another attempt may follow."""
    retries = turn.registry.rules_of(run).retry.max_retries
    return run.attempt < retries and not run.detail.has_failed_permanently


def delay_seconds(retry: RunRetry, attempt: int) -> float:
    """Return the delay before an attempt; the first retry is number 1."""
    grown = exponential_delay(retry.initial_delay_seconds, retry.backoff_multiplier, attempt)
    return min(grown, retry.max_delay_seconds)


def _has_failed(run: Run) -> bool:
    return run.detail.outcome == R.FAILED or run.detail.has_failed_permanently


# Last calls


def _make_last_calls(turn: RunTurn, run: Run, event: ActionEvent) -> None:
    """Call the hook after the run and carry out its last action; end the run if there is nothing to wait for."""
    rules, detail = turn.registry.rules_of(run), run.detail
    detail.is_closing = True
    _count_bounds(run, rules)
    if rules.constraints.post_run_hook is not None:
        detail.constraints_checked += 1
        actions.call(turn, run, POST_RUN_HOOK, rules.constraints.post_run_hook)
    action = rules.action(event)
    if action is not None and not (event is ActionEvent.SUCCESS and _has_performed(run)):
        error = _start_action(turn, run, action, event)
        if error is not None:
            _record_end(turn, run, event, error)
    settle(turn, run)


def _count_bounds(run: Run, rules: RunRules) -> None:
    """Count the bounds on the duration that the run kept; those that it violated are counted."""
    constraints, detail = rules.constraints, run.detail
    if detail.launched_at is None:
        return
    violated = {one.constraint for one in detail.violations}
    limits = {
        START_TIMEOUT: constraints.start_timeout_seconds,
        MAX_EXPECTED_RUN_TIME: constraints.max_expected_run_seconds,
        MAX_ALLOWED_RUN_TIME: constraints.max_allowed_run_seconds,
    }
    kept = [name for name, limit in limits.items() if limit is not None and name not in violated]
    detail.constraints_checked += len(kept)


def end_post_run_hook(turn: RunTurn, run: Run, failure: str | None) -> None:
    """Continue a run after the call of the hook after it."""
    if failure is not None:
        turn.violate(run, POST_RUN_HOOK, f"the hook could not be called: {failure}")
    settle(turn, run)


def settle(turn: RunTurn, run: Run) -> None:
    """End a closing run once all of its calls have ended."""
    detail = run.detail
    if detail.calls:
        turn.save(run)
        return
    target = detail.closing_state
    if target is None:
        target = R.FAILED if _has_failed(run) else R.COMPLETED
    turn.move(run, target, detail.reason)
    end(turn, run)


# Ends without a job that ended


def skip(turn: RunTurn, run: Run, reason: str) -> None:
    """End a run without a job. A further attempt that may not start fails the run instead."""
    if run.attempt:
        fail(turn, run, reason)
        return
    run.detail.is_skipped = True
    run.detail.reason = reason
    turn.move(run, R.COMPLETED, f"skipped: {reason}")
    if run.job_id is not None and run.has_submitted_job:
        turn.commands.append(CancelJob(run.job_id, f"the run was skipped: {reason}"))
    end(turn, run)


def fail(turn: RunTurn, run: Run, reason: str, *, is_job_over: bool = False) -> None:
    """Fail a run that does not terminate after a job."""
    close(turn, run, R.FAILED, reason, is_job_over=is_job_over)


def close(
    turn: RunTurn, run: Run, target: RunState, reason: str, *, is_job_over: bool = False
) -> None:
    """Cancel the job and the calls of a run that cannot continue, and end it after its last calls.

    It keeps its state until they end: the table allows `terminating` only after `running`.
    """
    turn.clear_timer(run)
    detail = run.detail
    run.add_reason(reason)
    detail.outcome = target.value
    detail.closing_state = target
    for job_id in run.job_ids:
        turn.registry.forget_job(job_id)
        if not is_job_over or job_id != run.job_id:
            turn.commands.append(CancelJob(job_id, reason))
    actions.abandon(turn, run)
    # It no longer waits before others, nor asks for room.
    turn.wake_others(run.workflow_id)
    _make_last_calls(turn, run, ActionEvent.FAILURE)


def stop(turn: RunTurn, run: Run, target: RunState, reason: str) -> None:
    """End a run in any state at once, and cancel its job and its calls."""
    run.detail.reason = reason
    turn.commands += [CancelJob(job_id, reason) for job_id in run.job_ids]
    actions.abandon(turn, run)
    turn.move(run, target, reason)
    end(turn, run)


def end(turn: RunTurn, run: Run) -> None:
    """Complete the row of a run that has reached a final state; the runs that waited for it check again."""
    turn.clear_timer(run)
    run.completed_at = turn.now
    detail = run.detail
    detail.metrics = metrics_of(run.row(), turn.now, turn.registry.heartbeats)
    if not detail.is_skipped and (detail.started_at is not None or run.state is R.FAILED):
        run.succeeded = run.state is R.COMPLETED
        turn.registry.workflow(run.workflow_id).last_succeeded = run.succeeded
    turn.registry.close(run)
    detail.calls.clear()
    turn.save(run)
    turn.wake_others(run.workflow_id)
