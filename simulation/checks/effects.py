"""The execution_log of effects against the events: what ran, under which identity, on what, and what was taken of it."""

from typing import Any, cast

import msgspec

from simulation.history import Execution
from simulation.job_record import JobRecord, text_of
from simulation.replay.state import Attempt, ReplayedNode, ReplayedUnit, WorkUnit
from windlass.core.errors import TemplateFailed
from windlass.core.plan import Collect, NodeKind, RetryOnSuccess
from windlass.core.templates.template import Template, is_true


def check_effects(record: JobRecord) -> None:
    """Everything that the execution_log can tell about a job."""
    for name, runs in record.runs.items():
        node = record.fold.nodes.get(name)
        for run in runs:
            _check_dispatch(record, node, run)
        if node is not None:
            _check_failures(record, node)
            _check_identities(record, node)
            _check_elements(record, node)
            _check_further_calls(record, node)
            _check_sink(record, node)
    for node in record.fold.nodes.values():
        if node.plan.kind is NodeKind.TASK and (record.history.executions or record.history.is_execution_log_complete):
            for unit in node.parts:
                _check_answers(record, node, unit)
                if unit.state == "completed":
                    _check_result(record, node, unit)


def _check_dispatch(record: JobRecord, node: ReplayedNode | None, run: Execution) -> None:
    what = f"{run.node_id}[{run.index}] attempt {run.attempt} on {run.worker_id}"
    if node is None or (run.index, run.attempt) not in node.work_units:
        record.report("I7", f"{what} ran, but no event tells of its dispatch")
    if run.dispatch_was_durable is False:
        record.report("I7", f"{what} began before its dispatch was stored")


def _check_failures(record: JobRecord, node: ReplayedNode) -> None:
    runs = record.runs[node.plan.id]
    for index, attempt in sorted(node.failed, key=str):
        outcomes = {run.outcome for run in runs if (run.index, run.attempt) == (index, attempt)}
        if outcomes <= {"succeeded"}:
            what = f"{record.name(node, index)} attempt {attempt}"
            record.report("I6", f"{what} failed by the events, but no handler says so")


def _check_identities(record: JobRecord, node: ReplayedNode) -> None:
    """One key for each work_unit of work, over all its attempts, and another for each other work_unit."""
    keys: dict[WorkUnit, str] = {}
    work_units: dict[str, WorkUnit] = {}
    for run in record.runs[node.plan.id]:
        work_unit = node.work_units.get((run.index, run.attempt))
        if work_unit is None:
            continue
        key = keys.setdefault(work_unit, run.idempotency_key)
        if key != run.idempotency_key:
            record.report(
                "I7", f"{node.plan.id} {work_unit} ran under the idempotency keys {key} and {run.idempotency_key}"
            )
        other = work_units.setdefault(run.idempotency_key, work_unit)
        if other != work_unit:
            record.report("I7", f"{node.plan.id} {work_unit} and {other} ran under one key, {run.idempotency_key}")


def _check_elements(record: JobRecord, node: ReplayedNode) -> None:
    for run in record.runs[node.plan.id]:
        work_unit = node.work_units.get((run.index, run.attempt))
        if run.element is None or run.index is None or work_unit is None:
            continue
        recorded = record.element(node, work_unit[1], run.index)
        if msgspec.json.decode(run.element) != recorded:
            what = f"{record.name(node, run.index)} attempt {run.attempt}"
            record.report("I10", f"{what} was given {text_of(run.element)}, recorded is {recorded!r}")


# Series of calls


def _check_further_calls(record: JobRecord, node: ReplayedNode) -> None:
    """A further call has the params of the one before it, and over them what the rule made of its answer."""
    rule = node.plan.on_success
    if rule is None:
        return
    for run in record.runs[node.plan.id]:
        place: Attempt = (run.index, run.attempt)
        if run.params is None or place not in node.follows:
            continue
        before = record.succeeded(node, run.index, node.follows[place])
        expected = [_next_params(record, node, rule, answered) for answered in before]
        if msgspec.json.decode(run.params) not in expected:
            what = f"{record.name(node, run.index)} attempt {run.attempt}"
            record.report("I8", f"{what} was called with {text_of(run.params)}, expected was one of {expected!r}"[:600])


def _next_params(record: JobRecord, node: ReplayedNode, rule: RetryOnSuccess, answered: Execution) -> Any:
    params = msgspec.json.decode(answered.params or b"null")
    if rule.next_call is None:
        return params
    try:
        return _laid_over(params, record.value(rule.next_call, **_names(record, node, answered)))
    except TemplateFailed:
        return None  # no call can follow such an answer


def _names(record: JobRecord, node: ReplayedNode, answered: Execution) -> dict[str, object]:
    index, generation, call = node.work_units[answered.index, answered.attempt]
    names: dict[str, object] = {"response": record.decoded(answered.output), "attempt": call}
    if index is not None and node.plan.loop is not None:
        names |= {node.plan.loop.element: record.element(node, generation, index), "index": index}
    return names


