"""Loops: one task for each element of a recorded collection, a window of them in flight, results in order.

Only the window is materialised. Outputs go to rows; when all iterations have ended they are gathered into the node's.
"""

from typing import cast

from msgspec import Raw

from windlass.core import completion
from windlass.core.artifacts import is_reference
from windlass.core.changes import CollectionChunkRow, MergeOutputs
from windlass.core.errors import TemplateFailed
from windlass.core.events import EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import COLLECTION_BYTES_MAX, Attempt, Collection, Loop
from windlass.core.loop_transitions import cancel_iterations, end_iteration
from windlass.core.messages import OutputsMerged, TaskError
from windlass.core.plan import LoopPlan, NodePlan
from windlass.core.retries import classified, encoded, template_error
from windlass.core.states import JobStatus, NodeMove, NodeStatus
from windlass.core.templates.json_values import is_list, kind_of
from windlass.core.templates.template import Template, is_true
from windlass.core.turn import COMPLETED, Turn, attempt_data, dispatch_data, json_raw

COLLECTION_INVALID = "collection_invalid"
CHUNK_INVALID = "chunk_invalid"
EMPTY = Raw(b"[]")

# Looking a member up in its enum takes longer than using it.
_READY, _DISPATCH, _COMPLETE, _RUNNING = NodeMove.READY, NodeMove.DISPATCH, NodeMove.COMPLETE, int(NodeStatus.RUNNING)


def begin(turn: Turn, node: int, flight: Attempt) -> None:
    """A looping node is ready: record its collection, or take up what a retry left of an earlier run."""
    job = turn.job
    plan = job.plan.nodes[node]
    assert plan.loop is not None
    loop = job.parked.pop(node, None)
    is_new = loop is None
    if loop is None:
        elements = _elements(turn, node, plan.loop)
        if elements is None:
            return
        loop = Loop(plan.loop, elements, job.generations.get(node, 0), flight, job.attempts_start.get(node, 0))
    loop.flight = flight
    job.loops[node] = loop
    turn.move(node, NodeMove.DISPATCH)
    flight.dispatched_at = turn.now
    flight.first_seq = turn.emit(EventType.NODE_DISPATCHED, plan.id, dispatch_data(flight.attempt, plan.queue))
    if job.state.status is JobStatus.PENDING:
        turn.start_job()
    _record(turn, node, loop, plan, is_new=is_new)
    job.filling[node] = None


def _elements(turn: Turn, node: int, plan: LoopPlan) -> Collection | None:
    try:
        value = plan.collection.value(turn.job.scope(plan.collection))
    except TemplateFailed as failure:
        completion.fail_node(turn, node, template_error("loop.collection", failure))
        return None
    if not is_list(value):
        text = f"loop.collection is {kind_of(value)}, and a loop needs a list"
        return _refuse(turn, node, text)
    collection = Collection.of(value)
    if collection.size > COLLECTION_BYTES_MAX:
        text = f"the collection has {collection.size} bytes, over the limit of {COLLECTION_BYTES_MAX}: loop over keys"
        return _refuse(turn, node, text)
    return collection


def _refuse(turn: Turn, node: int, text: str) -> None:
    completion.fail_node(turn, node, classified(TaskError(COLLECTION_INVALID, text, retryable=False)))


def _record(turn: Turn, node: int, loop: Loop, plan: NodePlan, *, is_new: bool) -> None:
    job = turn.job
    if is_new:
        for number, body in enumerate(loop.collection.blocks):
            turn.changes.blocks.append(CollectionChunkRow(job.id, node, loop.generation, number, body))
    if loop.plan.timeout_seconds is not None:
        loop.deadline_at = turn.now + round(loop.plan.timeout_seconds * MICROSECONDS)
        turn.wake(loop.deadline_at, "loop_timeout", plan.id, loop.flight.attempt)
    data = {
        "attempt_number": loop.flight.attempt,
        "iterator_name": loop.plan.element,
        "collection_size": loop.collection.count,
        "total_iterations": loop.total,
        "mode": loop.plan.mode,
        "concurrency": loop.plan.window,
        "chunk_size": loop.plan.chunk_size,
    }
    left = loop.total - loop.completed - loop.skipped
    turn.emit(EventType.LOOP_STARTED, plan.id, json_raw(data if is_new else {**data, "left": left}))
    turn.store(node, loop.flight)


