"""Loops: their rows against the replay, the recorded collection, the gathered outputs, and who ran at one time."""

import msgspec
from msgspec import Raw

from simulation.case import Case, text_of
from simulation.replay.state import OUT, Folded, FoldedLoop, FoldedNode
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


def check_loops(case: Case) -> None:
    """Everything about the loops of a job."""
    for node in case.fold.nodes.values():
        _check_progress(case, node)
        loop = node.loop
        if loop is None:
            continue
        _check_collection(case, node, loop)
        _check_rows(case, node, loop)
        _check_conditions(case, node, loop)
        if node.own.state == "completed":
            _check_output(case, node, loop)


def _progress(raw: Raw | None) -> Progress:
    return Progress() if raw is None else decode_progress(raw)


def _check_progress(case: Case, node: FoldedNode) -> None:
    row, own, loop = case.rows.get(node.plan.id), node.own, node.loop
    if row is None or row.status != own.state:
        return
    said = _progress(row.progress)
    if said.generation != node.generation:
        case.blame("I2", f"the row of {node.plan.id} says generation {said.generation}, the events {node.generation}")
    if loop is not None and own.state not in ("completed", "skipped"):
        if (said.total, said.begun) != (loop.total, loop.begun):
            told = f"{said.begun} of {said.total} iterations begun, the events say {loop.begun} of {loop.total}"
            case.blame("I2", f"the row of {node.plan.id} says {told}")
        timeout = loop.plan.timeout_seconds
        due_at = None if timeout is None else (own.dispatched_at or 0) + round(timeout * MICROSECONDS)
        if own.state in OUT and said.deadline_at != due_at:
            case.blame("I23", f"the loop of {node.plan.id} ends at {said.deadline_at}, by its timeout at {due_at}")
    if node.plan.loop is None:
        _check_calls(case, node, own, said)


def _check_calls(case: Case, node: FoldedNode, unit: Folded, said: Progress) -> None:
    if unit.state in (*OUT, "waiting") and (said.calls, said.is_gathering) != (len(unit.answers), unit.is_gathering):
        told = f"{said.calls} calls, the events say {len(unit.answers)}"
        case.blame("I2", f"the row of {case.name(node, unit.index)} ({unit.state}) says {told}")


def _check_rows(case: Case, node: FoldedNode, loop: FoldedLoop) -> None:
    for index in range(loop.total):
        row, unit = case.iteration_row(node, index), loop.iterations.get(index)
        name = case.name(node, index)
        if unit is None or row is None:
            if (unit is None) != (row is None) and not _is_out_the_first_time(loop, unit):
                told = "no row" if row is None else f"a row ({row.status})"
                case.blame("I2", f"{name} has {told}, the events say {'nothing' if unit is None else unit.state}")
            continue
        if row.status != unit.state:
            case.blame("I2", f"the row of {name} says {row.status}, the events say {unit.state}")
            continue
        for field in COMPARED:
            if getattr(row, field) != getattr(unit, field):
                told = f"{field} {getattr(row, field)}, the events say {getattr(unit, field)}"
                case.blame("I2", f"the row of {name} ({row.status}) says {told}")
        error = None if row.error is None else msgspec.json.decode(row.error)
        if error != unit.error:
            case.blame("I2", f"the row of {name} says error {error}, the events say {unit.error}")
        if (row.output is not None) != (unit.state == "completed"):
            case.blame("I27", f"{name} is {unit.state} and the output of its row is {text_of(row.output)}")
        _check_calls(case, node, unit, _progress(row.progress))


def _is_out_the_first_time(loop: FoldedLoop, unit: Folded | None) -> bool:
    """Whether an iteration is in the state that its loop's row tells of, without a row of its own."""
    if unit is None or unit.losses or unit.state != "dispatched":
        return False
    return unit.attempt == loop.attempts_before + 1


