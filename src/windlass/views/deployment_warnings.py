"""Warnings about a definition that depend on what is deployed and on the time."""

from collections.abc import Iterator

from windlass.core.errors import NotFound, Problem
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JOB_DEPTH_MAX
from windlass.core.runs.rules import ActionKind, RunRules
from windlass.ports.store.workflows import WorkflowStore
from windlass.spec.compile import run_rules
from windlass.spec.definition import Definition
from windlass.views.runs import PlanLoader

# Workflows that are read in the search for a cycle.
WORKFLOWS_MAX = 100


async def deployment_warnings(
    definition: Definition, workflows: WorkflowStore, plan: PlanLoader, now: int
) -> list[Problem]:
    """Return warnings about a default alias that is not set, an instant in the past, and a cycle of actions."""
    found = await _alias_warnings(definition, workflows)
    rules = run_rules(definition)
    if rules is None:
        return found
    at = None if rules.schedule is None else rules.schedule.at
    if at is not None and at * MICROSECONDS <= now:
        found.append(
            Problem(
                path="schedule.at",
                message="the instant is in the past: the schedule starts nothing",
                hint="write a later one, or start the workflow with windlass trigger",
                warning=True,
            )
        )
    cycle = await _find_cycle(definition.workflow_id, rules, workflows, plan)
    if cycle is not None:
        found.append(
            Problem(
                path="actions",
                message=f"trigger_job actions start each other in a cycle: {' → '.join(cycle)}",
                hint=f"at most {JOB_DEPTH_MAX} jobs start one by another; name another workflow",
                warning=True,
            )
        )
    return found


async def _alias_warnings(definition: Definition, workflows: WorkflowStore) -> list[Problem]:
    alias = definition.default_alias
    if alias is None or alias in await workflows.aliases(definition.workflow_id):
        return []
    return [
        Problem(
            path="default_alias",
            message=f"the alias is not set: '{alias}'; until then, submits without a version run the newest one",
            hint=f"set it with PUT /api/v1/workflows/{definition.workflow_id}/aliases/{alias}",
            warning=True,
        )
    ]


async def _find_cycle(
    workflow_id: str, rules: RunRules, workflows: WorkflowStore, plan: PlanLoader
) -> list[str] | None:
    """Return the shortest way from a workflow back to itself, over the deployed ones; None if there is none.

    A workflow that starts itself directly is found when the document is read.
    """
    ways = [[workflow_id, target] for target in _targets(rules) if target != workflow_id]
    seen = {way[-1] for way in ways}
    for _ in range(WORKFLOWS_MAX):
        if not ways:
            return None
        way = ways.pop(0)
        try:
            newest = await workflows.get(way[-1])
            following = (await plan(way[-1], newest.version)).runs
        except NotFound:
            continue
        for target in () if following is None else _targets(following):
            if target == workflow_id:
                return [*way, target]
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return None


def _targets(rules: RunRules) -> Iterator[str]:
    """Yield the workflows that actions start."""
    for action in (
        rules.on_constraint_violation,
        rules.on_failure,
        rules.on_success,
        rules.on_slow,
    ):
        if action is not None and action.kind is ActionKind.TRIGGER_JOB and action.workflow_id:
            yield action.workflow_id
