"""Reports about attempts: started, finished, lost, timed out; of a node or of an iteration."""

from msgspec import Raw

from windlass.core import dispatch, pagination
from windlass.core.deliveries import record_delivery
from windlass.core.events import EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import Attempt
from windlass.core.messages import Failed, Succeeded, TaskError, TaskFinished, TaskLost, TaskStarted
from windlass.core.outcomes import complete, fail
from windlass.core.plan import NodePlan
from windlass.core.report_verdict import ReportVerdict
from windlass.core.retries import (
    LOSSES,
    classified,
    delay_seconds,
    encoded,
    retry_meta,
    wants_retry,
)
from windlass.core.runs.containers import CONTAINER, container_of
from windlass.core.states import NodeMove, NodeStatus
from windlass.core.timers import set_attempt_timer
from windlass.core.turn import LOST, RETRYING, Turn, execution_meta, json_raw
from windlass.core.webhooks import HANDLER as WEBHOOK

_RUNNING, _ACCEPTED = int(NodeStatus.RUNNING), ReportVerdict.ACCEPTED


def finish_task(turn: Turn, message: TaskFinished) -> ReportVerdict:
    """Apply the result of an attempt, once, and only of the attempt that is awaited. Return the verdict on it."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    if node < 0:
        return ReportVerdict.UNKNOWN
    attempt = job.find_attempt(node, message.index, message.attempt)
    if attempt is None:
        return _ignore(turn, node, message)
    plan = job.plan.nodes[node]
    if attempt.started_at is None:
        turn.start(attempt, message.started_at, message.worker_id)
    turn.context = message.context
    outcome = message.outcome
    if isinstance(outcome, Failed):
        _record(turn, attempt, plan, message)
        _fail_or_retry(turn, attempt, outcome.error, message)
    elif plan.is_plain:
        turn.complete_node(
            attempt, outcome.output, outcome.meta, execution_meta(message.microseconds)
        )
    else:
        _record(turn, attempt, plan, message)
        _succeed(turn, attempt, outcome, message)
    return _ACCEPTED


def _succeed(turn: Turn, attempt: Attempt, outcome: Succeeded, message: TaskFinished) -> None:
    plan = turn.job.plan.nodes[attempt.node]
    if plan.on_success is not None:
        pagination.take_answer(turn, attempt, outcome, message)
    else:
        complete(turn, attempt, outcome.output, outcome.meta, _execution_meta(plan, message))


def _record(turn: Turn, attempt: Attempt, plan: NodePlan, message: TaskFinished) -> None:
    """Record what the results of some handlers say besides their outputs."""
    if plan.handler == WEBHOOK:
        record_delivery(turn, attempt, message)
    elif plan.handler == CONTAINER and turn.job.plan.runs is not None:
        turn.changes.of_runs().containers.append((turn.job.id, container_of(message.outcome)))


def _fail_or_retry(
    turn: Turn, attempt: Attempt, reported: TaskError, message: TaskFinished
) -> None:
    job = turn.job
    error = classified(reported)
    if error.type in LOSSES:
        _redispatch_lost(turn, attempt, error, message.worker_id)
        return
    attempts_made = attempt.attempts_made
    plan = job.plan.nodes[attempt.node]
    rule = plan.on_error
    if not wants_retry(job, attempt, rule, error, attempts_made):
        fail(turn, attempt, error, _execution_meta(plan, message, will_retry=False))
        return
    delay = delay_seconds(rule, attempts_made, error.retry_after_seconds, message.seed)
    _back_off(turn, attempt, error, delay, _execution_meta(plan, message, will_retry=True))


def _back_off(
    turn: Turn, attempt: Attempt, error: TaskError, delay: float, meta: Raw | None = None
) -> None:
    attempt.due_at = turn.now + round(delay * MICROSECONDS)
    turn.transition(attempt, NodeMove.BACK_OFF)
    data = {
        "attempt_number": attempt.number,
        "next_attempt": attempt.number + 1,
        "delay_seconds": delay,
        "error": error,
    }
    turn.emit_attempt(attempt, RETRYING, json_raw(data), meta=meta, parent_seq=attempt.first_seq)
    turn.save(attempt, error=encoded(error))
    set_attempt_timer(turn, attempt)


def _redispatch_lost(turn: Turn, attempt: Attempt, error: TaskError, worker_id: str) -> None:
    """Make another attempt at once after the process of the handler died. It does not count as the author's."""
    attempt.losses += 1
    _emit_loss(turn, attempt, worker_id, error)
    if attempt.losses > turn.job.plan.nodes[attempt.node].redeliveries_max:
        fail(turn, attempt, error)
        return
    turn.transition(attempt, NodeMove.BACK_OFF)
    attempt.attempts_before += 1
    dispatch.dispatch_again(turn, attempt)