def _check_collection(case: Case, node: FoldedNode, loop: FoldedLoop) -> None:
    """What was recorded has as many elements as events say, and is what the template gives."""
    elements = case.elements(node, node.generation)
    size = loop.plan.chunk_size
    if loop.total != (len(elements) if size is None else -(-len(elements) // size)):
        case.blame("I10", f"{node.plan.id} has {loop.total} iterations, recorded are {len(elements)} elements")
    template = loop.plan.collection
    read = {reference.name for reference in template.references} | {
        str(reference.path[0]) for reference in template.references if reference.name == "nodes" and reference.path
    }
    if not read & case.plan.index.keys() <= _above(case.plan, node.plan.id):
        return  # what it reads may have changed since
    try:
        expected = case.value(template)
    except TemplateFailed:
        return
    if expected != elements:
        case.blame("I10", f"{node.plan.id} runs over {elements!r}, its collection is {expected!r}"[:600])


def _above(plan: Plan, node_id: str) -> set[str]:
    found: set[str] = set()
    waiting = [plan.index[node_id]]
    while waiting:
        for parent in plan.parents[waiting.pop()]:
            if plan.nodes[parent].id not in found:
                found.add(plan.nodes[parent].id)
                waiting.append(parent)
    return found


def _check_conditions(case: Case, node: FoldedNode, loop: FoldedLoop) -> None:
    """An iteration was skipped if its condition is false, and only then."""
    when = node.plan.when
    own_names = {loop.plan.element, "index"}
    if when is None or not any(reference.name in own_names for reference in when.references):
        skipped = [unit.index for unit in loop.iterations.values() if unit.state == "skipped"]
        if skipped:
            case.blame("I11", f"{node.plan.id} skipped {skipped} without a condition")
        return
    for index, unit in loop.iterations.items():
        if unit.state == "skipped" or unit.started_at is not None:
            names = {loop.plan.element: case.element(node, node.generation, index), "index": index}
            try:
                holds = is_true(case.value(when, **names))
            except TemplateFailed:
                continue
            if holds is (unit.state == "skipped"):
                case.blame("I11", f"{case.name(node, index)} is {unit.state}, though its condition is {holds}")


def _check_output(case: Case, node: FoldedNode, loop: FoldedLoop) -> None:
    """The node's output is those of its iterations in the order of the collection, and its meta counts them."""
    row = case.rows.get(node.plan.id)
    if row is None:
        return
    rows = [case.iteration_row(node, index) for index in range(loop.total)]
    outputs = [None if one is None else case.decoded(one.output) for one in rows]
    if loop.plan.chunk_size is not None:
        outputs = [one for output in outputs if output is not None for one in output]
    if case.decoded(row.output) != outputs:
        case.blame("I10", f"{node.plan.id} brought {text_of(case.body(row.output))}, its iterations {outputs!r}"[:600])
    succeeded, skipped = loop.count("completed"), loop.count("skipped")
    counts = {
        "total": loop.total,
        "succeeded": succeeded,
        "failed": loop.count("failed"),
        "success_rate": succeeded / loop.total if loop.total else 1.0,
        **({"skipped": skipped} if skipped else {}),
    }
    if row.meta is None or msgspec.json.decode(row.meta) != counts:
        case.blame("I10", f"the meta of {node.plan.id} is {text_of(row.meta)}, counted were {counts}")


def check_overlap(case: Case) -> None:
    """Where nothing went wrong, no more handlers of a loop ran at one time than its window allows."""
    for name, runs in case.runs.items():
        loop = case.fold.nodes[name].plan.loop
        if loop is None:
            continue
        # Ends before starts: a slot that is free at an instant may be taken at that instant.
        moments = [(run.started_at, 1, run.index) for run in runs if run.finished_at is not None]
        moments += [(run.finished_at, -1, run.index) for run in runs if run.finished_at is not None]
        running = 0
        for at, change, index in sorted(moments, key=lambda moment: moment[:2]):
            running += change
            if running > loop.window:
                case.blame(
                    "I17", f"{running} handlers of {name} ran at {at} ({index} began), {loop.window} are allowed"
                )
                break


def check_bounds(case: Case, slack_microseconds: int) -> None:
    """Where nothing went wrong, no loop goes on after its timeout."""
    for name, node in case.fold.nodes.items():
        loop, own = node.loop, node.own
        if loop is None or loop.plan.timeout_seconds is None or own.dispatched_at is None or own.completed_at is None:
            continue
        took = own.completed_at - own.dispatched_at
        if took > round(loop.plan.timeout_seconds * MICROSECONDS) + slack_microseconds:
            case.blame("I23", f"the loop of {name} took {took} µs, its timeout is {loop.plan.timeout_seconds} s")
