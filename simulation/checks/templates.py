"""Conditions and templates by what is recorded: what was decided still follows, and what failed still fails."""

from typing import Any

from simulation.job_record import JobRecord
from simulation.replay.state import UNFINISHED, ReplayedNode, ReplayedUnit
from windlass.core.errors import TemplateFailed
from windlass.core.plan import NodePlan
from windlass.core.templates.template import Template, is_true

# How the error of a rule about answers begins.
_ANSWER = "retry.on_success"


def check_templates(record: JobRecord) -> None:
    """Everything about the templates of a job that the outputs recorded can tell."""
    for node in record.fold.nodes.values():
        _check_condition(record, node)
        for unit in (node.own, *node.parts):
            error: dict[str, Any] = unit.error or {}
            if unit.state == "failed" and error.get("type") == "template_failed":
                _check_failure(record, node, unit, str(error.get("message")).partition(":")[0])


def _check_condition(record: JobRecord, node: ReplayedNode) -> None:
    """A condition holds for what ran and does not for what was skipped by it."""
    own, when = node.own, node.plan.when
    if when is None or own.state in UNFINISHED or _asked_for_each(node.plan, when):
        return
    entered = own.state == "completed" or own.first_seq is not None
    by_condition = own.state == "skipped" and "condition" in (own.skip_reason or "")
    if not entered and not by_condition:
        return
    try:
        holds = is_true(record.value(when))
    except TemplateFailed:
        return
    if holds is by_condition:
        record.report("I11", f"{node.plan.id} is {own.state}, though its condition is {holds}")


def _asked_for_each(plan: NodePlan, when: Template) -> bool:
    return plan.loop is not None and any(one.name in (plan.loop.element, "index") for one in when.references)


def _check_failure(record: JobRecord, node: ReplayedNode, unit: ReplayedUnit, place: str) -> None:
    plan = node.plan
    names: dict[str, object] = {}
    if unit.index is not None and plan.loop is not None:
        names = {plan.loop.element: record.element(node, node.generation, unit.index), "index": unit.index}
    if place == _ANSWER:
        fails = _answer_fails(record, node, unit, names)
    else:
        named: dict[str, list[Template | None]] = {
            "params": [plan.params, None if plan.sink is None else plan.sink.options],
            "when": [plan.when],
            "loop.collection": [None if plan.loop is None else plan.loop.collection],
        }
        # An iteration's failure is also that of its node, which then tells nothing of a template of its own.
        fails = place not in named or any(_fails(record, one, names) for one in named[place] if one is not None)
    if not fails:
        record.report("I8", f"{record.name(node, unit.index)} failed of {place}, which can be rendered: {unit.error}")


def _answer_fails(record: JobRecord, node: ReplayedNode, unit: ReplayedUnit, names: dict[str, object]) -> bool:
    rule = node.plan.on_success
    runs = record.succeeded(node, unit.index, unit.attempt)
    if rule is None or not runs:
        return True
    for run in runs:
        known = {**names, "response": record.decoded(run.output), "attempt": len(unit.answers) + 1}
        if any(_fails(record, one, known) for one in (rule.condition, rule.next_call) if one is not None):
            return True
    return False


def _fails(record: JobRecord, template: Template, names: dict[str, object]) -> bool:
    try:
        record.value(template, **names)
    except TemplateFailed:
        return True
    return False
