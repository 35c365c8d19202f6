"""Conditions and templates against the recorded outputs: decisions still follow, and failures still fail."""

from typing import Any

from simulation.checked_job import CheckedJob
from simulation.replay.state import UNFINISHED, ReplayedNode, ReplayedUnit
from windlass.core.errors import TemplateFailed
from windlass.core.plan import NodePlan
from windlass.core.templates.template import Template, is_true

# The beginning of errors in a rule for further calls.
_CALL_RULE = "retry.on_success"


def check_templates(record: CheckedJob) -> None:
    """Check the templates of a job against the recorded outputs."""
    for node in record.replay.nodes.values():
        _check_condition(record, node)
        for unit in (node.own, *node.units):
            error: dict[str, Any] = unit.error or {}
            if unit.state == "failed" and error.get("type") == "template_failed":
                _check_failure(record, node, unit, str(error.get("message")).partition(":")[0])


def _check_condition(record: CheckedJob, node: ReplayedNode) -> None:
    """Check that a condition is true for a node that ran and false for a node that it skipped."""
    own, when = node.own, node.plan.when
    if when is None or own.state in UNFINISHED or is_per_iteration(node.plan, when):
        return
    has_run = own.state == "completed" or own.dispatched_at is not None
    was_skipped_by_it = own.state == "skipped" and "condition" in (own.skip_reason or "")
    if not has_run and not was_skipped_by_it:
        return
    try:
        holds = is_true(record.value(when, node))
    except TemplateFailed:
        return
    if holds is was_skipped_by_it:
        record.report("I11", f"{node.plan.id} is {own.state}, although its condition is {holds}")


def is_per_iteration(plan: NodePlan, when: Template) -> bool:
    """Return whether a condition is evaluated for each iteration of a loop."""
    if plan.loop is None:
        return False
    return any(reference.name in (plan.loop.element, "index") for reference in when.references)


def _check_failure(record: CheckedJob, node: ReplayedNode, unit: ReplayedUnit, field: str) -> None:
    """Check that a template that failed still fails."""
    names = record.iteration_names(node, node.generation, unit.index)
    if field == _CALL_RULE:
        still_fails = _call_rule_fails(record, node, unit, names)
    else:
        templates = _templates(node.plan).get(field)
        # None for the error of an iteration that is also the error of its node.
        still_fails = templates is None or any(
            _fails(record, node, template, names) for template in templates
        )
    if not still_fails:
        evidence = f"{record.name(node, unit.index)} failed with {field}, which can be rendered: {unit.error}"
        record.report("I8", evidence)


def _templates(plan: NodePlan) -> dict[str, list[Template]]:
    """Return the templates of a node by the field that errors name."""
    named: dict[str, list[Template | None]] = {
        "params": [plan.params, None if plan.sink is None else plan.sink.options],
        "when": [plan.when],
        "loop.collection": [None if plan.loop is None else plan.loop.collection],
    }
    return {
        field: [one for one in templates if one is not None] for field, templates in named.items()
    }


def _call_rule_fails(
    record: CheckedJob, node: ReplayedNode, unit: ReplayedUnit, names: dict[str, object]
) -> bool:
    rule = node.plan.on_success
    executions = record.succeeded(node, unit.index, unit.attempt)
    if rule is None or not executions:
        return True
    for execution in executions:
        known = {
            **names,
            "response": record.decoded(execution.output),
            "attempt": len(unit.answers) + 1,
        }
        if _fails(record, node, rule.condition, known):
            return True
        if rule.next_call is not None and _fails(record, node, rule.next_call, known):
            return True
    return False


def _fails(
    record: CheckedJob, node: ReplayedNode, template: Template, names: dict[str, object]
) -> bool:
    try:
        record.value(template, node, **names)
    except TemplateFailed:
        return True
    return False
