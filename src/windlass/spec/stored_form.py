"""The stored form of definitions: canonical JSON, in which equal definitions have equal bytes."""

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from windlass.core.plan import LoopPlan, NodeKind, RetryOnError, RetryOnSuccess, SinkPlan
from windlass.core.runs.rules import Action, Constraints, RunRetry
from windlass.core.templates.template import Template, compile_template
from windlass.spec.definition import (
    Definition,
    IncomingHookDefinition,
    NodeDefinition,
    ScheduleDefinition,
)
from windlass.spec.reading.gc_pause import gc_paused

# Increased when the stored form changes in a way that older engines cannot read.
FORMAT = 1

_SECTIONS: Mapping[str, Any] = {
    "schedule": ScheduleDefinition,
    "constraints": Constraints,
    "actions": dict[str, Action],
    "run_retry": RunRetry,
    "hook": IncomingHookDefinition,
}
_NODE_SECTIONS: Mapping[str, type[RetryOnError | RetryOnSuccess | LoopPlan | SinkPlan]] = {
    "on_error": RetryOnError,
    "on_success": RetryOnSuccess,
    "loop": LoopPlan,
    "sink": SinkPlan,
}
_TEMPLATES = ("params", "when", "while", "next_call", "collection", "options")


@gc_paused()
def definition_json(definition: Definition) -> Raw:
    """Encode a definition. The bytes do not depend on how the document was written."""
    return Raw(
        msgspec.json.encode({"format": FORMAT, **_fields(definition)}, order="deterministic")
    )


def digest(raw: Raw) -> str:
    """Return the SHA-256 of a stored form, which identifies a version."""
    return hashlib.sha256(bytes(raw)).hexdigest()


def _fields(value: Struct) -> dict[str, object]:
    """Return the fields of a struct under their stored names, without those that have their default value."""
    fields: dict[str, object] = {}
    defaults = value.__struct_defaults__
    first_default = len(value.__struct_fields__) - len(defaults)
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    for position, (name, stored_name) in enumerate(names):
        content: object = getattr(value, name)
        if content is None or content == {}:
            continue
        if position >= first_default and content == defaults[position - first_default]:
            continue
        fields[stored_name] = _stored(content)
    return fields


def _stored(value: object) -> object:
    if isinstance(value, Template):
        return value.source
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list):
        return [_stored(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _stored(item) for key, item in cast("dict[str, object]", value).items()}
    return value


@gc_paused()
def definition_from_json(raw: Raw) -> Definition:
    """Decode a stored definition. It was checked before it was stored and is not checked again."""
    fields = msgspec.json.decode(bytes(raw), type=dict[str, Any])
    fields.pop("format", None)
    fields["nodes"] = [_node(stored) for stored in fields["nodes"]]
    for name, section in _SECTIONS.items():
        if name in fields:
            fields[name] = msgspec.convert(fields[name], section)
    return Definition(**fields)


def _node(fields: dict[str, Any]) -> NodeDefinition:
    for name, section in _NODE_SECTIONS.items():
        if name in fields:
            fields[name] = msgspec.convert(_with_templates(fields[name]), section)
    if "kind" in fields:
        fields["kind"] = NodeKind(fields["kind"])
    if "dependencies" in fields:
        fields["dependencies"] = tuple(fields["dependencies"])
    return NodeDefinition(**_with_templates(fields))


def _with_templates(fields: dict[str, Any]) -> dict[str, Any]:
    for name in _TEMPLATES:
        if name in fields:
            fields[name] = compile_template(fields[name])
    return fields
