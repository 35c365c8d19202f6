"""The life of one attempt after its dispatch: started, finished, lost, timed out; of a node or of an iteration."""

from msgspec import Raw

from windlass.core import dispatch, first_attempt, loops, pagination
from windlass.core.deliveries import record_delivery
from windlass.core.events import EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import Attempt
from windlass.core.messages import Failed, Succeeded, TaskError, TaskFinished, TaskLost, TaskStarted
from windlass.core.outcomes import complete, fail, wait
from windlass.core.report_verdict import ReportVerdict
from windlass.core.retries import (
    LOSSES,
    WORKER_LOST,
    classified,
    delay_seconds,
    encoded,
    retry_meta,
    wants_retry,
)
from windlass.core.runs.containers import CONTAINER, container_of
from windlass.core.states import NodeMove, NodeStatus
from windlass.core.turn import LOST, RETRYING, STARTED, Turn, execution_meta, json_raw, start_data
from windlass.core.webhooks import HANDLER as WEBHOOK

# The worker enforces a node's timeout. This much later the core stops waiting for a worker that did not.
NODE_TIMEOUT_GRACE_SECONDS = 30.0

# Looking a member up in its enum takes longer than using it.
_START, _RUNNING, _ACCEPTED = NodeMove.START, int(NodeStatus.RUNNING), ReportVerdict.ACCEPTED


def finish_task(turn: Turn, message: TaskFinished) -> None:
    """Apply a report; if it is stored, record the verdict. The first verdict on a repeated message stays."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    if node < 0:
        verdict = ReportVerdict.UNKNOWN
    elif first_attempt.complete(turn, node, job.plan.nodes[node], message):
        verdict = _ACCEPTED
    else:
        verdict = _finish_attempt(turn, node, message)
    if message.result_id is not None:
        turn.changes.results.setdefault(message.result_id, verdict)


def _finish_attempt(turn: Turn, node: int, message: TaskFinished) -> ReportVerdict:
    """Accept the result of the awaited attempt, once."""
    job = turn.job
    attempt = job.find_attempt(node, message.index, message.attempt)
    if attempt is None:
        return _ignore(turn, node, message)
    _record_start(turn, attempt, message.started_at, message.worker_id)
    turn.context = message.context
    outcome = message.outcome
    handler = job.plan.nodes[node].handler
    if handler == WEBHOOK:
        record_delivery(turn, attempt, message)
    elif handler == CONTAINER and job.plan.runs is not None:
        turn.changes.of_runs().containers.append((job.id, container_of(outcome)))
    if isinstance(outcome, Succeeded):
        _succeed(turn, attempt, outcome, message)
    else:
        _fail_or_retry(turn, attempt, outcome.error, message)
    return _ACCEPTED


def _succeed(turn: Turn, attempt: Attempt, outcome: Succeeded, message: TaskFinished) -> None:
    if turn.job.plan.nodes[attempt.node].on_success is not None:
        pagination.take_answer(turn, attempt, outcome, message)
    else:
        complete(turn, attempt, outcome.output, outcome.meta, _execution_meta(turn, attempt, message))


def _fail_or_retry(turn: Turn, attempt: Attempt, reported: TaskError, message: TaskFinished) -> None:
    job = turn.job
    error = classified(reported)
    if error.type in LOSSES:
        _redispatch_lost(turn, attempt, error, message.worker_id)
        return
    attempts_made = attempt.attempts_made
    rule = job.plan.nodes[attempt.node].on_error
    if not wants_retry(job, attempt, rule, error, attempts_made):
        fail(turn, attempt, error, _execution_meta(turn, attempt, message, will_retry=False))
        return
    delay = delay_seconds(rule, attempts_made, error.retry_after_seconds, message.seed)
    _back_off(turn, attempt, error, delay, _execution_meta(turn, attempt, message, will_retry=True))


def _back_off(turn: Turn, attempt: Attempt, error: TaskError, delay: float, meta: Raw | None = None) -> None:
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
    wait(turn, attempt)


def _redispatch_lost(turn: Turn, attempt: Attempt, error: TaskError, worker_id: str) -> None:
    """The process under the handler died: another attempt at once, on the budget of losses, not the author's."""
    attempt.losses += 1
    _emit_loss(turn, attempt, worker_id, error)
    if attempt.losses > turn.job.plan.nodes[attempt.node].redeliveries_max:
        fail(turn, attempt, error)
        return
    turn.transition(attempt, NodeMove.BACK_OFF)
    attempt.attempts_before += 1
    dispatch.dispatch_again(turn, attempt)


