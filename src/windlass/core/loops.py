"""Loops: one task for each element of a recorded collection, a window of them in flight, outputs in order.

Only the window is in memory. Outputs are stored as rows and merged into the output of the node at the end.
"""

from msgspec import Raw

from windlass.core import completion
from windlass.core.artifacts import is_reference
from windlass.core.changes import CollectionChunkRow, MergeOutputs
from windlass.core.errors import TemplateFailed
from windlass.core.events import EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import COLLECTION_BYTES_MAX, Attempt, Collection, Loop
from windlass.core.loop_transitions import cancel_iterations, end_iteration
from windlass.core.messages import OutputsMerged, TaskError, TimerKind
from windlass.core.plan import LoopPlan, NodePlan
from windlass.core.prefetch import request_for_task
from windlass.core.retries import classified, encoded, template_error
from windlass.core.scopes import JobScope, attempt_scope
from windlass.core.states import JobStatus, NodeMove
from windlass.core.templates.json_values import is_list, kind_of
from windlass.core.templates.template import Template, is_true
from windlass.core.text import shortened
from windlass.core.timers import set_attempt_timer
from windlass.core.turn import (
    COMPLETED,
    DISPATCHED,
    FAILED,
    SKIPPED,
    Turn,
    dispatch_data,
    end_data,
    failure_data,
    json_raw,
)

COLLECTION_INVALID = "collection_invalid"
CHUNK_INVALID = "chunk_invalid"
TOO_MANY_FAILURES = "too_many_failures"
FIRST_FAILURE_CHARS_MAX = 500
EMPTY = Raw(b"[]")

_READY, _COMPLETE = NodeMove.READY, NodeMove.COMPLETE


def begin(turn: Turn, node: int, attempt: Attempt) -> None:
    """Start a looping node: record its collection, or resume the parked loop of an earlier round."""
    job = turn.job
    plan = job.plan.nodes[node]
    assert plan.loop is not None
    loop = job.parked.pop(node, None)
    is_new = loop is None
    if loop is None:
        elements = _elements(turn, node, plan.loop)
        if elements is None:
            return
        loop = Loop(
            plan.loop,
            elements,
            job.generations.get(node, 0),
            attempt,
            job.attempts_start.get(node, 0),
        )
    loop.node_attempt = attempt
    job.loops[node] = loop
    turn.move(node, NodeMove.DISPATCH)
    attempt.dispatched_at = turn.now
    turn.emit_attempt(attempt, DISPATCHED, dispatch_data(attempt.number, plan.queue))
    if job.state.status is JobStatus.PENDING:
        turn.start_job()
    _record(turn, node, loop, plan, is_new=is_new)
    job.filling[node] = None


def _elements(turn: Turn, node: int, plan: LoopPlan) -> Collection | None:
    try:
        value = plan.collection.value(JobScope(turn.job, plan.collection, node))
        if not is_list(value):
            text = (
                f"loop.collection is not a list: {kind_of(value)}; use a template that gives a list"
            )
            return _refuse(turn, node, text)
        collection = Collection.of(value)
    except TemplateFailed as failure:
        completion.fail_node(turn, node, template_error("loop.collection", failure))
        return None
    if collection.size > COLLECTION_BYTES_MAX:
        text = f"collection too large: {collection.size} bytes, at most {COLLECTION_BYTES_MAX}; loop over keys instead"
        return _refuse(turn, node, text)
    return collection


def _refuse(turn: Turn, node: int, text: str) -> None:
    completion.fail_node(
        turn, node, classified(TaskError(COLLECTION_INVALID, text, retryable=False))
    )


def _record(turn: Turn, node: int, loop: Loop, plan: NodePlan, *, is_new: bool) -> None:
    job = turn.job
    if is_new:
        for number, body in enumerate(loop.collection.chunks):
            row = CollectionChunkRow(job.id, node, loop.generation, number, body)
            turn.changes.chunks.append(row)
    if loop.plan.timeout_seconds is not None:
        loop.deadline_at = turn.now + round(loop.plan.timeout_seconds * MICROSECONDS)
        turn.set_timer(loop.deadline_at, TimerKind.LOOP_TIMEOUT, plan.id, loop.node_attempt.number)
    data = {
        "attempt_number": loop.node_attempt.number,
        "iterator_name": loop.plan.element,
        "collection_size": loop.collection.count,
        "total_iterations": loop.total,
        "mode": loop.plan.mode,
        "concurrency": loop.plan.window,
        "chunk_size": loop.plan.chunk_size,
    }
    left = loop.total - loop.completed - loop.skipped
    turn.emit(
        EventType.LOOP_STARTED,
        plan.id,
        json_raw(data if is_new else {**data, "left": left}),
        parent_seq=loop.node_attempt.parent_seq,
    )
    turn.save_node(node, loop.node_attempt)


