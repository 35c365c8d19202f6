"""Ends of nodes and jobs: failure, cancellation, timeout, completion, and the retry of a finished job."""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Raw

from windlass.core.changes import Arrival
from windlass.core.events import EventType
from windlass.core.job import Job
from windlass.core.json_text import NULL
from windlass.core.loop_state import IN_FLIGHT
from windlass.core.loop_transitions import cancel_iterations, reset_iterations
from windlass.core.messages import CancelRequested, RetryRequested, TaskError
from windlass.core.retries import encoded
from windlass.core.states import JobMove, JobStatus, NodeMove, NodeStatus
from windlass.core.turn import Turn, failure_data, json_raw


def fail_node(turn: Turn, node: int, error: TaskError, end_meta: Raw | None = None) -> None:
    """End a node as failed, with its consequences for the rest of the job."""
    job = turn.job
    plan = job.plan.nodes[node]
    _end_in_failure(turn, node, error, end_meta)
    if plan.allow_failure:
        count_failures(turn, 1)
        turn.meet_dependents(node, skipped=False)
        return
    if job.state.error is None:
        job.state.error = json_raw(
            {"type": error.type, "message": error.message, "node_id": plan.id}
        )
        # Stored at once: independent branches may run for long, and the error must survive a crash meanwhile.
        turn.save_job()
    upstream = TaskError(type="upstream_failed", message=f"node {plan.id} failed", retryable=False)
    for descendant in _descendants(job, [node]):
        if not job.is_node_final(descendant):
            _end_in_failure(turn, descendant, upstream)
    if job.plan.fail_fast:
        _cancel_nodes(turn, f"node {plan.id} failed")


def count_failures(turn: Turn, count: int) -> None:
    """Count failures that the job tolerates. Stored at once, because the job may run on for long."""
    turn.job.state.failures += count
    turn.save_job()


def _end_in_failure(turn: Turn, node: int, error: TaskError, end_meta: Raw | None = None) -> None:
    job = turn.job
    turn.move(node, NodeMove.FAIL)
    attempt = turn.finish(node)
    if attempt is None:
        job.remember_attempt(node, job.attempts_before.get(node, 0))
    if job.plan.nodes[node].allow_failure:
        # Unlike None, which means that there is no output.
        job.outputs[node] = NULL
    parent_seq = worker_id = None
    if attempt is not None:
        parent_seq, worker_id = attempt.parent_seq, attempt.worker_id
    data = failure_data(job.last_attempt_number(node), error, worker_id)
    turn.emit(
        EventType.NODE_FAILED, job.plan.nodes[node].id, data, meta=end_meta, parent_seq=parent_seq
    )
    turn.save_node(node, attempt, turn.now, encoded(error))


def _descendants(job: Job, nodes: Iterable[int]) -> list[int]:
    """Return all nodes downstream of the given ones, each once, breadth first."""
    seen = set(nodes)
    found: list[int] = []
    waiting = deque(seen)
    while waiting:
        for child in job.plan.children[waiting.popleft()]:
            if child not in seen:
                seen.add(child)
                found.append(child)
                waiting.append(child)
    return found


def _cancel_nodes(turn: Turn, reason: str) -> None:
    """Cancel every unfinished node and the tasks that workers run."""
    job = turn.job
    data = json_raw({"reason": reason})
    for node in job.unfinished_nodes():
        if node in job.loops:
            cancel_iterations(turn, node, reason)
        elif job.states[node] in IN_FLIGHT:
            turn.withdraw(job.attempts[node])
        turn.move(node, NodeMove.CANCEL)
        attempt = turn.finish(node)
        parent_seq = None if attempt is None else attempt.parent_seq
        turn.emit(EventType.NODE_CANCELLED, job.plan.nodes[node].id, data, parent_seq=parent_seq)
        turn.save_node(node, attempt, turn.now)
    job.ready.clear()


def end_job(turn: Turn) -> None:
    """End a job whose nodes have all ended."""
    job = turn.job
    if job.state.status is JobStatus.PENDING:
        turn.start_job()
    job.state.completed_at = turn.now
    if job.state.error is None:
        turn.move_job(JobMove.COMPLETE)
        data = None
        if job.state.failures:
            data = json_raw({"failures": job.state.failures})
        turn.emit(EventType.JOB_COMPLETED, data=data)
    else:
        turn.move_job(JobMove.FAIL)
        turn.emit(EventType.JOB_FAILED, data=json_raw({"error": job.state.error}))
    turn.changes.finished.append(job.id)


def time_out_job(turn: Turn) -> None:
    """Fail a job that reached its timeout."""
    job = turn.job
    limit = job.plan.timeout_seconds
    job.state.error = json_raw(
        {"type": "timeout", "message": f"the job took longer than its timeout of {limit:g} s"}
    )
    _cancel_nodes(turn, "the job timed out")
    end_job(turn)