def lose_task(turn: Turn, message: TaskLost) -> None:
    """The worker is gone; the broker hands the same attempt out again, unless that happened too often."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    attempt = job.find_attempt(node, message.index, message.attempt) if node >= 0 else None
    if attempt is None and node >= 0:
        # Nobody waits for it any more, and it may kill one worker after the other.
        index = -1 if job.plan.nodes[node].loop is None else message.index
        turn.changes.cancels.append(job.task_id(Attempt(node, message.attempt, index=index)))
    if attempt is None or message.losses <= attempt.losses:
        return
    attempt.losses = message.losses
    _emit_loss(turn, attempt, message.worker_id)
    if attempt.losses > job.plan.nodes[node].redeliveries_max:
        turn.changes.cancels.append(job.task_id(attempt))
        job.late.add((attempt.node, attempt.index, attempt.number))
        text = f"the worker died {attempt.losses} times while it ran this task; it may be the task that kills it"
        fail(turn, attempt, classified(TaskError(type=WORKER_LOST, message=text, retryable=False, without_result=True)))
        return
    turn.save(attempt)


def _emit_loss(turn: Turn, attempt: Attempt, worker_id: str, error: TaskError | None = None) -> None:
    data = {"attempt_number": attempt.number, "worker_id": worker_id, "losses": attempt.losses}
    turn.emit_attempt(attempt, LOST, json_raw(data if error is None else {**data, "error": error}))


def start_task(turn: Turn, message: TaskStarted) -> None:
    """An attempt that takes longer told of its start by itself."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    attempt = job.find_attempt(node, message.index, message.attempt) if node >= 0 else None
    if attempt is None or job.state_of(attempt) == NodeStatus.RUNNING:
        return
    _record_start(turn, attempt, message.started_at, message.worker_id)
    turn.save(attempt)
    limit = job.plan.nodes[node].timeout_seconds + NODE_TIMEOUT_GRACE_SECONDS
    due_at = turn.now + round(limit * MICROSECONDS)
    turn.set_timer(due_at, "node_timeout", message.node_id, message.attempt, message.index)


def _record_start(turn: Turn, attempt: Attempt, started_at: int, worker_id: str) -> None:
    """RUNNING, once an attempt; the worker's clock may be off, so its instant is kept within what is known here."""
    if turn.job.state_of(attempt) == _RUNNING:
        return
    if attempt.dispatched_at is not None and started_at < attempt.dispatched_at:
        started_at = attempt.dispatched_at
    attempt.started_at = started_at if started_at <= turn.now else turn.now
    attempt.worker_id = worker_id
    if attempt.is_iteration:
        loops.start_loop(turn, attempt)
    turn.transition(attempt, _START)
    data = start_data(attempt.number, worker_id)
    seq = turn.emit_attempt(attempt, STARTED, data, attempt.started_at, None, attempt.parent_seq)
    if attempt.first_seq is None:
        attempt.first_seq = seq


def give_up_on_worker(turn: Turn, attempt: Attempt) -> None:
    """A worker did not end an attempt whose time is over, and says nothing."""
    job = turn.job
    plan = job.plan.nodes[attempt.node]
    text = f"no result after {plan.timeout_seconds:g} s and no word from the worker"
    error = classified(TaskError(type="timeout", message=text, without_result=True))
    turn.changes.cancels.append(job.task_id(attempt))
    job.late.add((attempt.node, attempt.index, attempt.number))
    attempts_made = attempt.attempts_made
    if wants_retry(job, attempt, plan.on_error, error, attempts_made):
        _back_off(turn, attempt, error, delay_seconds(plan.on_error, attempts_made, None, 0))
    else:
        fail(turn, attempt, error)


def _ignore(turn: Turn, node: int, message: TaskFinished) -> ReportVerdict:
    """Judge a result that no attempt waits for; record it once if its attempt was closed without it."""
    job = turn.job
    is_iteration = job.plan.nodes[node].loop is not None
    key = (node, message.index if is_iteration else -1, message.attempt)
    if key in job.late:
        if key not in job.ignored:
            job.ignored.add(key)
            _emit_ignored(turn, message, is_iteration=is_iteration)
        return ReportVerdict.LATE
    if 0 < message.attempt <= job.last_attempt(node, message.index):
        return ReportVerdict.REPEATED
    return ReportVerdict.UNKNOWN


def _emit_ignored(turn: Turn, message: TaskFinished, *, is_iteration: bool) -> None:
    outcome = "failed" if isinstance(message.outcome, Failed) else "completed"
    data = {"attempt_number": message.attempt, "worker_id": message.worker_id, "outcome": outcome}
    turn.emit(EventType.RESULT_IGNORED, message.node_id, json_raw(data), index=message.index if is_iteration else None)


def _execution_meta(turn: Turn, attempt: Attempt, message: TaskFinished, will_retry: bool | None = None) -> Raw:
    microseconds = max(0, message.finished_at - message.started_at)
    plan = turn.job.plan.nodes[attempt.node]
    retry = retry_meta(plan, message.attempt, will_retry)
    if retry is None:
        return execution_meta(microseconds)
    return json_raw({"execution": {"duration_seconds": microseconds / MICROSECONDS}, "retry": retry})