def lose_task(turn: Turn, message: TaskLost) -> None:
    """Count the loss of a worker. The attempt starts again with the next worker, unless that happened too often."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    if node < 0:
        return
    attempt = job.find_attempt(node, message.index, message.attempt)
    if attempt is None:
        _cancel_outdated(turn, node, message)
        return
    if message.losses <= attempt.losses:
        return
    attempt.losses = message.losses
    _emit_loss(turn, attempt, message.worker_id)
    if attempt.losses <= job.plan.nodes[node].redeliveries_max:
        attempt.started_at = None
        attempt.worker_id = None
        turn.transition(attempt, NodeMove.REDELIVER)
        turn.save(attempt)
        return
    turn.withdraw(attempt)
    text = (
        f"the worker died {attempt.losses} times while it ran this task; the task may be the cause"
    )
    error = TaskError(
        type=TaskError.WORKER_LOST, message=text, retryable=False, without_result=True
    )
    fail(turn, attempt, classified(error))


def _cancel_outdated(turn: Turn, node: int, message: TaskLost) -> None:
    """Withdraw an attempt that is not awaited any more: it may kill one worker after the other."""
    is_iteration = turn.job.plan.nodes[node].loop is not None
    outdated = Attempt(node, message.attempt, index=message.index, is_iteration=is_iteration)
    turn.changes.cancels.append(turn.job.task_id(outdated))


def _emit_loss(
    turn: Turn, attempt: Attempt, worker_id: str, error: TaskError | None = None
) -> None:
    data: dict[str, object] = {
        "attempt_number": attempt.number,
        "worker_id": worker_id,
        "losses": attempt.losses,
    }
    if error is not None:
        data["error"] = error
    turn.emit_attempt(attempt, LOST, json_raw(data))


def start_task(turn: Turn, message: TaskStarted) -> None:
    """Record the start of an attempt. Short attempts report only their end."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    attempt = job.find_attempt(node, message.index, message.attempt)
    if attempt is None or job.state_of(attempt) == _RUNNING:
        return
    turn.start(attempt, message.started_at, message.worker_id)
    turn.save(attempt)
    set_attempt_timer(turn, attempt)


def time_out_attempt(turn: Turn, attempt: Attempt) -> None:
    """Give up an attempt whose worker neither enforced its timeout nor reported a result."""
    job = turn.job
    plan = job.plan.nodes[attempt.node]
    text = f"no result within the timeout of {plan.timeout_seconds:g} s; the worker did not stop the attempt"
    error = classified(TaskError(type="timeout", message=text, without_result=True))
    turn.withdraw(attempt)
    attempts_made = attempt.attempts_made
    if wants_retry(job, attempt, plan.on_error, error, attempts_made):
        _back_off(turn, attempt, error, delay_seconds(plan.on_error, attempts_made, None, 0))
    else:
        fail(turn, attempt, error)


def _ignore(turn: Turn, node: int, message: TaskFinished) -> ReportVerdict:
    """Judge a result that no attempt waits for; record it once if its attempt was closed without it."""
    job = turn.job
    index = None if job.plan.nodes[node].loop is None else message.index
    key = (node, -1 if index is None else index, message.attempt)
    if key in job.late:
        if key not in job.ignored:
            job.ignored.add(key)
            _emit_ignored(turn, message, index)
        return ReportVerdict.LATE
    if 0 < message.attempt <= job.last_attempt_of_task(node, message.index):
        return ReportVerdict.REPEATED
    return ReportVerdict.UNKNOWN


def _emit_ignored(turn: Turn, message: TaskFinished, index: int | None) -> None:
    outcome = "failed" if isinstance(message.outcome, Failed) else "completed"
    data = {"attempt_number": message.attempt, "worker_id": message.worker_id, "outcome": outcome}
    turn.emit(EventType.RESULT_IGNORED, message.node_id, json_raw(data), index=index)


def _execution_meta(plan: NodePlan, message: TaskFinished, will_retry: bool | None = None) -> Raw:
    retry = retry_meta(plan, message.attempt, will_retry)
    if retry is None:
        return execution_meta(message.microseconds)
    return json_raw(
        {"execution": {"duration_seconds": message.microseconds / MICROSECONDS}, "retry": retry}
    )
