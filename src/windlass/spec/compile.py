"""Compile definitions into the plans that the core runs."""

from array import array
from datetime import datetime
from typing import Any, cast

from windlass.core.plan import NO_RETRY, NodePlan, Plan
from windlass.core.runs.containers import CONTAINER
from windlass.core.runs.cron import Schedule, instant_of
from windlass.core.runs.rules import NO_CONSTRAINTS, NO_RUN_RETRY, RunRules
from windlass.core.templates.template import Template, compile_template
from windlass.spec.checks.graph import children_of
from windlass.spec.checks.inputs import encode_schema, fill_defaults
from windlass.spec.definition import Definition, NodeDefinition, ScheduleDefinition
from windlass.spec.reading.gc_pause import gc_paused

# Container labels name the run and the slot; of the job, a worker only knows the id.
ORIGIN = {
    "origin": {
        "workflow_id": "{{ job.workflow_id }}",
        "scheduled_at": "{{ job.scheduled_at }}",
        "run_id": "{{ job.run_id }}",
    }
}


@gc_paused()
def compile_plan(definition: Definition, version: int) -> Plan:
    """Compile a definition. Nodes keep their topological order."""
    index = {node.id: number for number, node in enumerate(definition.nodes)}
    parents = [tuple([index[name] for name in node.dependencies]) for node in definition.nodes]
    hook_secret = None
    if definition.hook is not None:
        hook_secret = definition.hook.secret
    return Plan(
        workflow_id=definition.workflow_id,
        version=version,
        nodes=[_node_plan(node) for node in definition.nodes],
        index=index,
        parents=parents,
        children=[tuple(children) for children in children_of(parents)],
        dependency_counts=array("l", map(len, parents)),
        fail_fast=definition.on_failure == "fail_fast",
        timeout_seconds=definition.timeout_seconds,
        input_schema=encode_schema(definition.input),
        has_pagination=any(node.on_success is not None for node in definition.nodes),
        runs=run_rules(definition),
        hook_secret=hook_secret,
        default_alias=definition.default_alias,
    )


def _node_plan(node: NodeDefinition) -> NodePlan:
    params = node.params
    if node.handler == CONTAINER:
        params = _with_origin(params)
    return NodePlan(
        id=node.id,
        kind=node.kind,
        handler=node.handler,
        params=params,
        when=node.when,
        queue=node.queue,
        timeout_seconds=node.timeout_seconds,
        priority=node.priority,
        allow_failure=node.allow_failure,
        run_if_skipped=node.run_if_skipped,
        on_error=node.on_error or NO_RETRY,
        on_success=node.on_success,
        loop=node.loop,
        sink=node.sink,
        redeliveries_max=node.max_redeliveries,
        start_timeout_seconds=node.start_timeout,
    )


def _with_origin(params: Template | None) -> Template | None:
    """Add the data for a container's labels to its params."""
    if params is None or not isinstance(params.source, dict):
        return params
    return compile_template({**cast("dict[str, Any]", params.source), **ORIGIN})


def run_rules(definition: Definition) -> RunRules | None:
    """Return the rules for the workflow's runs; None when its jobs are not runs."""
    if not any(
        (definition.schedule, definition.constraints, definition.run_retry, definition.actions)
    ):
        return None
    schedule = None
    if definition.schedule is not None:
        schedule = compile_schedule(definition.schedule, definition.input)
    return RunRules(
        schedule=schedule,
        constraints=definition.constraints or NO_CONSTRAINTS,
        retry=definition.run_retry or NO_RUN_RETRY,
        # The events of a run, as in on_failure.
        **definition.actions,
    )


def compile_schedule(schedule: ScheduleDefinition, input_schema: dict[str, Any] | None) -> Schedule:
    """Resolve times to instants and fill in the defaults of the input schema."""
    input_data: Any = fill_defaults(input_schema, schedule.input)
    interval_seconds = None
    if schedule.every is not None:
        interval_seconds = int(schedule.every)
    return Schedule(
        cron=schedule.cron,
        interval_seconds=interval_seconds,
        at=_instant(schedule.at, schedule.timezone),
        zone=schedule.timezone,
        anchor=_instant(schedule.anchor, schedule.timezone) or 0,
        jitter_seconds=schedule.jitter,
        enabled=schedule.enabled,
        input_data=input_data,
    )


def _instant(text: str | None, zone: str) -> int | None:
    if text is None:
        return None
    return instant_of(datetime.fromisoformat(text.upper()), zone)
