"""advance(job, message, now) -> Changes: the rules.

A message that is outdated, or delivered again, changes nothing and is no error.
"""

from msgspec import Raw

from windlass.core import endings, progress
from windlass.core.changes import Changes
from windlass.core.job import Flight, Job
from windlass.core.messages import (
    CancelRequested,
    Failed,
    Message,
    Proceeded,
    RetryRequested,
    Submitted,
    Succeeded,
    TaskError,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
)
from windlass.core.retries import REDELIVERIES_MAX, WORKER_LOST, delay_seconds, encoded, wants_retry
from windlass.core.states import JobState, NodeMove, NodeState
from windlass.core.turn import MICROSECONDS, Turn, attempt_data, json_raw, start_data

# The worker enforces a node's timeout. This much later the core stops waiting for a worker that did not.
NODE_TIMEOUT_GRACE_SECONDS = 30.0


def advance(job: Job, message: Message, now: int, changes: Changes | None = None) -> Changes:
    """What follows from `message`, added to `changes` (a batch's, or new ones)."""
    turn = Turn(job, Changes() if changes is None else changes, now)
    match message:
        case TaskFinished():
            _finish_task(turn, message)
        case Submitted():
            _begin(turn)
        case Proceeded():
            pass
        case TaskStarted():
            _start_task(turn, message)
        case TimerDue():
            _wake(turn, message)
        case TaskLost():
            _lose_task(turn, message)
        case CancelRequested():
            endings.cancel_job(turn, message)
        case RetryRequested():
            endings.retry_job(turn, message)
    progress.go_on(turn)
    if not turn.page:
        del turn.changes.events[job.id]
    return turn.changes


def _begin(turn: Turn) -> None:
    job = turn.job
    if job.status is not JobState.PENDING or job.ready:
        return
    if job.scheduled_at is not None and turn.now < job.scheduled_at:
        turn.wake(job.scheduled_at, "begin")
        return
    job.ready.extend(node for node in range(len(job.states)) if not job.states[node] and not job.remaining[node])
    turn.set_deadline()


def _finish_task(turn: Turn, message: TaskFinished) -> None:
    job = turn.job
    if message.result_id is not None:
        turn.changes.results.append(message.result_id)
    node = job.plan.index.get(message.node_id, -1)
    if node < 0:
        return
    if not job.awaits(node, message.attempt):
        _ignore(turn, node, message)
        return
    flight = job.flights[node]
    _record_start(turn, node, flight, message.started_at, message.worker_id)
    outcome = message.outcome
    if isinstance(outcome, Succeeded):
        _complete(turn, node, outcome, message)
    else:
        _fail_or_retry(turn, node, outcome, message)


def _complete(turn: Turn, node: int, outcome: Succeeded, message: TaskFinished) -> None:
    job = turn.job
    turn.move(node, NodeMove.COMPLETE)
    flight = turn.land(node)
    assert flight is not None
    job.outputs[node] = outcome.output
    if outcome.meta is not None:
        job.metas[node] = outcome.meta
    turn.emit(
        "node_completed",
        message.node_id,
        attempt_data(message.attempt),
        meta=_execution_meta(message),
        parent_seq=flight.first_seq if flight.attempt - flight.attempts_before > 1 else None,
    )
    turn.store(node, flight, turn.now)
    turn.release_children(node, skipped=False)


def _fail_or_retry(turn: Turn, node: int, outcome: Failed, message: TaskFinished) -> None:
    job = turn.job
    flight = job.flights[node]
    error = outcome.error
    if error.type == WORKER_LOST:
        _redispatch_lost(turn, node, flight, error, message.worker_id)
        return
    attempts_made = flight.attempt - flight.attempts_before
    rule = job.plan.nodes[node].on_error
    if not wants_retry(job, rule, error, attempts_made):
        endings.fail_node(turn, node, error, meta=_execution_meta(message))
        return
    delay = delay_seconds(rule, attempts_made, error.retry_after_seconds, message.seed)
    _back_off(turn, node, flight, error, delay)


def _back_off(turn: Turn, node: int, flight: Flight, error: TaskError, delay: float) -> None:
    node_id = turn.job.plan.nodes[node].id
    flight.due_at = turn.now + round(delay * MICROSECONDS)
    turn.move(node, NodeMove.BACK_OFF)
    turn.emit(
        "node_retrying",
        node_id,
        json_raw(
            {
                "attempt_number": flight.attempt,
                "next_attempt": flight.attempt + 1,
                "delay_seconds": delay,
                "error": error,
            }
        ),
        parent_seq=flight.first_seq,
    )
    turn.store(node, flight, error=encoded(error))
    turn.wake(flight.due_at, "retry", node_id, flight.attempt)


