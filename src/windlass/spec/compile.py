"""Definitions to plans and to their stored form and back."""

import hashlib
from array import array
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from windlass.core.plan import (
    NO_RETRY,
    Backoff,
    Collect,
    LoopPlan,
    NodeKind,
    NodePlan,
    Plan,
    RetryOnError,
    RetryOnSuccess,
    SinkPlan,
)
from windlass.core.templates.template import Template, compile_template
from windlass.spec.definition import (
    Action,
    Constraints,
    Definition,
    Incoming,
    Loop,
    Node,
    OnError,
    OnSuccess,
    RunRetry,
    Schedule,
    Sink,
)
from windlass.spec.reading.gc_pause import collections_paused
from windlass.spec.run_rules import run_rules

# Raised when the stored form changes in a way that older engines cannot read.
FORMAT = 1
CONTAINER = "container"
ORIGIN = {"origin": {"workflow_id": "{{ job.workflow_id }}", "scheduled_at": "{{ job.scheduled_at }}"}}

_KINDS = {"task": NodeKind.TASK, "start": NodeKind.START, "end": NodeKind.END}
_BACKOFFS = {"fixed": Backoff.FIXED, "linear": Backoff.LINEAR, "exponential": Backoff.EXPONENTIAL}
_COLLECTS = {"append": Collect.APPEND, "replace": Collect.REPLACE, "collect": Collect.COLLECT}


@collections_paused()
def compile_plan(definition: Definition, version: int) -> Plan:
    """The plan that the core runs. Nodes keep the topological order of the definition."""
    index = {node.id: number for number, node in enumerate(definition.nodes)}
    parents = [tuple([index[name] for name in node.dependencies]) for node in definition.nodes]
    children: list[list[int]] = [[] for _ in parents]
    for number, above in enumerate(parents):
        for parent in above:
            children[parent].append(number)
    schema = definition.input
    return Plan(
        workflow_id=definition.workflow_id,
        version=version,
        nodes=[_node_plan(node) for node in definition.nodes],
        index=index,
        parents=parents,
        children=[tuple(below) for below in children],
        dependency_counts=array("l", map(len, parents)),
        fail_fast=definition.on_failure == "fail_fast",
        timeout_seconds=definition.timeout_seconds,
        input_schema=None if schema is None else Raw(msgspec.json.encode(schema, order="deterministic")),
        has_series=any(node.on_success is not None for node in definition.nodes),
        runs=run_rules(definition),
        hook_secret=None if definition.hook is None else definition.hook.secret,
    )


def _node_plan(node: Node) -> NodePlan:
    return NodePlan(
        node.id,
        _KINDS[node.kind],
        node.handler,
        _with_origin(node.params) if node.handler == CONTAINER else node.params,
        node.when,
        node.queue,
        node.timeout_seconds,
        node.priority,
        node.allow_failure,
        node.run_if_skipped,
        NO_RETRY if node.on_error is None else _rule(node.on_error),
        None if node.on_success is None else _further_calls(node.on_success),
        None if node.loop is None else _loop_plan(node.loop),
        None if node.sink is None else SinkPlan(node.sink.tool, node.sink.options),
        node.max_redeliveries,
    )


def _with_origin(params: Template | None) -> Template | None:
    """The params of a container, and what its labels tell of the job: a worker knows no more of that than its id."""
    source: object = None if params is None else params.source
    return compile_template({**cast("dict[str, Any]", source), **ORIGIN}) if isinstance(source, dict) else params


def _rule(rule: OnError) -> RetryOnError:
    return RetryOnError(
        attempts_max=rule.max_attempts,
        backoff=_BACKOFFS[rule.backoff],
        initial_delay_seconds=rule.initial_delay,
        multiplier=rule.multiplier,
        max_delay_seconds=rule.max_delay,
        jitter=rule.jitter,
        when=rule.when,
    )


def _further_calls(rule: OnSuccess) -> RetryOnSuccess:
    return RetryOnSuccess(
        condition=rule.condition,
        next_call=rule.next_call,
        collect=_COLLECTS[rule.collect],
        merge_path=() if rule.merge_path is None else tuple(rule.merge_path.split(".")),
        calls_max=rule.max_attempts,
        delay_seconds=rule.delay,
    )


def _loop_plan(loop: Loop) -> LoopPlan:
    return LoopPlan(
        collection=loop.collection,
        element=loop.element,
        window=loop.concurrency,
        chunk_size=loop.chunk_size,
        tolerant=loop.on_failure == "continue",
        timeout_seconds=loop.timeout_seconds,
        mode=loop.mode,
    )


@collections_paused()
def definition_json(definition: Definition) -> Raw:
    """The one stored form: equal graphs give equal bytes, however they were written."""
    return Raw(msgspec.json.encode({"format": FORMAT, **_plain(definition)}, order="deterministic"))


def digest(raw: Raw) -> str:
    """What tells versions apart: the SHA-256 of the stored form."""
    return hashlib.sha256(bytes(raw)).hexdigest()


def _plain(value: Struct) -> dict[str, object]:
    """A struct as JSON: what has its default is left out, templates are written as their sources."""
    made: dict[str, object] = {}
    defaults = value.__struct_defaults__
    fields = value.__struct_fields__
    first_default = len(fields) - len(defaults)
    for place, name in enumerate(fields):
        held: object = getattr(value, name)
        if held is None or (place >= first_default and held == defaults[place - first_default]) or held == {}:
            continue
        if isinstance(held, Template):
            made[name] = held.source
        elif isinstance(held, Struct):
            made[name] = _plain(held)
        elif name == "nodes":
            made[name] = [_plain(node) for node in cast("list[Node]", held)]
        elif name == "actions":
            made[name] = {event: _plain(action) for event, action in cast("dict[str, Action]", held).items()}
        else:
            made[name] = held
    return made


@collections_paused()
def definition_from_json(raw: Raw) -> Definition:
    """A stored definition, as it was. It was checked before it was stored and is not checked again."""
    plain = msgspec.json.decode(bytes(raw), type=dict[str, Any])
    plain.pop("format", None)
    plain["nodes"] = [_node(fields) for fields in plain["nodes"]]
    for name, kind in _SECTIONS.items():
        if name in plain:
            plain[name] = msgspec.convert(plain[name], kind)
    return Definition(**plain)


_SECTIONS: Mapping[str, Any] = {
    "schedule": Schedule,
    "constraints": Constraints,
    "actions": dict[str, Action],
    "run_retry": RunRetry,
    "hook": Incoming,
}
_PARTS: Mapping[str, type[OnError | OnSuccess | Loop | Sink]] = {
    "on_error": OnError,
    "on_success": OnSuccess,
    "loop": Loop,
    "sink": Sink,
}
_TEMPLATES = ("params", "when", "condition", "next_call", "collection", "options")


def _node(fields: dict[str, Any]) -> Node:
    for name, kind in _PARTS.items():
        if name in fields:
            fields[name] = kind(**_compiled(fields[name]))
    if "dependencies" in fields:
        fields["dependencies"] = tuple(fields["dependencies"])
    return Node(**_compiled(fields))


def _compiled(fields: dict[str, Any]) -> dict[str, Any]:
    for name in _TEMPLATES:
        if name in fields:
            fields[name] = compile_template(fields[name])
    return fields
