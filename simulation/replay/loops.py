"""The replay's rules for loops: iterations in their window and their order, each ended once, and the end of all."""

from simulation.replay import attempts
from simulation.replay.state import (
    OUT,
    UNFINISHED,
    Findings,
    ReplayedLoop,
    ReplayedNode,
    ReplayedUnit,
    data_of,
    describe,
)
from windlass.core.changes import Event
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


def begin(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """A collection was recorded, or what was left of it is taken up again."""
    plan, data = node.plan.loop, data_of(event)
    if plan is None or node.own.state != "dispatched":
        findings.report("I1", f"{describe(event)} although the node is {node.own.state} and its loop is {plan}")
        return
    declared = (plan.element, plan.mode, plan.window, plan.chunk_size)
    said = tuple(data.get(name) for name in ("iterator_name", "mode", "concurrency", "chunk_size"))
    if said != declared:
        findings.report("I10", f"{describe(event)} says {said}, declared is {declared}")
    count, total = data.get("collection_size", -1), data.get("total_iterations", -1)
    if total != (count if plan.chunk_size is None else -(-count // plan.chunk_size)):
        findings.report(
            "I10", f"{describe(event)} makes {total} tasks of {count} elements in chunks of {plan.chunk_size}"
        )
    if node.loop is None:
        node.loop = ReplayedLoop(plan, total, node.attempts_of_iterations)
        return
    left = total - node.loop.count("completed", "skipped")
    if (total, left) != (node.loop.total, data.get("left")):
        was = f"{node.loop.total} iterations, {left} are left"
        findings.report("I10", f"{describe(event)} takes up {total}, {data.get('left')} left, of a loop that had {was}")


def apply(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """Something happened to an iteration."""
    loop, index = node.loop, event.index
    if loop is None or index is None or not 0 <= index < loop.total or node.own.state not in OUT:
        total = "no" if loop is None else loop.total
        findings.report("I10", f"{describe(event)}, and the node is {node.own.state} with {total} iterations")
        return
    unit = loop.iterations.get(index)
    if unit is None:
        unit = loop.iterations[index] = ReplayedUnit(node.plan, index)
        unit.attempt = unit.attempts_before = loop.attempts_before
        if index != loop.begun:
            findings.report("I10", f"{describe(event)} begins iteration {index}, the next one is {loop.begun}")
        loop.begun = index + 1
    _move(findings, node, loop, unit, event)
    node.attempts_of_iterations = max(node.attempts_of_iterations, unit.attempt)


def _move(findings: Findings, node: ReplayedNode, loop: ReplayedLoop, unit: ReplayedUnit, event: Event) -> None:
    sources, target = _MOVES[event.type]
    was_lost = event.type == "iteration_dispatched" and unit.was_just_lost and unit.state in OUT
    if unit.state not in sources and not was_lost:
        findings.report("I1", f"{describe(event)} although the iteration is {unit.state}")
    if loop.failed_by is not None and event.type != "iteration_cancelled":
        findings.report(
            "I13", f"{describe(event)} although iteration {loop.failed_by.index} failed, which ends the loop"
        )
    if event.type == "worker_lost":
        attempts.lose(findings, unit, event)
        return
    unit.was_just_lost = False
    before, unit.state = unit.state, target
    match event.type:
        case "iteration_dispatched":
            _dispatch(findings, node, loop, unit, event, was_lost=was_lost)
        case "iteration_started":
            attempts.start(findings, unit, event)
            unit.first_seq = unit.first_seq or event.seq
        case "iteration_retrying":
            attempts.end_or_retry(findings, node, unit, event)
        case "retry_sequence_completed":
            attempts.end_series(findings, unit, event)
        case "iteration_completed":
            if before == "waiting" and not unit.is_gathering:
                findings.report("I1", f"{describe(event)} although the iteration waits for its next attempt")
            attempts.complete(findings, unit, event)
        case "iteration_failed":
            attempts.fail(findings, node, unit, event)
            if not loop.plan.tolerant:
                loop.failed_by = unit
        case _:
            unit.error, unit.is_gathering = None, False
    if event.type in ("iteration_dispatched", "iteration_skipped"):
        _check_order(findings, loop, unit, event)
    if target not in UNFINISHED:
        unit.completed_at, unit.due_at = event.at, None


def _dispatch(
    findings: Findings, node: ReplayedNode, loop: ReplayedLoop, unit: ReplayedUnit, event: Event, *, was_lost: bool
) -> None:
    attempts.leave(findings, unit, event, was_lost=was_lost)
    attempts.dispatch(findings, node, unit, event)
    if unit.attempt == loop.attempts_before + 1:
        # The first dispatch has no row of its own: it counts as made with the loop's.
        unit.dispatched_at = node.own.dispatched_at
    out = loop.count(*OUT)
    if out > loop.plan.window:
        findings.report("I17", f"{describe(event)} makes {out} iterations in flight, {loop.plan.window} are allowed")


def _check_order(findings: Findings, loop: ReplayedLoop, unit: ReplayedUnit, event: Event) -> None:
    if loop.plan.mode != "sequential":
        return
    earlier = [one.index for one in loop.iterations.values() if (one.index or 0) < (unit.index or 0)]
    open_still = [index for index in earlier if loop.iterations[index or 0].state in UNFINISHED]
    if open_still:
        findings.report("I10", f"{describe(event)} overtakes {open_still} of a loop in order")


def close(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """All iterations have ended."""
    loop, data = node.loop, data_of(event)
    if loop is None or not loop.is_over or loop.failed_by is not None or node.own.state not in OUT:
        findings.report(
            "I10", f"{describe(event)} although the node is {node.own.state} and not all its iterations ended"
        )
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
        findings.report("I10", f"{describe(event)} says {data}, it was {counted}")
    loop.is_closed = True


def check_end(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """A node with a loop ends with all its iterations, and fails for a reason that loops have."""
    loop = node.loop
    if event.type == "node_completed" and (loop is None or not loop.is_closed):
        findings.report("I10", f"{describe(event)} before its loop was over")
    if loop is not None and loop.count(*OUT, "waiting"):
        findings.report("I13", f"{describe(event)} while iterations of it have not ended")
    if event.type != "node_failed":
        return
    error = node.own.error
    kind = error.get("type")
    if kind == "upstream_failed":
        return
    if loop is not None and loop.failed_by is not None:
        if kind != loop.failed_by.error.get("type"):
            findings.report(
                "I13", f"{describe(event)} with {kind}, iteration {loop.failed_by.index} failed with another error"
            )
    elif loop is not None and kind == "timeout" and loop.plan.timeout_seconds is not None:
        due_at = (node.own.dispatched_at or 0) + round(loop.plan.timeout_seconds * MICROSECONDS)
        findings.check_due(event, due_at, "the loop's timeout")
    elif not (kind in _AFTERWARDS and loop is not None and loop.is_over) and kind not in _BEFORE:
        findings.report("I13", f"{describe(event)} with {kind}, though none of its iterations failed")


def reset(node: ReplayedNode, *, is_anew: bool) -> None:
    """An operator's retry: a loop that did not complete runs what is missing, any other runs anew."""
    own = node.own
    if own.state == "completed" or (is_anew and (own.attempt > 0 or node.loop is not None)):
        node.generation += 1
        if node.loop is not None and node.loop.begun:
            # Iterations that were begun and skipped count too.
            node.attempts_of_iterations = max(node.attempts_of_iterations, node.loop.attempts_before + 1)
        node.loop = None
    elif node.loop is not None:
        node.loop.failed_by = None
        node.loop.is_closed = False
        for unit in node.loop.iterations.values():
            if unit.state in ("failed", "cancelled"):
                unit.reset()
    own.reset()