def _redispatch_lost(turn: Turn, node: int, flight: Flight, error: TaskError, worker_id: str) -> None:
    """The process under the handler died: another attempt at once, on the budget of losses, not the author's."""
    flight.losses += 1
    _emit_loss(turn, node, flight, worker_id)
    if flight.losses > REDELIVERIES_MAX:
        endings.fail_node(turn, node, error)
        return
    turn.move(node, NodeMove.BACK_OFF)
    flight.attempts_before += 1
    progress.dispatch_again(turn, node)


def _lose_task(turn: Turn, message: TaskLost) -> None:
    """The worker is gone; the broker hands the same attempt out again, unless that happened too often."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    if node < 0 or not job.awaits(node, message.attempt):
        return
    flight = job.flights[node]
    if message.losses <= flight.losses:
        return
    flight.losses = message.losses
    _emit_loss(turn, node, flight, message.worker_id)
    if flight.losses > REDELIVERIES_MAX:
        turn.changes.cancels.append(job.task_id(node))
        text = f"the worker died {flight.losses} times while it ran this task; it may be the task that kills it"
        endings.fail_node(turn, node, TaskError(type=WORKER_LOST, message=text, retryable=False))
        return
    turn.store(node, flight)


def _emit_loss(turn: Turn, node: int, flight: Flight, worker_id: str) -> None:
    data = {"attempt_number": flight.attempt, "worker_id": worker_id, "losses": flight.losses}
    turn.emit("worker_lost", turn.job.plan.nodes[node].id, json_raw(data))


def _start_task(turn: Turn, message: TaskStarted) -> None:
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    if node < 0 or not job.awaits(node, message.attempt) or job.states[node] == NodeState.RUNNING:
        return
    flight = job.flights[node]
    _record_start(turn, node, flight, message.started_at, message.worker_id)
    turn.store(node, flight)
    limit = job.plan.nodes[node].timeout_seconds + NODE_TIMEOUT_GRACE_SECONDS
    turn.wake(turn.now + round(limit * MICROSECONDS), "node_timeout", message.node_id, message.attempt)


def _record_start(turn: Turn, node: int, flight: Flight, started_at: int, worker_id: str) -> None:
    """RUNNING, once an attempt; the worker's clock may be off, so its instant is kept within what is known here."""
    if turn.job.states[node] == NodeState.RUNNING:
        return
    turn.move(node, NodeMove.START)
    flight.started_at = min(max(started_at, flight.dispatched_at or 0), turn.now)
    flight.worker_id = worker_id
    data = start_data(flight.attempt, worker_id)
    again = flight.attempt - flight.attempts_before > 1
    parent = flight.first_seq if again else None
    turn.emit("node_started", turn.job.plan.nodes[node].id, data, at=flight.started_at, parent_seq=parent)


def _wake(turn: Turn, message: TimerDue) -> None:
    job = turn.job
    if message.kind == "begin":
        _begin(turn)
        return
    if message.kind == "job_timeout":
        if not job.ended and message.round == job.round:
            endings.time_out_job(turn)
        return
    node = job.plan.index.get(message.node_id or "", -1)
    flight = job.flights.get(node)
    if flight is None or flight.attempt != message.attempt:
        return
    if message.kind == "retry" and job.states[node] == NodeState.WAITING:
        progress.dispatch_again(turn, node)
    elif message.kind == "node_timeout" and job.awaits(node, message.attempt):
        _give_up_on_worker(turn, node, flight)


def _give_up_on_worker(turn: Turn, node: int, flight: Flight) -> None:
    job = turn.job
    plan = job.plan.nodes[node]
    error = TaskError(type="timeout", message=f"no result after {plan.timeout_seconds:g} s and no word from the worker")
    turn.changes.cancels.append(job.task_id(node))
    job.late.add((node, flight.attempt))
    attempts_made = flight.attempt - flight.attempts_before
    if wants_retry(job, plan.on_error, error, attempts_made):
        _back_off(turn, node, flight, error, delay_seconds(plan.on_error, attempts_made, None, 0))
    else:
        endings.fail_node(turn, node, error)


def _ignore(turn: Turn, node: int, message: TaskFinished) -> None:
    """A result nobody waits for: recorded once when its attempt was closed without it, else a mere repetition."""
    key = (node, message.attempt)
    if key not in turn.job.late:
        return
    turn.job.late.discard(key)
    outcome = "completed" if isinstance(message.outcome, Succeeded) else "failed"
    data = {"attempt_number": message.attempt, "worker_id": message.worker_id, "outcome": outcome}
    turn.emit("result_ignored", message.node_id, json_raw(data))


def _execution_meta(message: TaskFinished) -> Raw:
    duration = max(0, message.finished_at - message.started_at) / MICROSECONDS
    return Raw(b'{"execution":{"duration_seconds":%.6f}}' % duration)
