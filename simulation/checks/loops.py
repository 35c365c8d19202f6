"""Checks of loops: rows, collections, conditions, merged outputs, the window and the timeout."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from simulation.checked_job import CheckedJob, text_of
from simulation.checks.rows import check_row
from simulation.checks.templates import is_per_iteration
from simulation.replay.loops import iteration_count
from simulation.replay.state import OUT, ReplayedLoop, ReplayedNode, ReplayedUnit
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import LoopProgress, read_progress
from windlass.core.plan import Plan
from windlass.core.templates.template import Template, is_true


def check_loops(record: CheckedJob) -> None:
    """Check the loops of a job."""
    for node in record.replay.nodes.values():
        _check_progress(record, node)
        loop = node.loop
        if loop is None:
            continue
        _check_collection(record, node, loop)
        for index in range(loop.total):
            _check_iteration(record, node, loop, index)
        _check_conditions(record, node, loop)
        if node.own.state == "completed":
            _check_output(record, node, loop)


def _progress(raw: Raw | None) -> LoopProgress:
    if raw is None:
        return LoopProgress()
    return read_progress(raw)


def _check_progress(record: CheckedJob, node: ReplayedNode) -> None:
    """Check the progress in the row of a node."""
    row, own, loop = record.rows.get(node.plan.id), node.own, node.loop
    if row is None or row.status != own.state:
        return
    name = node.plan.id
    progress = _progress(row.progress)
    if progress.generation != node.generation:
        stored = f"the row of {name} says generation {progress.generation}"
        record.report("I2", f"{stored}, the events say {node.generation}")
    if loop is not None and own.state not in ("completed", "skipped"):
        if (progress.total, progress.begun) != (loop.total, loop.begun):
            stored = f"the row of {name} says {progress.begun} of {progress.total} iterations begun"
            record.report("I2", f"{stored}, the events say {loop.begun} of {loop.total}")
        due_at = _due_at(own, loop)
        if own.state in OUT and progress.deadline_at != due_at:
            record.report(
                "I23",
                f"the deadline of the loop {name} is {progress.deadline_at}, by its timeout {due_at}",
            )
    if node.plan.loop is None:
        _check_calls(record, node, own, progress)


def _due_at(own: ReplayedUnit, loop: ReplayedLoop) -> int | None:
    if loop.plan.timeout_seconds is None:
        return None
    return (own.dispatched_at or 0) + round(loop.plan.timeout_seconds * MICROSECONDS)


def _check_calls(
    record: CheckedJob, node: ReplayedNode, unit: ReplayedUnit, progress: LoopProgress
) -> None:
    """Check the number of calls in the row of a paginated unit."""
    if unit.state not in (*OUT, "waiting"):
        return
    made = len(unit.answers)
    if (progress.calls, progress.is_merging) != (made, unit.is_merging):
        stored = (
            f"the row of {record.name(node, unit.index)} ({unit.state}) says {progress.calls} calls"
        )
        record.report("I2", f"{stored}, the events say {made}")


def _check_iteration(
    record: CheckedJob, node: ReplayedNode, loop: ReplayedLoop, index: int
) -> None:
    """Check the row of an iteration."""
    row, unit = record.iteration_row(node, index), loop.iterations.get(index)
    name = record.name(node, index)
    if unit is None:
        if row is not None:
            record.report("I2", f"{name} has a row ({row.status}), but no events")
        return
    if row is None:
        if not _is_in_first_attempt(loop, unit):
            record.report("I2", f"{name} has no row, the events say {unit.state}")
        return
    if row.status != unit.state:
        record.report("I2", f"the row of {name} says {row.status}, the events say {unit.state}")
        return
    check_row(record.replay, name, unit, row)
    if (row.output is not None) != (unit.state == "completed"):
        record.report(
            "I27", f"{name} is {unit.state} and the output of its row is {text_of(row.output)}"
        )
    _check_calls(record, node, unit, _progress(row.progress))


def _is_in_first_attempt(loop: ReplayedLoop, unit: ReplayedUnit) -> bool:
    """Return whether the row of the loop covers the state of an iteration, which then needs no row."""
    if unit.losses or unit.state != "dispatched":
        return False
    return unit.attempt == loop.attempts_before + 1


def _check_collection(record: CheckedJob, node: ReplayedNode, loop: ReplayedLoop) -> None:
    """Check the recorded collection against the events and the template."""
    elements = record.elements(node, node.generation)
    if loop.total != iteration_count(loop.plan, len(elements)):
        record.report(
            "I10",
            f"{node.plan.id} has {loop.total} iterations, recorded are {len(elements)} elements",
        )
    template = loop.plan.collection
    if not _nodes_read(template) & record.plan.index.keys() <= _upstream(record.plan, node.plan.id):
        # It reads nodes that may have changed since.
        return
    try:
        expected = record.value(template, node)
    except TemplateFailed:
        return
    if expected != elements:
        record.report(
            "I10", f"{node.plan.id} runs over {elements!r}, its collection is {expected!r}"[:600]
        )


def _nodes_read(template: Template) -> set[str]:
    """Return the names that may be nodes which a template reads, also as `nodes.<name>`."""
    found: set[str] = set()
    for reference in template.references:
        found.add(reference.name)
        if reference.name == "nodes" and reference.path:
            found.add(str(reference.path[0]))
    return found


def _upstream(plan: Plan, node_id: str) -> set[str]:
    found: set[str] = set()
    unvisited = [plan.index[node_id]]
    while unvisited:
        for parent in plan.parents[unvisited.pop()]:
            if plan.nodes[parent].id not in found:
                found.add(plan.nodes[parent].id)
                unvisited.append(parent)
    return found


def _check_conditions(record: CheckedJob, node: ReplayedNode, loop: ReplayedLoop) -> None:
    """Check that exactly the iterations with a false condition were skipped."""
    when = node.plan.when
    if when is None or not is_per_iteration(node.plan, when):
        skipped = [unit.index for unit in loop.iterations.values() if unit.state == "skipped"]
        if skipped:
            record.report("I11", f"{node.plan.id} skipped {skipped} without a condition")
        return
    for index, unit in loop.iterations.items():
        is_skipped = unit.state == "skipped"
        if not is_skipped and unit.started_at is None:
            continue
        try:
            holds = is_true(
                record.value(when, node, **record.iteration_names(node, node.generation, index))
            )
        except TemplateFailed:
            continue
        if holds is is_skipped:
            record.report(
                "I11",
                f"{record.name(node, index)} is {unit.state}, although its condition is {holds}",
            )


def _check_output(record: CheckedJob, node: ReplayedNode, loop: ReplayedLoop) -> None:
    """Check that the output of a loop is that of its iterations in order, and that its meta counts them."""
    row = record.rows.get(node.plan.id)
    if row is None:
        return
    expected = _merged_output(record, node, loop)
    if record.decoded(row.output) != expected:
        stored = text_of(record.body(row.output))
        record.report(
            "I10", f"the output of {node.plan.id} is {stored}, merged: {expected!r}"[:600]
        )
    succeeded, skipped = loop.count("completed"), loop.count("skipped")
    counted = loop.total - skipped
    counts = {
        "total": loop.total,
        "succeeded": succeeded,
        "failed": loop.count("failed"),
        "success_rate": succeeded / counted if counted else 1.0,
    }
    if skipped:
        counts["skipped"] = skipped
    exhausted = loop.count_exhausted()
    if exhausted:
        counts["exhausted"] = exhausted
    if row.meta is None or msgspec.json.decode(row.meta) != counts:
        record.report(
            "I10", f"the meta of {node.plan.id} is {text_of(row.meta)}, counted: {counts}"
        )


def _merged_output(record: CheckedJob, node: ReplayedNode, loop: ReplayedLoop) -> Sequence[Any]:
    outputs: list[Any] = []
    for index in range(loop.total):
        row = record.iteration_row(node, index)
        output = None if row is None else record.decoded(row.output)
        if loop.plan.chunk_size is None:
            outputs.append(output)
        elif output is not None:
            outputs.extend(output)
    return outputs


def check_overlap(record: CheckedJob) -> None:
    """Check that, without faults, no more handlers of a loop ran at the same time than its window allows."""
    for name, executions in record.executions.items():
        loop = record.replay.nodes[name].plan.loop
        if loop is None:
            continue
        changes: list[tuple[int, int]] = []
        for execution in executions:
            if execution.finished_at is not None:
                changes += [(execution.started_at, 1), (execution.finished_at, -1)]
        running = 0
        # Sorted with ends before starts: a slot that becomes free may be used at the same instant.
        for at, change in sorted(changes):
            running += change
            if running > loop.window:
                record.report(
                    "I17", f"{running} handlers of {name} ran at {at}, {loop.window} are allowed"
                )
                break


def check_timeouts(record: CheckedJob, slack_microseconds: int) -> None:
    """Check that, without faults, no loop runs after its timeout."""
    for name, node in record.replay.nodes.items():
        loop, own = node.loop, node.own
        if loop is None or loop.plan.timeout_seconds is None:
            continue
        if own.dispatched_at is None or own.completed_at is None:
            continue
        duration = own.completed_at - own.dispatched_at
        if duration > round(loop.plan.timeout_seconds * MICROSECONDS) + slack_microseconds:
            record.report(
                "I23",
                f"the loop of {name} took {duration} µs, its timeout is {loop.plan.timeout_seconds} s",
            )
