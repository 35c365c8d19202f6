"""The job of a run: its launch, its start, its containers, its end, and the bounds on its duration."""

from msgspec import structs

from windlass.core.ids import JobId, derived_job_id
from windlass.core.runs import actions
from windlass.core.runs.closing import (
    conclude,
    end_action,
    fail,
    fail_permanently,
    may_retry,
    stop,
)
from windlass.core.runs.commands import AdmitJob, CancelJob, MakeJob, RetryJob
from windlass.core.runs.constraints import (
    MAX_ALLOWED_RUN_TIME,
    MAX_EXPECTED_RUN_TIME,
    START_TIMEOUT,
)
from windlass.core.runs.messages import Container, JobFinished, RunWait
from windlass.core.runs.registry import RETRY, R, Run, bound_at, bounds
from windlass.core.runs.rows import RunMetrics
from windlass.core.runs.rules import ActionEvent
from windlass.core.runs.turn import RunTurn

# While its job is under way, waits for a worker, or is about to be retried.
BOUNDED = frozenset({R.CONTAINER_CREATING, R.RUNNING, R.RETRYING})


def launch(turn: RunTurn, run: Run) -> None:
    """Let the run's job start: a new one, a submitted one, or the failed nodes of the last attempt."""
    turn.clear_timer(run)
    turn.move(run, R.CONTAINER_CREATING)
    detail = run.detail
    if detail.launched_at is None:
        detail.launched_at = turn.now
    turn.run_changes.timers += bounds(run, turn.registry.rules_of(run))
    if detail.metrics is not None:
        # The exit code of the last attempt is not that of this one.
        detail.metrics = structs.replace(detail.metrics, exit_code=None)
    job_id = run.job_id
    if job_id is None or _needs_new_job(turn, run):
        job_id = _make_job(turn, run)
    elif run.attempt:
        turn.commands.append(RetryJob(job_id))
    elif detail.origin == RETRY:
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
        origin=run.detail.origin,
        depth=run.detail.depth,
    )
    turn.commands.append(command)
    return job_id


def start(turn: RunTurn, run: Run, started_at: int) -> None:
    """Record that the first task of the job has started."""
    turn.move(run, R.RUNNING, at=started_at)
    if run.detail.started_at is None:
        run.detail.started_at = run.state_at
    turn.save(run)


def end_job(turn: RunTurn, run: Run, message: JobFinished) -> None:
    """Record that the run's job has ended or was cancelled."""
    turn.registry.creating.pop(message.job_id, None)
    if run.detail.is_closing:
        return
    if message.status == "cancelled":
        stop(turn, run, R.CANCELLED, message.error or "the job was cancelled")
        return
    if run.state is R.CONTAINER_CREATING:
        # No task ever started. The table has no way from here to another attempt but through `running`.
        if message.status == "failed" and not may_retry(turn, run):
            fail(turn, run, message.error or "the job failed", is_job_over=True)
            return
        start(turn, run, turn.now)
    if run.state is not R.RUNNING:
        return
    turn.move(run, R.TERMINATING)
    run.detail.outcome = message.status
    if message.status == "failed":
        run.add_reason(message.error or "the job failed")
    conclude(turn, run)


def note_container(turn: RunTurn, run: Run, container: Container) -> None:
    """Add what an attempt reported about its container to the metrics."""
    known = run.detail.metrics or RunMetrics()
    starts = [
        one for one in (known.pod_start_seconds, container.pod_start_seconds) if one is not None
    ]
    exit_code = known.exit_code
    # The exit code of a container that failed is kept, unless a further attempt of its task ended otherwise.
    is_repeated = run.detail.exit_code_task == container.task
    if container.exit_code is not None and (not exit_code or is_repeated):
        exit_code = container.exit_code
        run.detail.exit_code_task = container.task
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
    if run.detail.is_slow or not _has_reached(turn, run, RunWait.SLOW):
        return
    rules = turn.registry.rules_of(run)
    run.detail.is_slow = True
    run.detail.constraints_checked += 1
    limit = rules.constraints.max_expected_run_seconds or 0.0
    turn.violate(run, MAX_EXPECTED_RUN_TIME, f"the run takes longer than the expected {limit:g} s")
    if rules.on_slow is not None:
        actions.start(turn, run, rules.on_slow)
        error = actions.perform(turn, run, rules.on_slow, ActionEvent.SLOW)
        if error is not None:
            end_action(turn, run, ActionEvent.SLOW, error)


def exceed_start_limit(turn: RunTurn, run: Run) -> None:
    """Fail a run none of whose tasks has started in time."""
    if not _has_reached(turn, run, RunWait.START_LIMIT):
        return
    limit = turn.registry.rules_of(run).constraints.start_timeout_seconds or 0.0
    text = (
        f"no task started within the start timeout of {limit:g} s; is there a worker for its queue?"
    )
    run.detail.constraints_checked += 1
    turn.violate(run, START_TIMEOUT, text)
    fail(turn, run, text)


def exceed_limit(turn: RunTurn, run: Run) -> None:
    """Stop and fail a run that takes longer than allowed."""
    if run.job_id is None or not _has_reached(turn, run, RunWait.LIMIT):
        return
    limit = turn.registry.rules_of(run).constraints.max_allowed_run_seconds or 0.0
    text = f"the run took longer than the allowed {limit:g} s"
    run.detail.constraints_checked += 1
    turn.violate(run, MAX_ALLOWED_RUN_TIME, text)
    if run.state is not R.RUNNING:
        fail(turn, run, text, is_job_over=run.state is R.RETRYING)
        return
    turn.move(run, R.TERMINATING, text)
    turn.registry.forget_job(run.job_id)
    turn.commands.append(CancelJob(run.job_id, text))
    fail_permanently(run, text)
    conclude(turn, run)


def _has_reached(turn: RunTurn, run: Run, kind: RunWait) -> bool:
    """Whether a bound is reached. Its timer is set again if it fired too early, or for an earlier attempt."""
    if run.detail.is_closing or run.state not in BOUNDED:
        # Another attempt sets the timers again.
        return False
    due_at = bound_at(run, turn.registry.rules_of(run), kind)
    if due_at is None:
        return False
    if turn.now < due_at:
        turn.run_changes.timers.append(run.timer(due_at, kind))
        return False
    return True
