"""Reports about attempts: started, finished, lost, timed out; of a node or of an iteration."""

from msgspec import structs

from windlass.core import dispatch, pagination
from windlass.core.attempt_meta import execution_meta, failure_meta, success_meta
from windlass.core.deliveries import record_delivery
from windlass.core.events import EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import Attempt
from windlass.core.messages import Failed, Succeeded, TaskError, TaskFinished, TaskLost, TaskStarted
from windlass.core.outcomes import complete, fail
from windlass.core.plan import NodePlan
from windlass.core.report_verdict import ReportVerdict
from windlass.core.retries import (
    CLUSTER_LOSSES,
    LOSSES,
    RATE_LIMITED,
    START_TIMEOUT,
    classified,
    delay_seconds,
    encoded,
    is_retryable,
    loss_delay_seconds,
    rate_limited_delay_seconds,
    wants_retry,
)
from windlass.core.runs.containers import CONTAINER, container_of
from windlass.core.states import NodeMove, NodeStatus
from windlass.core.timers import set_attempt_timer
from windlass.core.turn import (
    LOST,
    REDELIVERED,
    RETRYING,
    Turn,
    end_data,
    json_raw,
)
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
    if message.result_id is not None and not message.is_held:
        if attempt.started_at is None and not attempt.losses:
            # The claim of a worker that reports over HTTP is recorded as the start: nobody claimed this task.
            return ReportVerdict.UNKNOWN
        # Queued, or held by another worker.
        turn.changes.cancels.append(job.task_id(attempt))
    plan = job.plan.nodes[node]
    if message.started_at is None and attempt.worker_id == message.worker_id:
        # The worker did not say how long it ran the attempt: since its claim.
        message = structs.replace(message, started_at=attempt.started_at)
    _credit_worker(turn, attempt, message)
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


def _credit_worker(turn: Turn, attempt: Attempt, message: TaskFinished) -> None:
    """Record the start of an attempt that reports only its end, and whose result it is if several workers held it."""
    worker_id = message.worker_id
    started_at = message.finished_at if message.started_at is None else message.started_at
    is_of_other_worker = False
    if attempt.started_at is None:
        turn.start(attempt, started_at, worker_id)
    elif message.result_id is None and _is_later_start(attempt, worker_id, started_at):
        _redeliver(turn, attempt)
        turn.start(attempt, started_at, worker_id)
    elif attempt.worker_id != worker_id:
        # It was lost and still reported before the worker that got the attempt after it.
        attempt.worker_id = worker_id
        is_of_other_worker = True
    if attempt.losses or is_of_other_worker:
        turn.job.reporters[attempt.node, attempt.index] = (attempt.number, worker_id)


def _succeed(turn: Turn, attempt: Attempt, outcome: Succeeded, message: TaskFinished) -> None:
    plan = turn.job.plan.nodes[attempt.node]
    if plan.on_success is not None:
        pagination.take_answer(turn, attempt, outcome, message)
    else:
        complete(turn, attempt, outcome.output, outcome.meta, success_meta(plan, attempt, message))


def _record(turn: Turn, attempt: Attempt, plan: NodePlan, message: TaskFinished) -> None:
    """Record what the results of some handlers say besides their outputs."""
    if plan.handler == WEBHOOK:
        record_delivery(turn, attempt, message)
    elif plan.handler == CONTAINER and turn.job.plan.runs is not None:
        container = container_of(message.outcome, f"{plan.id}[{attempt.index}]")
        turn.changes.of_runs().containers.append((turn.job.id, container))


def _fail_or_retry(
    turn: Turn, attempt: Attempt, reported: TaskError, message: TaskFinished
) -> None:
    job = turn.job
    error = classified(reported)
    if error.type in LOSSES:
        _redispatch_lost(turn, attempt, error, message)
        return
    attempts_made = attempt.attempts_made
    plan = job.plan.nodes[attempt.node]
    rule = plan.on_error
    if error.failure_class == RATE_LIMITED and _wait_for_server(turn, attempt, error, message):
        return
    if not wants_retry(job, attempt, rule, error, attempts_made):
        fail(turn, attempt, error, failure_meta(plan, attempt, message, will_retry=False))
        return
    delay = delay_seconds(rule, attempts_made, error.retry_after_seconds, message.seed)
    _back_off(turn, attempt, error, delay, message)


def _wait_for_server(turn: Turn, attempt: Attempt, error: TaskError, message: TaskFinished) -> bool:
    """Repeat a rate-limited attempt without counting it; return False if that lasted too long or is not wanted."""
    job = turn.job
    plan = job.plan.nodes[attempt.node]
    rule = plan.on_error
    first_at = attempt.rate_limited_at or turn.now
    delay = rate_limited_delay_seconds(
        rule, attempt.rate_limits + 1, error.retry_after_seconds, message.seed
    )
    waited = turn.now - first_at + round(delay * MICROSECONDS)
    if waited > round(rule.rate_limited_max_seconds * MICROSECONDS):
        return False
    if not is_retryable(job, attempt, rule, error, attempt.attempts_made):
        return False
    attempt.rate_limited_at = first_at
    attempt.rate_limits += 1
    attempt.attempts_before += 1
    _back_off(turn, attempt, error, delay, message)
    if attempt.is_iteration and attempt.due_at is not None:
        loop = job.loops[attempt.node]
        loop.slow_down(turn.now, attempt.due_at)
        turn.save_node(attempt.node, loop.node_attempt)
    return True