def _laid_over(under: Any, over: Any) -> Any:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    below, above = cast("dict[str, Any]", under), cast("dict[str, Any]", over)
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def _check_answers(record: JobRecord, node: ReplayedNode, unit: ReplayedUnit) -> None:
    """A series goes on exactly while its condition holds for the last answer, and calls are left."""
    rule = node.plan.on_success
    if rule is None:
        return
    for call, attempt in enumerate(unit.answers, 1):
        runs = record.succeeded(node, unit.index, attempt)
        goes_on = {_holds(record, rule.condition, _names(record, node, run)) for run in runs}
        ends_here = unit.is_answered and call == len(unit.answers)
        allowed = {False, None} if ends_here and call < rule.calls_max else {True, False, None} if ends_here else {True}
        if runs and goes_on.isdisjoint(allowed):
            what = f"{record.name(node, unit.index)} {'ended with' if ends_here else 'went on after'} call {call}"
            record.report("I11", f"{what}, though its condition says {sorted(map(str, goes_on))}")


def _holds(record: JobRecord, condition: Template, names: dict[str, object]) -> bool | None:
    try:
        return is_true(record.value(condition, **names))
    except TemplateFailed:
        return None


# Results


def _check_result(record: JobRecord, node: ReplayedNode, unit: ReplayedUnit) -> None:
    """The output is that of the accepted attempts, and they worked on what is recorded."""
    row, name = record.row_of(node, unit), record.name(node, unit.index)
    for attempt in unit.accepted:
        runs = record.succeeded(node, unit.index, attempt)
        if not runs:
            record.report("I7", f"{name} completed by attempt {attempt}, which no handler ran to its end")
            return
        for run in runs:
            _check_reads(record, name, run)
    if row is None:
        return
    rule = node.plan.on_success
    if rule is None or rule.collect is Collect.REPLACE:
        found = record.body(row.output)
        possible = [record.body(run.output) for run in record.succeeded(node, unit.index, unit.accepted[-1])]
    else:
        found, possible = record.decoded(row.output), _possible_outputs(record, node, rule, unit)
    if found not in possible:
        made = f"attempts {unit.accepted} made {possible!r}"
        record.report("I6", f"the output of {name} is {text_of(record.body(row.output))}, {made}"[:600])


def _check_reads(record: JobRecord, name: str, run: Execution) -> None:
    for read, given in (run.reads or {}).items():
        row = record.rows.get(read)
        recorded = None if row is None else record.decoded(row.output)
        if msgspec.json.decode(given) != recorded:
            describe = f"was given {text_of(given)} as the output of {read}, recorded is {str(recorded)[:200]}"
            record.report("I8", f"{name} attempt {run.attempt} {describe}")


def _possible_outputs(record: JobRecord, node: ReplayedNode, rule: RetryOnSuccess, unit: ReplayedUnit) -> list[Any]:
    """What the answers of a series come to together."""
    if len(unit.answers) == 1:
        runs = record.succeeded(node, unit.index, unit.answers[0])
        return [_joined(rule, [_part(rule, record.decoded(run.output))]) for run in runs]
    parts: list[Any] = []
    index = -1 if unit.index is None else unit.index
    for call, attempt in enumerate(unit.answers, 1):
        page = record.history.loops.pages.get((record.number(node), node.generation, index, call))
        made = [_part(rule, record.decoded(run.output)) for run in record.succeeded(node, unit.index, attempt)]
        if page is None or record.decoded(page) not in made:
            what = f"page {call} of {record.name(node, unit.index)} is {text_of(record.body(page))}"
            record.report("I6", f"{what}, attempt {attempt} made {made!r}"[:600])
            return []
        parts.append(record.decoded(page))
    return [_joined(rule, parts)]


def _part(rule: RetryOnSuccess, output: Any) -> Any:
    if rule.collect is Collect.APPEND:
        for key in rule.merge_path:
            output = cast("dict[str, Any]", output).get(key) if isinstance(output, dict) else None
    return output


def _joined(rule: RetryOnSuccess, parts: list[Any]) -> Any:
    return [one for part in parts for one in part] if rule.collect is Collect.APPEND else parts


# Sinks


def _check_sink(record: JobRecord, node: ReplayedNode) -> None:
    """What was accepted is in the table once, made of what is recorded; nothing is there that no handler made."""
    if node.plan.sink is None or record.history.sink_rows is None:
        return
    runs = [run for run in record.runs[node.plan.id] if run.outcome == "succeeded"]
    for one in record.history.sink_rows:
        made = [run.output for run in record.runs[node.plan.id] if run.idempotency_key == one.identity]
        if made and one.output not in [run.output for run in runs if run.idempotency_key == one.identity]:
            record.report("I7", f"{one.identity} is in the table as {text_of(one.output)}, which no handler made")
    for unit in node.parts:
        if unit.state != "completed":
            continue
        for call, attempt in enumerate(unit.accepted, 1):
            work_unit: WorkUnit = (unit.index, node.generation, call)
            _check_sink_rows(
                record,
                node,
                work_unit,
                attempt,
                [r for r in runs if node.work_units.get((r.index, r.attempt)) == work_unit],
            )


def _check_sink_rows(
    record: JobRecord, node: ReplayedNode, work_unit: WorkUnit, attempt: int, runs: list[Execution]
) -> None:
    identities = {run.idempotency_key for run in runs}
    written = [one for one in record.history.sink_rows or () if one.identity in identities]
    name = f"{record.name(node, work_unit[0])} call {work_unit[2]}"
    if len(written) != 1:
        record.report("I7", f"{name} was accepted by attempt {attempt} and is {len(written)} times in its table")
    for run in runs:
        if run.output in [one.output for one in written]:
            _check_reads(record, f"the row of {name}, made by", run)
