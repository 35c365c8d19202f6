"""Loops: their rows against the replay, the recorded collection, the gathered outputs, and who ran at one time."""

import msgspec
from msgspec import Raw

from simulation.job_record import JobRecord, text_of
from simulation.replay.state import OUT, ReplayedLoop, ReplayedNode, ReplayedUnit
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import Progress, decode_progress
from windlass.core.plan import Plan
from windlass.core.templates.template import is_true

# What a row and the replay of its events must agree on.
COMPARED = (
    "attempt", "attempts_before", "losses", "first_seq", "dispatched_at", "started_at", "completed_at", "due_at",
    "worker_id",
)  # fmt: skip


def check_loops(record: JobRecord) -> None:
    """Everything about the loops of a job."""
    for node in record.fold.nodes.values():
        _check_progress(record, node)
        loop = node.loop
        if loop is None:
            continue
        _check_collection(record, node, loop)
        _check_rows(record, node, loop)
        _check_conditions(record, node, loop)
        if node.own.state == "completed":
            _check_output(record, node, loop)


def _progress(raw: Raw | None) -> Progress:
    return Progress() if raw is None else decode_progress(raw)


def _check_progress(record: JobRecord, node: ReplayedNode) -> None:
    row, own, loop = record.rows.get(node.plan.id), node.own, node.loop
    if row is None or row.status != own.state:
        return
    said = _progress(row.progress)
    if said.generation != node.generation:
        record.report(
            "I2", f"the row of {node.plan.id} says generation {said.generation}, the events {node.generation}"
        )
    if loop is not None and own.state not in ("completed", "skipped"):
        if (said.total, said.begun) != (loop.total, loop.begun):
            describe = f"{said.begun} of {said.total} iterations begun, the events say {loop.begun} of {loop.total}"
            record.report("I2", f"the row of {node.plan.id} says {describe}")
        timeout = loop.plan.timeout_seconds
        due_at = None if timeout is None else (own.dispatched_at or 0) + round(timeout * MICROSECONDS)
        if own.state in OUT and said.deadline_at != due_at:
            record.report("I23", f"the loop of {node.plan.id} ends at {said.deadline_at}, by its timeout at {due_at}")
    if node.plan.loop is None:
        _check_calls(record, node, own, said)


def _check_calls(record: JobRecord, node: ReplayedNode, unit: ReplayedUnit, said: Progress) -> None:
    if unit.state in (*OUT, "waiting") and (said.calls, said.is_gathering) != (len(unit.answers), unit.is_gathering):
        describe = f"{said.calls} calls, the events say {len(unit.answers)}"
        record.report("I2", f"the row of {record.name(node, unit.index)} ({unit.state}) says {describe}")


def _check_rows(record: JobRecord, node: ReplayedNode, loop: ReplayedLoop) -> None:
    for index in range(loop.total):
        row, unit = record.iteration_row(node, index), loop.iterations.get(index)
        name = record.name(node, index)
        if unit is None or row is None:
            if (unit is None) != (row is None) and not _is_out_the_first_time(loop, unit):
                describe = "no row" if row is None else f"a row ({row.status})"
                record.report(
                    "I2", f"{name} has {describe}, the events say {'nothing' if unit is None else unit.state}"
                )
            continue
        if row.status != unit.state:
            record.report("I2", f"the row of {name} says {row.status}, the events say {unit.state}")
            continue
        for field in COMPARED:
            if getattr(row, field) != getattr(unit, field):
                describe = f"{field} {getattr(row, field)}, the events say {getattr(unit, field)}"
                record.report("I2", f"the row of {name} ({row.status}) says {describe}")
        error = None if row.error is None else msgspec.json.decode(row.error)
        if error != unit.error:
            record.report("I2", f"the row of {name} says error {error}, the events say {unit.error}")
        if (row.output is not None) != (unit.state == "completed"):
            record.report("I27", f"{name} is {unit.state} and the output of its row is {text_of(row.output)}")
        _check_calls(record, node, unit, _progress(row.progress))


def _is_out_the_first_time(loop: ReplayedLoop, unit: ReplayedUnit | None) -> bool:
    """Whether an iteration is in the state that its loop's row tells of, without a row of its own."""
    if unit is None or unit.losses or unit.state != "dispatched":
        return False
    return unit.attempt == loop.attempts_before + 1