def fill(turn: Turn, node: int, budget: int, tasks_max: int) -> int:
    """Dispatch iterations while the window has room; request the merge when all have ended. Return the budget left."""
    job = turn.job
    loop = job.loops[node]
    plan = job.plan.nodes[node]
    if job.large and request_for_task(job, node):
        return budget
    tasks = turn.changes.tasks
    begun = loop.begun
    while budget and len(tasks) < tasks_max and node in job.loops:
        index = loop.next_index(turn.now)
        if index is None:
            job.filling.pop(node, None)
            break
        budget -= 1
        _dispatch_index(turn, plan, loop, index)
    if node not in job.loops:
        return budget
    if loop.begun != begun:
        turn.save_node(node, loop.node_attempt)
    if loop.is_over and not loop.is_merging:
        _ask_for_outputs(turn, node, loop)
    return budget


def _ask_for_outputs(turn: Turn, node: int, loop: Loop) -> None:
    job = turn.job
    job.filling.pop(node, None)
    loop.is_merging = True
    node_id = job.plan.nodes[node].id
    if not loop.total:
        take_outputs(turn, node, OutputsMerged(job.id, node_id, loop.generation, None, EMPTY))
        return
    spliced = loop.plan.chunk_size is not None
    attempt = loop.node_attempt.number
    turn.changes.merges.append(
        MergeOutputs(job.id, node_id, node, loop.generation, None, loop.total, spliced, attempt)
    )


def _dispatch_index(turn: Turn, plan: NodePlan, loop: Loop, index: int) -> None:
    attempt = loop.attempts.get(index)
    if attempt is not None:
        dispatch_again(turn, attempt, plan)
        return
    attempt = _next_attempt(loop, index)
    loop.attempts[index] = attempt
    condition = plan.iteration_condition
    if condition is not None and not _holds(turn, attempt, condition):
        return
    turn.transition(attempt, _READY)
    _dispatch(turn, attempt, plan)


def _next_attempt(loop: Loop, index: int) -> Attempt:
    """Return the first attempt of an iteration, or after a retry of the job the next one."""
    start = loop.attempts_start
    attempt = Attempt(
        loop.node_attempt.node,
        start + 1,
        start,
        first_number=start + 1,
        index=index,
        is_iteration=True,
    )
    if loop.last_attempts or loop.attempts_before:
        attempt.number = loop.last_attempts.pop(index, start) + 1
        attempt.attempts_before = loop.attempts_before.get(index, start)
        attempt.first_seq = loop.first_seqs.pop(index, None)
    return attempt


def dispatch_again(turn: Turn, attempt: Attempt, plan: NodePlan) -> None:
    """Dispatch the next attempt of an iteration that waits."""
    turn.transition(attempt, _READY)
    attempt.begin_next()
    _dispatch(turn, attempt, plan)


def _dispatch(turn: Turn, attempt: Attempt, plan: NodePlan) -> None:
    try:
        turn.dispatch(attempt, plan)
    except TemplateFailed as failure:
        fail_iteration(turn, attempt, template_error("params", failure))
        return
    if plan.start_timeout_seconds is not None:
        set_attempt_timer(turn, attempt)


def _holds(turn: Turn, attempt: Attempt, condition: Template) -> bool:
    try:
        if is_true(condition.value(attempt_scope(turn.job, condition, attempt))):
            return True
    except TemplateFailed as failure:
        fail_iteration(turn, attempt, template_error("when", failure))
        return False
    turn.transition(attempt, NodeMove.SKIP)
    turn.emit_attempt(attempt, SKIPPED, None)
    attempt.number -= 1
    end_iteration(turn, attempt)
    turn.job.loops[attempt.node].skipped += 1
    turn.save(attempt, turn.now)
    _check_failures(turn, attempt.node)
    return False