def fill(turn: Turn, node: int, budget: int, tasks_max: int) -> int:
    """Dispatch iterations as far as there is room, and ask for the outputs when all have ended; the budget left."""
    job = turn.job
    loop = job.loops[node]
    plan = job.plan.nodes[node]
    if job.has_large and lacks(turn, plan):
        return budget
    tasks = turn.changes.tasks
    begun = loop.begun
    while budget and len(tasks) < tasks_max and node in job.loops:
        index = loop.next_index()
        if index is None:
            job.filling.pop(node, None)
            break
        budget -= 1
        _dispatch(turn, plan, loop, index)
    if node not in job.loops:
        return budget
    if loop.begun != begun:
        turn.store(node, loop.flight)
    if loop.is_over and not loop.is_gathering:
        _ask_for_outputs(turn, node, loop)
    return budget


def _ask_for_outputs(turn: Turn, node: int, loop: Loop) -> None:
    job = turn.job
    job.filling.pop(node, None)
    loop.is_gathering = True
    node_id = job.plan.nodes[node].id
    if not loop.total:
        take_outputs(turn, node, OutputsMerged(job.id, node_id, loop.generation, None, EMPTY))
        return
    spliced = loop.plan.chunk_size is not None
    attempt = loop.flight.attempt
    turn.changes.gathers.append(
        MergeOutputs(job.id, node_id, node, loop.generation, None, loop.total, spliced, attempt)
    )


def lacks(turn: Turn, plan: NodePlan) -> bool:
    """Whether large outputs must be read before iterations can be rendered."""
    job = turn.job
    templates = (plan.when, None if plan.sink is None else plan.sink.options)
    lacking = [job.lacks(template) for template in templates if template is not None]
    if plan.params is not None and plan.params.static is None:
        lacking.append(job.lacks(plan.params, spares=True))
    return any(lacking)


def condition_of(plan: NodePlan) -> Template | None:
    """The condition that is asked for each iteration: the node's, when it names the element or its index."""
    if plan.loop is None or plan.when is None:
        return None
    own = (plan.loop.element, "index")
    return plan.when if any(reference.name in own for reference in plan.when.references) else None


def _dispatch(turn: Turn, plan: NodePlan, loop: Loop, index: int) -> None:
    flight = loop.flights.get(index)
    if flight is None:
        flight = Attempt(loop.flight.node, loop.attempts_start + 1, loop.attempts_start, index=index)
        if loop.attempts or loop.attempts_before:
            flight.attempt = loop.attempts.pop(index, loop.attempts_start) + 1
            flight.attempts_before = loop.attempts_before.get(index, loop.attempts_start)
        loop.flights[index] = flight
        condition = None if plan.when is None else condition_of(plan)
        if condition is not None and not _holds(turn, flight, condition):
            return
        turn.shift(flight, _READY)
    else:
        turn.shift(flight, _READY)
        flight.attempt += 1
        flight.started_at = flight.due_at = flight.worker_id = None
    dispatch(turn, flight, is_first=flight.attempt == loop.attempts_start + 1)


def dispatch(turn: Turn, flight: Attempt, *, is_first: bool) -> None:
    """Send an iteration's attempt out. The first of all leaves no row: the loop's own mark tells of it."""
    job = turn.job
    plan = job.plan.nodes[flight.node]
    loop = job.loops[flight.node]
    try:
        task = job.task(flight)
    except TemplateFailed as failure:
        fail_iteration(turn, flight, template_error("params", failure))
        return
    turn.shift(flight, _DISPATCH)
    flight.dispatched_at = loop.flight.dispatched_at if is_first else turn.now
    data = dispatch_data(flight.attempt, plan.queue)
    turn.emit(EventType.ITERATION_DISPATCHED, plan.id, data, None, None, flight.first_seq, flight.index)
    if not is_first:
        turn.keep(flight)
    turn.changes.tasks.append(task)


def _holds(turn: Turn, flight: Attempt, condition: Template) -> bool:
    try:
        if is_true(condition.value(turn.job.scope_of(condition, flight))):
            return True
    except TemplateFailed as failure:
        fail_iteration(turn, flight, template_error("when", failure))
        return False
    turn.shift(flight, NodeMove.SKIP)
    turn.emit(EventType.ITERATION_SKIPPED, turn.job.plan.nodes[flight.node].id, index=flight.index)
    flight.attempt -= 1
    end_iteration(turn, flight)
    turn.job.loops[flight.node].skipped += 1
    turn.keep(flight, turn.now)
    return False