def _back_off(
    turn: Turn, attempt: Attempt, error: TaskError, delay: float, message: TaskFinished | None
) -> None:
    """Wait before the next attempt. Without a message, the worker did not report the failure."""
    plan = turn.job.plan.nodes[attempt.node]
    attempt.backoff_seconds = delay
    attempt.due_at = turn.now + round(delay * MICROSECONDS)
    turn.transition(attempt, NodeMove.BACK_OFF)
    data = {
        "attempt_number": attempt.number,
        "next_attempt": attempt.number + 1,
        "delay_seconds": delay,
        "worker_id": attempt.worker_id,
        "error": error,
    }
    meta = failure_meta(plan, attempt, message, will_retry=True)
    turn.emit_attempt(attempt, RETRYING, json_raw(data), meta=meta)
    turn.save(attempt, error=encoded(error))
    set_attempt_timer(turn, attempt)


def _redispatch_lost(turn: Turn, attempt: Attempt, error: TaskError, message: TaskFinished) -> None:
    """Make another attempt after the process or the pod of the handler was lost. It does not count as the author's."""
    plan = turn.job.plan.nodes[attempt.node]
    attempt.losses += 1
    is_of_cluster = error.type in CLUSTER_LOSSES
    if not is_of_cluster:
        _emit_loss(turn, attempt, message.worker_id, error)
    if attempt.losses > plan.redeliveries_max:
        fail(turn, attempt, error, failure_meta(plan, attempt, message, will_retry=False))
        return
    attempt.attempts_before += 1
    if is_of_cluster:
        _back_off(turn, attempt, error, loss_delay_seconds(attempt.losses), message)
        return
    attempt.backoff_seconds = 0.0
    turn.transition(attempt, NodeMove.BACK_OFF)
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
        if job.plan.nodes[node].start_timeout_seconds is not None:
            # The next worker has as much time as the first one.
            attempt.dispatched_at = turn.now
            set_attempt_timer(turn, attempt)
        turn.save(attempt)
        return
    turn.withdraw(attempt)
    text = (
        f"the worker died {attempt.losses} times while it ran this task; the task may be the cause"
    )
    error = TaskError(
        type=TaskError.WORKER_LOST, message=text, retryable=False, without_result=True
    )
    meta = failure_meta(job.plan.nodes[node], attempt, None, will_retry=False)
    fail(turn, attempt, classified(error), meta)


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
    if attempt is None:
        return
    if job.state_of(attempt) == _RUNNING:
        if not _is_later_start(attempt, message.worker_id, message.started_at):
            return
        _redeliver(turn, attempt)
    turn.start(attempt, message.started_at, message.worker_id)
    turn.save(attempt)
    set_attempt_timer(turn, attempt)


def _is_later_start(attempt: Attempt, worker_id: str, started_at: int) -> bool:
    """Whether another worker started an attempt after the one that is known to run it, which handed it back."""
    return worker_id != attempt.worker_id and started_at > (attempt.started_at or 0)


def _redeliver(turn: Turn, attempt: Attempt) -> None:
    """Record that a worker handed an attempt back, before another worker starts it."""
    turn.emit_attempt(attempt, REDELIVERED, end_data(attempt))
    turn.transition(attempt, NodeMove.REDELIVER)


def time_out_attempt(turn: Turn, attempt: Attempt) -> None:
    """Give up an attempt whose worker neither enforced its timeout nor reported a result."""
    plan = turn.job.plan.nodes[attempt.node]
    text = f"no result within the timeout of {plan.timeout_seconds:g} s; the worker did not stop the attempt"
    _give_up(turn, attempt, TaskError(type="timeout", message=text, without_result=True))


def time_out_start(turn: Turn, attempt: Attempt) -> None:
    """Give up an attempt that no worker started in time, and withdraw its task."""
    plan = turn.job.plan.nodes[attempt.node]
    text = (
        f"no worker started the task within {plan.start_timeout_seconds:g} s; "
        f"start a worker for queue '{plan.queue}' that has handler '{plan.handler}'"
    )
    _give_up(turn, attempt, TaskError(type=START_TIMEOUT, message=text, without_result=True))


def _give_up(turn: Turn, attempt: Attempt, reported: TaskError) -> None:
    """Close an attempt without a result: it is retried if the author's rule allows it, or fails."""
    job = turn.job
    plan = job.plan.nodes[attempt.node]
    error = classified(reported)
    turn.withdraw(attempt)
    attempts_made = attempt.attempts_made
    if wants_retry(job, attempt, plan.on_error, error, attempts_made):
        _back_off(turn, attempt, error, delay_seconds(plan.on_error, attempts_made, None, 0), None)
    else:
        fail(turn, attempt, error, failure_meta(plan, attempt, None, will_retry=False))


def _ignore(turn: Turn, node: int, message: TaskFinished) -> ReportVerdict:
    """Judge a result that no attempt waits for; record it once if its attempt was closed without it."""
    job = turn.job
    index = None if job.plan.nodes[node].loop is None else message.index
    key = (node, -1 if index is None else index)
    attempt, reporter = job.reporters.get(key, (-1, ""))
    is_of_other_worker = attempt == message.attempt and reporter != message.worker_id
    if is_of_other_worker or message.attempt in job.late.get(key, ()):
        if (*key, message.attempt) not in job.ignored:
            turn.save_ignored((*key, message.attempt))
            _emit_ignored(turn, message, index)
        return ReportVerdict.LATE
    if 0 < message.attempt <= job.last_attempt_of_task(node, message.index):
        return ReportVerdict.REPEATED
    return ReportVerdict.UNKNOWN


def _emit_ignored(turn: Turn, message: TaskFinished, index: int | None) -> None:
    outcome = "failed" if isinstance(message.outcome, Failed) else "completed"
    data = {"attempt_number": message.attempt, "worker_id": message.worker_id, "outcome": outcome}
    turn.emit(EventType.RESULT_IGNORED, message.node_id, json_raw(data), index=index)
