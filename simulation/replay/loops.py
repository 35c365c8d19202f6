"""The replay's rules for loops: iterations in their window and their order, each ended once, and the end of all."""

from simulation.replay import attempts
from simulation.replay.state import OUT, UNFINISHED, Folded, FoldedLoop, FoldedNode, Notes, data_of, told
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS

# event -> the states that its iteration may leave, and the one it enters
_MOVES = {
    "iteration_dispatched": (frozenset({"pending", "waiting"}), "dispatched"),
    "iteration_started": (frozenset({"dispatched"}), "running"),
    "iteration_completed": (frozenset({"running", "waiting"}), "completed"),
    "iteration_retrying": (frozenset({"running"}), "waiting"),
    "iteration_failed": (UNFINISHED, "failed"),
    "iteration_skipped": (frozenset({"pending"}), "skipped"),
    "iteration_cancelled": (frozenset({"dispatched", "running", "waiting"}), "cancelled"),
    "retry_sequence_completed": (frozenset({"running"}), "waiting"),
    "worker_lost": (OUT, ""),
}
# What a loop fails of besides its iterations: before it began, and when its outputs are put together.
_BEFORE = frozenset({"template_failed", "collection_invalid"})
_AFTERWARDS = frozenset({"output_too_large", "artifact_not_found", "chunk_invalid"})