def complete_iteration(
    turn: Turn, attempt: Attempt, output: Raw, meta: Raw | None, end_meta: Raw | None
) -> None:
    """Store the output of an iteration; its place in the window is free."""
    job = turn.job
    loop = job.loops[attempt.node]
    if (
        loop.plan.chunk_size is not None
        and not is_reference(output)
        and bytes(memoryview(output)[:1]) != b"["
    ):
        text = "a task over a chunk must return a list; return one result for each element of the chunk"
        error = classified(TaskError(CHUNK_INVALID, text, retryable=False))
        fail_iteration(turn, attempt, error, end_meta)
        return
    turn.transition(attempt, _COMPLETE)
    end_iteration(turn, attempt)
    loop.completed += 1
    loop.exhausted += attempt.is_exhausted
    is_wider = loop.window < loop.plan.window
    loop.window += is_wider
    if is_wider or attempt.is_exhausted:
        turn.save_node(attempt.node, loop.node_attempt)
    turn.emit_attempt(attempt, COMPLETED, end_data(attempt), meta=end_meta)
    turn.save(attempt, turn.now, None, output, meta)


def fail_iteration(
    turn: Turn,
    attempt: Attempt,
    error: TaskError,
    end_meta: Raw | None = None,
    meta: Raw | None = None,
) -> None:
    """End an iteration as failed. The node fails with it, unless the loop tolerates failures."""
    job = turn.job
    loop = job.loops[attempt.node]
    turn.transition(attempt, NodeMove.FAIL)
    end_iteration(turn, attempt)
    loop.failed += 1
    data = failure_data(attempt.number, error, attempt.worker_id)
    turn.emit_attempt(attempt, FAILED, data, meta=end_meta)
    turn.save(attempt, turn.now, encoded(error), meta=meta)
    if loop.plan.tolerant:
        if loop.first_failure is None:
            loop.first_failure = shortened(
                f"iteration {attempt.index}: {error.message}", FIRST_FAILURE_CHARS_MAX
            )
            turn.save_node(attempt.node, loop.node_attempt)
        _check_failures(turn, attempt.node)
        return
    cancel_iterations(turn, attempt.node, f"iteration {attempt.index} failed")
    text = f"iteration {attempt.index} of {loop.total}: {error.message}"
    failure = TaskError(
        error.type, text, error.retryable, error.status, failure_class=error.failure_class
    )
    completion.fail_node(turn, attempt.node, failure)


def _check_failures(turn: Turn, node: int) -> None:
    """Fail a tolerant loop whose failures exceed its bound, without waiting for the other iterations."""
    loop = turn.job.loops[node]
    bound = loop.exceeded_bound()
    if bound is None:
        return
    counted = loop.total - loop.skipped
    text = f"too many failed iterations: {loop.failed} of {counted}, {bound}; first failure: {loop.first_failure}"
    cancel_iterations(turn, node, "too many iterations failed")
    error = TaskError(TOO_MANY_FAILURES, text, retryable=False)
    completion.fail_node(turn, node, classified(error))


def time_out(turn: Turn, node: int) -> None:
    """Fail a looping node that reached the timeout of the loop."""
    loop = turn.job.loops[node]
    limit = loop.plan.timeout_seconds
    ended = loop.completed + loop.failed + loop.skipped
    cancel_iterations(turn, node, "the loop timed out")
    text = f"the loop took longer than its timeout of {limit:g} s; {ended} of {loop.total} iterations had ended"
    completion.fail_node(turn, node, classified(TaskError("timeout", text, retryable=False)))


def take_outputs(turn: Turn, node: int, message: OutputsMerged) -> None:
    """Complete a looping node whose outputs have been merged."""
    job = turn.job
    loop = job.loops[node]
    plan = job.plan.nodes[node]
    if message.error is not None:
        completion.fail_node(turn, node, classified(message.error))
        return
    data: dict[str, object] = {
        "total_iterations": loop.total,
        "successful": loop.completed,
        "failed": loop.failed,
        "skipped": loop.skipped,
        "success_rate": loop.success_rate,
    }
    if loop.exhausted:
        data["exhausted"] = loop.exhausted
    turn.emit(
        EventType.LOOP_COMPLETED,
        plan.id,
        json_raw(data),
        parent_seq=loop.node_attempt.parent_seq,
    )
    if loop.failed:
        completion.count_failures(turn, loop.failed)
    turn.complete_node(loop.node_attempt, message.output, json_raw(loop.meta()), None)