def _check_collection(record: JobRecord, node: ReplayedNode, loop: ReplayedLoop) -> None:
    """What was recorded has as many elements as events say, and is what the template gives."""
    elements = record.elements(node, node.generation)
    size = loop.plan.chunk_size
    if loop.total != (len(elements) if size is None else -(-len(elements) // size)):
        record.report("I10", f"{node.plan.id} has {loop.total} iterations, recorded are {len(elements)} elements")
    template = loop.plan.collection
    read = {reference.name for reference in template.references} | {
        str(reference.path[0]) for reference in template.references if reference.name == "nodes" and reference.path
    }
    if not read & record.plan.index.keys() <= _above(record.plan, node.plan.id):
        return  # what it reads may have changed since
    try:
        expected = record.value(template)
    except TemplateFailed:
        return
    if expected != elements:
        record.report("I10", f"{node.plan.id} runs over {elements!r}, its collection is {expected!r}"[:600])


def _above(plan: Plan, node_id: str) -> set[str]:
    found: set[str] = set()
    waiting = [plan.index[node_id]]
    while waiting:
        for parent in plan.parents[waiting.pop()]:
            if plan.nodes[parent].id not in found:
                found.add(plan.nodes[parent].id)
                waiting.append(parent)
    return found


def _check_conditions(record: JobRecord, node: ReplayedNode, loop: ReplayedLoop) -> None:
    """An iteration was skipped if its condition is false, and only then."""
    when = node.plan.when
    own_names = {loop.plan.element, "index"}
    if when is None or not any(reference.name in own_names for reference in when.references):
        skipped = [unit.index for unit in loop.iterations.values() if unit.state == "skipped"]
        if skipped:
            record.report("I11", f"{node.plan.id} skipped {skipped} without a condition")
        return
    for index, unit in loop.iterations.items():
        if unit.state == "skipped" or unit.started_at is not None:
            names = {loop.plan.element: record.element(node, node.generation, index), "index": index}
            try:
                holds = is_true(record.value(when, **names))
            except TemplateFailed:
                continue
            if holds is (unit.state == "skipped"):
                record.report("I11", f"{record.name(node, index)} is {unit.state}, though its condition is {holds}")


def _check_output(record: JobRecord, node: ReplayedNode, loop: ReplayedLoop) -> None:
    """The node's output is those of its iterations in the order of the collection, and its meta counts them."""
    row = record.rows.get(node.plan.id)
    if row is None:
        return
    rows = [record.iteration_row(node, index) for index in range(loop.total)]
    outputs = [None if one is None else record.decoded(one.output) for one in rows]
    if loop.plan.chunk_size is not None:
        outputs = [one for output in outputs if output is not None for one in output]
    if record.decoded(row.output) != outputs:
        record.report(
            "I10", f"{node.plan.id} brought {text_of(record.body(row.output))}, its iterations {outputs!r}"[:600]
        )
    succeeded, skipped = loop.count("completed"), loop.count("skipped")
    counts = {
        "total": loop.total,
        "succeeded": succeeded,
        "failed": loop.count("failed"),
        "success_rate": succeeded / loop.total if loop.total else 1.0,
        **({"skipped": skipped} if skipped else {}),
    }
    if row.meta is None or msgspec.json.decode(row.meta) != counts:
        record.report("I10", f"the meta of {node.plan.id} is {text_of(row.meta)}, counted were {counts}")


def check_overlap(record: JobRecord) -> None:
    """Where nothing went wrong, no more handlers of a loop ran at one time than its window allows."""
    for name, runs in record.runs.items():
        loop = record.fold.nodes[name].plan.loop
        if loop is None:
            continue
        # Ends before starts: a slot that is free at an instant may be taken at that instant.
        moments = [(run.started_at, 1, run.index) for run in runs if run.finished_at is not None]
        moments += [(run.finished_at, -1, run.index) for run in runs if run.finished_at is not None]
        running = 0
        for at, change, index in sorted(moments, key=lambda moment: moment[:2]):
            running += change
            if running > loop.window:
                record.report(
                    "I17", f"{running} handlers of {name} ran at {at} ({index} began), {loop.window} are allowed"
                )
                break


def check_bounds(record: JobRecord, slack_microseconds: int) -> None:
    """Where nothing went wrong, no loop goes on after its timeout."""
    for name, node in record.fold.nodes.items():
        loop, own = node.loop, node.own
        if loop is None or loop.plan.timeout_seconds is None or own.dispatched_at is None or own.completed_at is None:
            continue
        took = own.completed_at - own.dispatched_at
        if took > round(loop.plan.timeout_seconds * MICROSECONDS) + slack_microseconds:
            record.report("I23", f"the loop of {name} took {took} µs, its timeout is {loop.plan.timeout_seconds} s")