def begin(notes: Notes, node: FoldedNode, event: Event) -> None:
    """A collection was recorded, or what was left of it is taken up again."""
    plan, data = node.plan.loop, data_of(event)
    if plan is None or node.own.state != "dispatched":
        notes.blame("I1", f"{told(event)} although the node is {node.own.state} and its loop is {plan}")
        return
    declared = (plan.element, plan.mode, plan.window, plan.chunk_size)
    said = tuple(data.get(name) for name in ("iterator_name", "mode", "concurrency", "chunk_size"))
    if said != declared:
        notes.blame("I10", f"{told(event)} says {said}, declared is {declared}")
    count, total = data.get("collection_size", -1), data.get("total_iterations", -1)
    if total != (count if plan.chunk_size is None else -(-count // plan.chunk_size)):
        notes.blame("I10", f"{told(event)} makes {total} tasks of {count} elements in chunks of {plan.chunk_size}")
    if node.loop is None:
        node.loop = FoldedLoop(plan, total, node.attempts_of_iterations)
        return
    left = total - node.loop.count("completed", "skipped")
    if (total, left) != (node.loop.total, data.get("left")):
        was = f"{node.loop.total} iterations, {left} are left"
        notes.blame("I10", f"{told(event)} takes up {total}, {data.get('left')} left, of a loop that had {was}")


def apply(notes: Notes, node: FoldedNode, event: Event) -> None:
    """Something happened to an iteration."""
    loop, index = node.loop, event.index
    if loop is None or index is None or not 0 <= index < loop.total or node.own.state not in OUT:
        total = "no" if loop is None else loop.total
        notes.blame("I10", f"{told(event)}, and the node is {node.own.state} with {total} iterations")
        return
    unit = loop.iterations.get(index)
    if unit is None:
        unit = loop.iterations[index] = Folded(node.plan, index)
        unit.attempt = unit.attempts_before = loop.attempts_before
        if index != loop.begun:
            notes.blame("I10", f"{told(event)} begins iteration {index}, the next one is {loop.begun}")
        loop.begun = index + 1
    _move(notes, node, loop, unit, event)
    node.attempts_of_iterations = max(node.attempts_of_iterations, unit.attempt)


def _move(notes: Notes, node: FoldedNode, loop: FoldedLoop, unit: Folded, event: Event) -> None:
    sources, target = _MOVES[event.type]
    was_lost = event.type == "iteration_dispatched" and unit.lost_just_now and unit.state in OUT
    if unit.state not in sources and not was_lost:
        notes.blame("I1", f"{told(event)} although the iteration is {unit.state}")
    if loop.doomed_by is not None and event.type != "iteration_cancelled":
        notes.blame("I13", f"{told(event)} although iteration {loop.doomed_by.index} failed, which ends the loop")
    if event.type == "worker_lost":
        attempts.lose(notes, unit, event)
        return
    unit.lost_just_now = False
    before, unit.state = unit.state, target
    match event.type:
        case "iteration_dispatched":
            _dispatch(notes, node, loop, unit, event, was_lost=was_lost)
        case "iteration_started":
            attempts.start(notes, unit, event)
            unit.first_seq = unit.first_seq or event.seq
        case "iteration_retrying":
            attempts.end_or_retry(notes, node, unit, event)
        case "retry_sequence_completed":
            attempts.end_series(notes, unit, event)
        case "iteration_completed":
            if before == "waiting" and not unit.is_gathering:
                notes.blame("I1", f"{told(event)} although the iteration waits for its next attempt")
            attempts.complete(notes, unit, event)
        case "iteration_failed":
            attempts.fail(notes, node, unit, event)
            if not loop.plan.tolerant:
                loop.doomed_by = unit
        case _:
            unit.error, unit.is_gathering = None, False
    if event.type in ("iteration_dispatched", "iteration_skipped"):
        _check_order(notes, loop, unit, event)
    if target not in UNFINISHED:
        unit.completed_at, unit.due_at = event.at, None


def _dispatch(notes: Notes, node: FoldedNode, loop: FoldedLoop, unit: Folded, event: Event, *, was_lost: bool) -> None:
    attempts.leave(notes, unit, event, was_lost=was_lost)
    attempts.dispatch(notes, node, unit, event)
    if unit.attempt == loop.attempts_before + 1:
        # The first dispatch has no row of its own: it counts as made with the loop's.
        unit.dispatched_at = node.own.dispatched_at
    out = loop.count(*OUT)
    if out > loop.plan.window:
        notes.blame("I17", f"{told(event)} makes {out} iterations in flight, {loop.plan.window} are allowed")


def _check_order(notes: Notes, loop: FoldedLoop, unit: Folded, event: Event) -> None:
    if loop.plan.mode != "sequential":
        return
    earlier = [one.index for one in loop.iterations.values() if (one.index or 0) < (unit.index or 0)]
    open_still = [index for index in earlier if loop.iterations[index or 0].state in UNFINISHED]
    if open_still:
        notes.blame("I10", f"{told(event)} overtakes {open_still} of a loop in order")


def close(notes: Notes, node: FoldedNode, event: Event) -> None:
    """All iterations have ended."""
    loop, data = node.loop, data_of(event)
    if loop is None or not loop.is_over or loop.doomed_by is not None or node.own.state not in OUT:
        notes.blame("I10", f"{told(event)} although the node is {node.own.state} and not all its iterations ended")
        return
    succeeded = loop.count("completed")
    counted = {
        "total_iterations": loop.total,
        "successful": succeeded,
        "failed": loop.count("failed"),
        "skipped": loop.count("skipped"),
        "success_rate": succeeded / loop.total if loop.total else 1.0,
    }
    if data != counted:
        notes.blame("I10", f"{told(event)} says {data}, it was {counted}")
    loop.is_closed = True


def check_end(notes: Notes, node: FoldedNode, event: Event) -> None:
    """A node with a loop ends with all its iterations, and fails for a reason that loops have."""
    loop = node.loop
    if event.type == "node_completed" and (loop is None or not loop.is_closed):
        notes.blame("I10", f"{told(event)} before its loop was over")
    if loop is not None and loop.count(*OUT, "waiting"):
        notes.blame("I13", f"{told(event)} while iterations of it have not ended")
    if event.type != "node_failed":
        return
    error = node.own.error
    kind = error.get("type")
    if kind == "upstream_failed":
        return
    if loop is not None and loop.doomed_by is not None:
        if kind != loop.doomed_by.error.get("type"):
            notes.blame("I13", f"{told(event)} with {kind}, iteration {loop.doomed_by.index} failed with another error")
    elif loop is not None and kind == "timeout" and loop.plan.timeout_seconds is not None:
        due_at = (node.own.dispatched_at or 0) + round(loop.plan.timeout_seconds * MICROSECONDS)
        notes.check_due(event, due_at, "the loop's timeout")
    elif not (kind in _AFTERWARDS and loop is not None and loop.is_over) and kind not in _BEFORE:
        notes.blame("I13", f"{told(event)} with {kind}, though none of its iterations failed")


def reset(node: FoldedNode, *, is_anew: bool) -> None:
    """An operator's retry: a loop that did not complete runs what is missing, any other runs anew."""
    own = node.own
    if own.state == "completed" or (is_anew and (own.attempt > 0 or node.loop is not None)):
        node.generation += 1
        if node.loop is not None and node.loop.begun:
            # Iterations that were begun and skipped count too.
            node.attempts_of_iterations = max(node.attempts_of_iterations, node.loop.attempts_before + 1)
        node.loop = None
    elif node.loop is not None:
        node.loop.doomed_by = None
        node.loop.is_closed = False
        for unit in node.loop.iterations.values():
            if unit.state in ("failed", "cancelled"):
                unit.reset()
    own.reset()
