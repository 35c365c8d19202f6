"""The log of executions against the events: what ran, with which identity, with what input, and what was accepted."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from simulation.checked_job import CheckedJob, text_of
from simulation.history import Execution
from simulation.replay.state import AttemptKey, ReplayedNode, ReplayedUnit, WorkUnit
from windlass.core.errors import TemplateFailed
from windlass.core.plan import Collect, NodeKind, RetryOnSuccess
from windlass.core.templates.template import Template, is_true


def check_effects(record: CheckedJob) -> None:
    """Check a job against the log of executions."""
    for name, executions in record.executions.items():
        node = record.replay.nodes.get(name)
        for execution in executions:
            _check_dispatch(record, node, execution)
        if node is not None:
            _check_failures(record, node)
            _check_identities(record, node)
            _check_elements(record, node)
            _check_further_calls(record, node)
            _check_sink(record, node)
    if not record.history.executions and not record.history.is_execution_log_complete:
        return
    for node in record.replay.nodes.values():
        if node.plan.kind is not NodeKind.TASK:
            continue
        for unit in node.units:
            _check_answers(record, node, unit)
            if unit.state == "completed":
                _check_result(record, node, unit)


def _check_dispatch(record: CheckedJob, node: ReplayedNode | None, execution: Execution) -> None:
    """Check that an attempt was dispatched, durably, before it ran."""
    what = f"{execution.node_id}[{execution.index}] attempt {execution.attempt} on {execution.worker_id}"
    if node is None or (execution.index, execution.attempt) not in node.work_units:
        record.report("I7", f"{what} ran without a dispatch event")
    if execution.dispatch_was_durable is False:
        record.report("I7", f"{what} started before its dispatch was stored")


def _check_failures(record: CheckedJob, node: ReplayedNode) -> None:
    """Check that a failure in the events is a failure of a handler."""
    for index, attempt in sorted(node.failed, key=str):
        outcomes = {execution.outcome for execution in record.executions_of(node, index, attempt)}
        if outcomes <= {"succeeded"}:
            what = f"{record.name(node, index)} attempt {attempt}"
            record.report("I6", f"{what} failed by the events, but not in any handler")


def _check_identities(record: CheckedJob, node: ReplayedNode) -> None:
    """Check that each unit of work has one idempotency key over all its attempts, different from all others."""
    key_of: dict[WorkUnit, str] = {}
    work_unit_of: dict[str, WorkUnit] = {}
    for execution in record.executions[node.plan.id]:
        work_unit = node.work_units.get((execution.index, execution.attempt))
        if work_unit is None:
            continue
        key = execution.idempotency_key
        first_key = key_of.setdefault(work_unit, key)
        if first_key != key:
            record.report(
                "I7", f"{node.plan.id} {work_unit} has two idempotency keys: {first_key} and {key}"
            )
        first = work_unit_of.setdefault(key, work_unit)
        if first != work_unit:
            record.report(
                "I7", f"{node.plan.id} {work_unit} and {first} have the same idempotency key: {key}"
            )


def _check_elements(record: CheckedJob, node: ReplayedNode) -> None:
    """Check that iterations got the recorded elements."""
    for execution in record.executions[node.plan.id]:
        work_unit = node.work_units.get((execution.index, execution.attempt))
        if execution.element is None or execution.index is None or work_unit is None:
            continue
        recorded = record.element(node, work_unit[1], execution.index)
        if msgspec.json.decode(execution.element) != recorded:
            what = f"{record.name(node, execution.index)} attempt {execution.attempt}"
            record.report(
                "I10", f"{what} got {text_of(execution.element)}, recorded is {recorded!r}"
            )


# Pagination


def _check_further_calls(record: CheckedJob, node: ReplayedNode) -> None:
    """Check that a further call has the params of the previous one, updated by the rule."""
    rule = node.plan.on_success
    if rule is None:
        return
    for execution in record.executions[node.plan.id]:
        key: AttemptKey = (execution.index, execution.attempt)
        if execution.params is None or key not in node.follows:
            continue
        previous = record.succeeded(node, execution.index, node.follows[key])
        expected = [_next_params(record, node, rule, answered) for answered in previous]
        if msgspec.json.decode(execution.params) not in expected:
            what = f"{record.name(node, execution.index)} attempt {execution.attempt}"
            evidence = (
                f"{what} was called with {text_of(execution.params)}, expected one of {expected!r}"
            )
            record.report("I8", evidence[:600])


def _next_params(
    record: CheckedJob, node: ReplayedNode, rule: RetryOnSuccess, answered: Execution
) -> Any:
    params = msgspec.json.decode(answered.params or b"null")
    if rule.next_call is None:
        return params
    try:
        return _merged(params, record.value(rule.next_call, node, **_names(record, node, answered)))
    except TemplateFailed:
        # No call can follow this response.
        return None


def _names(record: CheckedJob, node: ReplayedNode, answered: Execution) -> dict[str, object]:
    index, generation, call = node.work_units[answered.index, answered.attempt]
    names = record.iteration_names(node, generation, index)
    return {**names, "response": record.decoded(answered.output), "attempt": call}


def _merged(base: Any, update: Any) -> Any:
    if not isinstance(base, Mapping) or not isinstance(update, Mapping):
        return update
    merged = dict(cast("Mapping[str, Any]", base))
    for key, value in cast("Mapping[str, Any]", update).items():
        merged[key] = _merged(merged.get(key), value)
    return merged


def _check_answers(record: CheckedJob, node: ReplayedNode, unit: ReplayedUnit) -> None:
    """Check that pagination continues exactly while its condition holds and calls are left."""
    rule = node.plan.on_success
    if rule is None:
        return
    for call, attempt in enumerate(unit.answers, 1):
        executions = record.succeeded(node, unit.index, attempt)
        conditions = {
            _holds(record, node, rule.condition, _names(record, node, execution))
            for execution in executions
        }
        is_last = unit.is_answered and call == len(unit.answers)
        if not executions or (is_last and call >= rule.calls_max):
            continue
        name = record.name(node, unit.index)
        shown = sorted(map(str, conditions))
        if is_last and conditions == {True}:
            record.report(
                "I11", f"{name} ended with call {call}, although its condition is {shown}"
            )
        elif not is_last and True not in conditions:
            record.report(
                "I11", f"{name} continued after call {call}, although its condition is {shown}"
            )


def _holds(
    record: CheckedJob, node: ReplayedNode, condition: Template, names: dict[str, object]
) -> bool | None:
    try:
        return is_true(record.value(condition, node, **names))
    except TemplateFailed:
        return None


# Results


def _check_result(record: CheckedJob, node: ReplayedNode, unit: ReplayedUnit) -> None:
    """Check that the output comes from the accepted attempts, and that these read the recorded outputs."""
    row, name = record.row_of(node, unit), record.name(node, unit.index)
    for attempt in unit.accepted:
        executions = record.succeeded(node, unit.index, attempt)
        if not executions:
            record.report(
                "I7", f"{name} completed by attempt {attempt}, but no handler completed it"
            )
            return
        for execution in executions:
            _check_reads(record, name, execution)
    if row is None:
        return
    rule = node.plan.on_success
    if rule is None or rule.collect is Collect.REPLACE:
        output = record.body(row.output)
        executions = record.succeeded(node, unit.index, unit.accepted[-1])
        possible = [record.body(execution.output) for execution in executions]
    else:
        output = record.decoded(row.output)
        possible = _possible_outputs(record, node, rule, unit)
    if output not in possible:
        stored = f"the output of {name} is {text_of(record.body(row.output))}"
        record.report("I6", f"{stored}, attempts {unit.accepted} made {possible!r}"[:600])


def _check_reads(record: CheckedJob, name: str, execution: Execution) -> None:
    """Check that a handler got the recorded outputs of other nodes."""
    for read, given in (execution.reads or {}).items():
        row = record.rows.get(read)
        recorded = None if row is None else record.decoded(row.output)
        if msgspec.json.decode(given) != recorded:
            what = (
                f"{name} attempt {execution.attempt} got {text_of(given)} as the output of {read}"
            )
            record.report("I8", f"{what}, recorded is {str(recorded)[:200]}")


def _possible_outputs(
    record: CheckedJob, node: ReplayedNode, rule: RetryOnSuccess, unit: ReplayedUnit
) -> list[Any]:
    """Return the outputs that the responses of all pages may be merged into."""
    if len(unit.answers) == 1:
        executions = record.succeeded(node, unit.index, unit.answers[0])
        return [
            _collected(rule, [_part(rule, record.decoded(execution.output))])
            for execution in executions
        ]
    parts: list[Any] = []
    index = -1 if unit.index is None else unit.index
    for call, attempt in enumerate(unit.answers, 1):
        page = record.history.loops.pages.get((record.number(node), node.generation, index, call))
        executions = record.succeeded(node, unit.index, attempt)
        made = [_part(rule, record.decoded(execution.output)) for execution in executions]
        if page is None or record.decoded(page) not in made:
            what = f"page {call} of {record.name(node, unit.index)} is {text_of(record.body(page))}"
            record.report("I6", f"{what}, attempt {attempt} made {made!r}"[:600])
            return []
        parts.append(record.decoded(page))
    return [_collected(rule, parts)]


def _part(rule: RetryOnSuccess, output: Any) -> Any:
    if rule.collect is Collect.APPEND:
        for key in rule.merge_path:
            output = cast("dict[str, Any]", output).get(key) if isinstance(output, dict) else None
    return output


def _collected(rule: RetryOnSuccess, parts: list[Any]) -> Any:
    if rule.collect is Collect.APPEND:
        return [element for part in parts for element in part]
    return parts


# Sinks


def _check_sink(record: CheckedJob, node: ReplayedNode) -> None:
    """Check that accepted outputs were written once, and that nothing else was written."""
    sink_rows = record.history.sink_rows
    if node.plan.sink is None or sink_rows is None:
        return
    executions = record.executions[node.plan.id]
    identities = {execution.idempotency_key for execution in executions}
    succeeded = [execution for execution in executions if execution.outcome == "succeeded"]
    for row in sink_rows:
        outputs = [
            execution.output for execution in succeeded if execution.idempotency_key == row.identity
        ]
        if row.identity in identities and row.output not in outputs:
            record.report(
                "I7",
                f"{row.identity} was written as {text_of(row.output)}, which no handler returned",
            )
    for unit in node.units:
        if unit.state != "completed":
            continue
        for call, attempt in enumerate(unit.accepted, 1):
            _check_written_once(record, node, (unit.index, node.generation, call), attempt)


def _check_written_once(
    record: CheckedJob, node: ReplayedNode, work_unit: WorkUnit, attempt: int
) -> None:
    executions: list[Execution] = []
    for execution in record.executions[node.plan.id]:
        is_of_unit = node.work_units.get((execution.index, execution.attempt)) == work_unit
        if is_of_unit and execution.outcome == "succeeded":
            executions.append(execution)
    identities = {execution.idempotency_key for execution in executions}
    written = [row.output for row in record.history.sink_rows or () if row.identity in identities]
    name = f"{record.name(node, work_unit[0])} call {work_unit[2]}"
    if len(written) != 1:
        record.report(
            "I7", f"{name} was accepted by attempt {attempt} and written {len(written)} times"
        )
    for execution in executions:
        if execution.output in written:
            _check_reads(record, f"the sink row of {name}, from", execution)