def start_loop(turn: Turn, flight: Attempt) -> None:
    """The first start of an iteration is the node's own."""
    job = turn.job
    loop = job.loops[flight.node]
    if job.states[flight.node] == _RUNNING:
        return
    turn.move(flight.node, NodeMove.START)
    loop.flight.started_at = flight.started_at
    data = attempt_data(loop.flight.attempt)
    turn.emit(EventType.NODE_STARTED, job.plan.nodes[flight.node].id, data, at=flight.started_at)
    turn.store(flight.node, loop.flight)


def complete_iteration(turn: Turn, flight: Attempt, output: Raw, meta: Raw | None, execution: Raw | None) -> None:
    """An iteration's output is stored as a row; the loop may go on."""
    job = turn.job
    loop = job.loops[flight.node]
    if loop.plan.chunk_size is not None and not is_reference(output) and bytes(memoryview(output)[:1]) != b"[":
        text = "a task over a chunk gets a list and returns a list, and this one returned something else"
        fail_iteration(turn, flight, classified(TaskError(CHUNK_INVALID, text, retryable=False)))
        return
    turn.shift(flight, _COMPLETE)
    end_iteration(turn, flight)
    loop.completed += 1
    again = flight.first_seq if flight.calls or flight.attempt - flight.attempts_before > 1 else None
    turn.tell(flight, COMPLETED, attempt_data(flight.attempt), None, execution, again)
    turn.keep(flight, turn.now, None, output, meta)


def fail_iteration(turn: Turn, flight: Attempt, error: TaskError, meta: Raw | None = None) -> None:
    """An iteration's final failure: the loop goes on if it tolerates that, else the node fails with it."""
    job = turn.job
    plan = job.plan.nodes[flight.node]
    loop = job.loops[flight.node]
    turn.shift(flight, NodeMove.FAIL)
    end_iteration(turn, flight)
    loop.failed += 1
    data = json_raw({"attempt_number": flight.attempt, "error": error})
    again = flight.first_seq if flight.calls or flight.attempt - flight.attempts_before > 1 else None
    turn.emit(EventType.ITERATION_FAILED, plan.id, data, meta=meta, parent_seq=again, index=flight.index)
    turn.keep(flight, turn.now, encoded(error))
    if loop.plan.tolerant:
        return
    cancel_iterations(turn, flight.node, f"iteration {flight.index} failed")
    text = f"iteration {flight.index} of {loop.total}: {error.message}"
    failure = TaskError(error.type, text, error.retryable, error.status, failure_class=error.failure_class)
    completion.fail_node(turn, flight.node, failure)


def time_out(turn: Turn, node: int) -> None:
    """The loop as a whole took too long: the node fails."""
    loop = turn.job.loops[node]
    limit = loop.plan.timeout_seconds
    ended = loop.completed + loop.failed + loop.skipped
    cancel_iterations(turn, node, "the loop timed out")
    text = f"the loop took longer than its timeout of {limit:g} s; {ended} of {loop.total} iterations had ended"
    completion.fail_node(turn, node, classified(TaskError("timeout", text, retryable=False)))


def take_outputs(turn: Turn, node: int, message: OutputsMerged) -> None:
    """All iterations ended and their outputs are together: so does the node."""
    job = turn.job
    loop = job.loops[node]
    plan = job.plan.nodes[node]
    if message.error is not None:
        completion.fail_node(turn, node, classified(message.error))
        return
    meta = json_raw(loop.meta())
    counts = {"total_iterations": loop.total, "successful": loop.completed, "failed": loop.failed}
    rate = cast("float", loop.meta()["success_rate"])
    turn.emit(EventType.LOOP_COMPLETED, plan.id, json_raw({**counts, "skipped": loop.skipped, "success_rate": rate}))
    turn.move(node, NodeMove.COMPLETE)
    flight = turn.land(node)
    assert flight is not None
    job.put_output(node, message.output)
    job.metas[node] = meta
    turn.emit(EventType.NODE_COMPLETED, plan.id, attempt_data(flight.attempt))
    turn.store(node, flight, turn.now)
    turn.release_children(node, skipped=False)