def cancel_job(turn: Turn, message: CancelRequested) -> None:
    """Cancel an unfinished job. A finished one does not change."""
    job = turn.job
    if message.request_id is not None:
        turn.changes.requests.append(message.request_id)
    if job.is_final or _is_outdated(job, message):
        return
    reason = message.reason or "cancelled by request"
    job.state.error = json_raw({"type": "cancelled", "message": reason})
    _cancel_nodes(turn, reason)
    job.state.completed_at = turn.now
    turn.move_job(JobMove.CANCEL)
    turn.emit(EventType.JOB_CANCELLED, data=json_raw({"reason": reason}))
    turn.changes.finished.append(job.id)


def retry_job(turn: Turn, message: RetryRequested) -> None:
    """Reset failed and cancelled nodes, or a node and everything downstream. Other completed nodes keep outputs.

    Of a completed job these are the failures that it tolerated: failed nodes, and the failed iterations of loops.
    """
    job = turn.job
    is_outdated = _is_outdated(job, message)
    has_runs = job.plan.runs is not None and not message.is_by_run
    if has_runs and job.is_final and not is_outdated:
        # A retry by request is a run of its own, under the same constraints as any other run.
        turn.changes.arrivals.append(Arrival(job.id, message.request_id, message.from_node))
        return
    if message.request_id is not None:
        turn.changes.requests.append(message.request_id)
    if is_outdated or not job.is_final:
        return
    nodes = _nodes_to_reset(job, message.from_node)
    if not nodes:
        return
    new_work = _nodes_with_new_work(job, nodes, message.from_node)
    for node in nodes:
        _reset(turn, node, is_new_work=node in new_work)
    job.recount(nodes)
    job.state.round += 1
    job.state.completed_at = job.state.error = None
    job.state.failures = _tolerated_failures(job)
    job.state.started_at = job.state.started_at or turn.now
    turn.move_job(JobMove.RETRY)
    names = [job.plan.nodes[node].id for node in nodes]
    data = {"round": job.state.round, "nodes": names, "from_node": message.from_node}
    turn.emit(EventType.JOB_RETRIED, data=json_raw(data))
    job.ready.extend(node for node in nodes if not job.remaining[node])
    job.state.deadline_at = None
    turn.set_deadline()


def _is_outdated(job: Job, message: CancelRequested | RetryRequested) -> bool:
    """Whether a request was delivered again after it was applied: the job has been retried since it was made."""
    return message.round is not None and message.round < job.state.round


def _nodes_to_reset(job: Job, from_node: str | None) -> list[int]:
    wanted: set[int] = set()
    with_tolerated = job.state.status is JobStatus.COMPLETED and from_node is None
    for node in range(len(job.plan.nodes)):
        # A node that failed because of an upstream failure never ran, even if it is allowed to fail.
        has_failed = _has_to_run_again(job, node) or (
            with_tolerated and _failures_of_node(job, node) > 0
        )
        if has_failed or not wanted.isdisjoint(job.plan.parents[node]):
            wanted.add(node)
    start = _start_of_retry(job, from_node)
    if start is not None:
        wanted.add(start)
        wanted.update(_descendants(job, [start]))
    return sorted(wanted)


def _has_to_run_again(job: Job, node: int) -> bool:
    state = job.states[node]
    if state == NodeStatus.FAILED:
        return not job.plan.nodes[node].allow_failure
    return state == NodeStatus.CANCELLED


def _tolerated_failures(job: Job) -> int:
    return sum(_failures_of_node(job, node) for node in range(len(job.plan.nodes)))


def _failures_of_node(job: Job, node: int) -> int:
    """Return how many failures of a node the job tolerates."""
    state = job.states[node]
    if state == NodeStatus.FAILED:
        return int(job.plan.nodes[node].allow_failure)
    if state == NodeStatus.COMPLETED and node in job.parked:
        return job.parked[node].failed
    return 0


def _start_of_retry(job: Job, from_node: str | None) -> int | None:
    return None if from_node is None else job.plan.index.get(from_node)


def _nodes_with_new_work(job: Job, nodes: Sequence[int], from_node: str | None) -> set[int]:
    """Return the nodes whose work differs from before: their inputs may change, or the retry starts at them."""
    among = set(nodes)
    start = _start_of_retry(job, from_node)
    return {node for node in nodes if node == start or not among.isdisjoint(job.plan.parents[node])}


def _reset(turn: Turn, node: int, *, is_new_work: bool) -> None:
    job = turn.job
    attempt = job.last_attempt_number(node)
    has_run = job.states[node] == NodeStatus.COMPLETED or attempt or node in job.parked
    if is_new_work and has_run:
        job.generations[node] = job.generations.get(node, 0) + 1
        for key in [key for key in job.webhook_times if key[0] == node]:
            # Other work is another message.
            del job.webhook_times[key]
        loop = job.parked.pop(node, None)
        if loop is not None and loop.attempts_made:
            job.attempts_start[node] = loop.attempts_made
    turn.move(node, NodeMove.RESET)
    job.unfinished += 1
    job.clear_output(node)
    job.remember_attempt(node, attempt)
    if attempt:
        job.attempts_before[node] = attempt
    if node in job.parked:
        reset_iterations(turn, node)
    turn.save_node(node, None)
