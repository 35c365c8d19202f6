"""The replay's rules for loops: iterations start in order, stay within the window and end once."""

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
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import LoopPlan

# event -> the states that its iteration may leave, and the state it enters
MOVES = {
    "iteration_dispatched": (frozenset({"pending", "waiting"}), "dispatched"),
    "iteration_started": (frozenset({"dispatched"}), "running"),
    "iteration_completed": (frozenset({"running", "waiting"}), "completed"),
    "iteration_retrying": (frozenset({"running"}), "waiting"),
    "iteration_failed": (UNFINISHED, "failed"),
    "iteration_skipped": (frozenset({"pending"}), "skipped"),
    "iteration_cancelled": (frozenset({"dispatched", "running", "waiting"}), "cancelled"),
    "retry_sequence_completed": (frozenset({"running"}), "waiting"),
    "worker_lost": (OUT, "dispatched"),
    "task_redelivered": (frozenset({"running"}), "dispatched"),
}
# Errors of a loop itself: before it began, and while its outputs are merged.
_BEFORE = frozenset({"template_failed", "collection_invalid"})
_WHILE_MERGING = frozenset({"output_too_large", "artifact_not_found", "chunk_invalid"})


def begin(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """Record the collection of a loop, or resume a loop after a retry."""
    plan, data = node.plan.loop, data_of(event)
    if plan is None or node.own.state != "dispatched":
        findings.report("I1", f"{describe(event)} in state {node.own.state} with the loop {plan}")
        return
    declared = (plan.element, plan.mode, plan.window, plan.chunk_size)
    recorded = tuple(
        data.get(name) for name in ("iterator_name", "mode", "concurrency", "chunk_size")
    )
    if recorded != declared:
        findings.report("I10", f"{describe(event)} says {recorded}, declared: {declared}")
    count, total = data.get("collection_size", -1), data.get("total_iterations", -1)
    if total != iteration_count(plan, count):
        chunks = f"chunks of {plan.chunk_size}"
        findings.report(
            "I10", f"{describe(event)} makes {total} iterations of {count} elements in {chunks}"
        )
    if node.loop is None:
        node.loop = ReplayedLoop(plan, total, node.attempts_of_iterations)
        return
    left = total - node.loop.count("completed", "skipped")
    if (total, left) != (node.loop.total, data.get("left")):
        expected = f"{left} of {node.loop.total}"
        findings.report(
            "I10",
            f"{describe(event)} resumes {data.get('left')} of {total} iterations, not {expected}",
        )


def iteration_count(plan: LoopPlan, elements: int) -> int:
    """Return the number of iterations of a loop over a number of elements."""
    if plan.chunk_size is None:
        return elements
    return -(-elements // plan.chunk_size)


def apply(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """Apply an event of an iteration."""
    loop, index = node.loop, event.index
    if loop is None or index is None or not 0 <= index < loop.total or node.own.state not in OUT:
        total = "no" if loop is None else loop.total
        findings.report(
            "I10", f"{describe(event)} in state {node.own.state} with {total} iterations"
        )
        return
    unit = loop.iterations.get(index)
    if unit is None:
        unit = loop.iterations[index] = ReplayedUnit(node.plan, index, loop.attempts_before)
        if index != loop.begun:
            findings.report(
                "I10", f"{describe(event)} begins iteration {index}, the next one is {loop.begun}"
            )
        loop.begun = index + 1
    _move(findings, node, loop, unit, event)
    node.attempts_of_iterations = max(node.attempts_of_iterations, unit.attempt)


def _move(
    findings: Findings, node: ReplayedNode, loop: ReplayedLoop, unit: ReplayedUnit, event: Event
) -> None:
    was_lost = event.type == "iteration_dispatched" and unit.was_just_lost and unit.state in OUT
    _check_move(findings, loop, unit, event, was_lost=was_lost)
    if event.type not in attempts.WITHOUT_LINK:
        attempts.check_link(findings, unit, event)
    if event.type == "worker_lost":
        attempts.lose(findings, unit, event)
        return
    before = unit.state
    _, unit.state = MOVES[event.type]
    unit.was_just_lost = False
    match event.type:
        case "iteration_dispatched":
            attempts.end_wait(findings, unit, event, was_lost=was_lost)
            _dispatch(findings, node, loop, unit, event)
        case "iteration_started":
            attempts.start(findings, unit, event)
        case "iteration_retrying":
            limits = unit.rate_limits
            attempts.retry_or_request_next(findings, node, unit, event)
            if unit.rate_limits > limits:
                _slow_down(loop, unit, event)
        case "retry_sequence_completed":
            attempts.end_pagination(findings, unit, event)
        case "task_redelivered":
            attempts.check_attempt(findings, unit, event)
        case "iteration_completed":
            if before == "waiting" and not unit.is_merging:
                findings.report(
                    "I1", f"{describe(event)} while the iteration waits for its next attempt"
                )
            attempts.complete(findings, unit, event)
            loop.window = min(loop.window + 1, loop.plan.window)
        case "iteration_failed":
            attempts.fail(findings, node, unit, event)
            if not loop.plan.tolerant:
                loop.failed_by = unit
        case _:
            unit.error, unit.is_merging = None, False
    if event.type in ("iteration_dispatched", "iteration_skipped"):
        _check_order(findings, loop, unit, event)
    if unit.state not in UNFINISHED:
        unit.finish(event)


def _check_move(
    findings: Findings, loop: ReplayedLoop, unit: ReplayedUnit, event: Event, *, was_lost: bool
) -> None:
    sources, _ = MOVES[event.type]
    if unit.state not in sources and not was_lost:
        findings.report("I1", f"{describe(event)} in state {unit.state}")
    if loop.has_too_many_failures and event.type != "iteration_cancelled":
        findings.report("I32", f"{describe(event)} after too many iterations failed")
    if loop.failed_by is not None and event.type != "iteration_cancelled":
        findings.report(
            "I13", f"{describe(event)} after iteration {loop.failed_by.index} failed the loop"
        )


def _dispatch(
    findings: Findings, node: ReplayedNode, loop: ReplayedLoop, unit: ReplayedUnit, event: Event
) -> None:
    attempts.dispatch(findings, node, unit, event)
    if unit.attempt == loop.attempts_before + 1:
        # The first dispatch has no row of its own; it has the time of the loop's dispatch.
        unit.dispatched_at = node.own.dispatched_at
    out = loop.count(*OUT)
    # Further pages and redeliveries of iterations that are in progress keep their place in the window.
    is_in_progress = bool(unit.answers) or unit.losses > 0
    allowed = loop.plan.window if is_in_progress else loop.window
    if out > allowed:
        findings.report(
            "I17", f"{describe(event)} makes {out} iterations in flight, {allowed} are allowed"
        )
    if not is_in_progress:
        findings.check_due(event, loop.paused_until, "the end of the pause of its loop")


def _slow_down(loop: ReplayedLoop, unit: ReplayedUnit, event: Event) -> None:
    """Pause a loop after a rate-limited answer, and halve its window once for each pause."""
    if loop.paused_until is None or event.at >= loop.paused_until:
        loop.window = max(1, loop.window // 2)
    loop.paused_until = max(loop.paused_until or 0, unit.due_at or 0)


def _check_order(findings: Findings, loop: ReplayedLoop, unit: ReplayedUnit, event: Event) -> None:
    """Check that an iteration of a sequential loop does not start before an earlier one has ended."""
    if loop.plan.mode != "sequential":
        return
    assert unit.index is not None
    unfinished = [
        index
        for index, earlier in loop.iterations.items()
        if index < unit.index and earlier.state in UNFINISHED
    ]
    if unfinished:
        findings.report("I10", f"{describe(event)} before {unfinished} of a sequential loop")


def close(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """Record that all iterations have ended."""
    loop, data = node.loop, data_of(event)
    if loop is None or not loop.is_over or loop.failed_by is not None or node.own.state not in OUT:
        findings.report(
            "I10", f"{describe(event)} in state {node.own.state} before all iterations ended"
        )
        return
    succeeded = loop.count("completed")
    counted = loop.total - loop.count("skipped")
    expected = {
        "total_iterations": loop.total,
        "successful": succeeded,
        "failed": loop.count("failed"),
        "skipped": loop.count("skipped"),
        "success_rate": succeeded / counted if counted else 1.0,
    }
    exhausted = loop.count_exhausted()
    if exhausted:
        expected["exhausted"] = exhausted
    if loop.has_too_many_failures:
        findings.report("I32", f"{describe(event)} although too many iterations failed")
    if data != expected:
        findings.report("I10", f"{describe(event)} says {data}, counted: {expected}")
    loop.is_closed = True


def check_end(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """Check that a node with a loop ends after its iterations."""
    loop = node.loop
    if event.type == "node_completed" and (loop is None or not loop.is_closed):
        findings.report("I10", f"{describe(event)} before its loop was over")
    if loop is not None and loop.count(*OUT, "waiting"):
        findings.report("I13", f"{describe(event)} while some of its iterations have not ended")
    if event.type == "node_failed":
        _check_failure(findings, node, event)


def _check_failure(findings: Findings, node: ReplayedNode, event: Event) -> None:
    """Check that the error of a loop has a cause."""
    loop, kind = node.loop, node.own.error.get("type")
    if kind == "upstream_failed":
        return
    if loop is None:
        if kind not in _BEFORE:
            findings.report("I13", f"{describe(event)} with {kind} before the loop began")
        return
    if loop.failed_by is not None:
        if kind != loop.failed_by.error.get("type"):
            findings.report(
                "I13", f"{describe(event)} with {kind}, unlike iteration {loop.failed_by.index}"
            )
    elif kind == "too_many_failures":
        if not loop.has_too_many_failures:
            findings.report("I32", f"{describe(event)} although its failures are within the bound")
    elif kind == "timeout" and loop.plan.timeout_seconds is not None:
        due_at = (node.own.dispatched_at or 0) + round(loop.plan.timeout_seconds * MICROSECONDS)
        findings.check_due(event, due_at, "the loop's timeout")
    elif kind not in _BEFORE and not (kind in _WHILE_MERGING and loop.is_over):
        findings.report("I13", f"{describe(event)} with {kind}, although no iteration failed")


def reset(node: ReplayedNode, *, is_new: bool) -> None:
    """Apply an operator's retry: an incomplete loop runs what is missing, anything else runs from the start."""
    own = node.own
    has_failed_iterations = node.loop is not None and node.loop.count("failed") > 0
    if (own.state == "completed" and not has_failed_iterations) or (
        is_new and (own.attempt > 0 or node.loop is not None)
    ):
        node.generation += 1
        if node.loop is not None and node.loop.begun:
            # Iterations that began and were skipped count too.
            node.attempts_of_iterations = max(
                node.attempts_of_iterations, node.loop.attempts_before + 1
            )
        node.loop = None
    elif node.loop is not None:
        node.loop.failed_by = None
        node.loop.is_closed = False
        node.loop.window, node.loop.paused_until = node.loop.plan.window, None
        for unit in node.loop.iterations.values():
            if unit.state in ("failed", "cancelled"):
                unit.reset()
    own.reset()
