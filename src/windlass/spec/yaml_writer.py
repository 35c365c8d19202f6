"""Stored definitions as documents again: YAML that people read, and that is read back as the very same definition."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.spec.reading.scalars import WORDS

# What a workflow says first; all else follows in the order of the stored form, and the nodes come last.
TOP = (
    "workflow_id", "description", "input", "schedule", "constraints", "actions", "run_retry", "hook", "on_failure",
    "timeout_seconds",
)  # fmt: skip
NODE = (
    "type", "handler", "dependencies", "when", "loop", "params", "retry", "sink", "queue", "timeout_seconds",
    "priority", "allow_failure", "run_if_skipped",
)  # fmt: skip
SCHEMA = ("type", "title", "description", "properties", "required")
ON_SUCCESS = ("while", "next_call")
LOOP = ("collection", "element", "mode", "concurrency")

# Strings that mean the same without quotes, wherever they stand.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_ ./@+-]*[A-Za-z0-9_./@+-])?")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def definition_text(stored: Raw) -> str:
    """A stored definition as a YAML document."""
    fields = msgspec.json.decode(bytes(stored), type=dict[str, Any])
    fields.pop("format", None)
    nodes = {node.pop("id"): _node(node) for node in fields.pop("nodes")}
    for name in ("schedule", "constraints", "run_retry"):
        if name in fields:
            fields[name] = _plain_numbers(fields[name])
    if "input" in fields:
        fields["input"] = _schema(fields["input"])
    for action in fields.get("actions", {}).values():
        if "parameters" in action:
            # Behind the type.
            action["parameters"] = _plain_numbers(action.pop("parameters"))
    return "".join(_lines({**_ordered(_plain_numbers(fields), TOP), "nodes": nodes}, ""))


def _node(fields: dict[str, Any]) -> dict[str, Any]:
    """A node as authors write it."""
    if "kind" in fields:
        fields["type"] = fields.pop("kind")
    if "loop" in fields:
        loop = fields["loop"] = _ordered(_plain_numbers(fields["loop"]), LOOP)
        if loop.get("mode") == "async":
            # Without a number, this mode has another one than the stored form.
            loop.setdefault("concurrency", 1)
    if "sink" in fields:
        fields["sink"] = {"tool": fields["sink"]["tool"], **fields["sink"]["options"]}
    retry: dict[str, Any] = {}
    if "on_error" in fields:
        retry["on_error"] = _plain_numbers(fields.pop("on_error"))
    if "on_success" in fields:
        rule = _plain_numbers(fields.pop("on_success"))
        retry["on_success"] = _ordered({"while": rule.pop("condition"), **rule}, ON_SUCCESS)
    if "max_redeliveries" in fields:
        retry["max_redeliveries"] = fields.pop("max_redeliveries")
    if retry:
        fields["retry"] = retry
    return _ordered(_plain_numbers(fields), NODE)


def _schema(value: Any) -> Any:
    """A JSON Schema, what each of its parts is before all else that it says of it."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return _ordered({name: _schema(inner) for name, inner in fields.items()}, SCHEMA)
    return value


def _ordered(fields: Mapping[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    return {**{name: fields[name] for name in first if name in fields}, **fields}


def _plain_numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Durations and such, which are read as fractions however they are written."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in fields.items()
    }


def _lines(value: object, indent: str) -> Iterator[str]:
    """The lines of an object or a list, each of them at an indent."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from _entry(f"{indent}{_key(key)}:", inner, indent)
        return
    for inner in cast("list[object]", value):
        yield from _entry(f"{indent}-", inner, indent)


def _entry(head: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield f"{head}\n"
        yield from _lines(cast("object", value), indent + "  ")
    elif isinstance(value, str) and _is_block(value):
        kept = value.endswith("\n")
        yield f"{head} |\n" if kept else f"{head} |-\n"
        for line in value.removesuffix("\n").split("\n"):
            yield f"{indent}  {line}\n" if line else "\n"
    else:
        yield f"{head} {_scalar(cast('object', value))}\n"


def _is_block(text: str) -> bool:
    """Whether a text of several lines can be written as it is."""
    lines = text.removesuffix("\n").split("\n")
    return len(lines) > 1 and bool(lines[0]) and bool(lines[-1]) and not lines[0].startswith(" ") and all(
        line.isprintable() and not line.endswith(" ") for line in lines
    )  # fmt: skip


def _key(key: str) -> str:
    return key if _KEY.fullmatch(key) and key not in WORDS else _quoted(key)


def _scalar(value: object) -> str:
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if _PLAIN.fullmatch(value) and value not in WORDS:
        return value
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return _quoted(value)


def _quoted(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(one: str) -> str:
    return _ESCAPES.get(one) or (one if one.isprintable() else f"\\U{ord(one):08x}")
