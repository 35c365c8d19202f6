"""Write stored definitions as readable YAML documents that are read back as the same definition."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.spec.reading.scalars import WORDS

# The order of keys; other keys follow in the order of the stored form, and `nodes` is last.
WORKFLOW_ORDER = (
    "workflow_id", "description", "input", "schedule", "constraints", "actions", "run_retry", "hook", "on_failure",
    "timeout_seconds",
)  # fmt: skip
NODE_ORDER = (
    "type", "handler", "dependencies", "when", "loop", "params", "retry", "sink", "queue", "timeout_seconds",
    "priority", "allow_failure", "run_if_skipped",
)  # fmt: skip
SCHEMA_ORDER = ("type", "title", "description", "properties", "required")
ON_SUCCESS_ORDER = ("while", "next_call")
LOOP_ORDER = ("collection", "element", "mode", "concurrency")

# Strings that need no quotes in any position.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_ ./@+-]*[A-Za-z0-9_./@+-])?")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def definition_text(stored: Raw) -> str:
    """Write a stored definition as a YAML document."""
    fields = msgspec.json.decode(bytes(stored), type=dict[str, Any])
    fields.pop("format", None)
    nodes = {node.pop("id"): _node(node) for node in fields.pop("nodes")}
    for name in ("schedule", "constraints", "run_retry"):
        if name in fields:
            fields[name] = _shorten_numbers(fields[name])
    if "input" in fields:
        fields["input"] = _schema(fields["input"])
    if "actions" in fields:
        fields["actions"] = {event: _action(action) for event, action in fields["actions"].items()}
    document = _order(_shorten_numbers(fields), WORKFLOW_ORDER)
    document["nodes"] = nodes
    return "".join(_lines(document, ""))


def _action(fields: dict[str, Any]) -> dict[str, Any]:
    action = {name: fields.pop(name) for name in ("type", "critical") if name in fields}
    parameters = {**fields.pop("hook", {}), **fields}
    if parameters:
        action["parameters"] = _shorten_numbers(parameters)
    return action


def _node(fields: dict[str, Any]) -> dict[str, Any]:
    if "kind" in fields:
        fields["type"] = fields.pop("kind")
    if "loop" in fields:
        fields["loop"] = _loop(fields["loop"])
    if "sink" in fields:
        fields["sink"] = {"tool": fields["sink"]["tool"], **fields["sink"]["options"]}
    retry: dict[str, Any] = {}
    if "on_error" in fields:
        retry["on_error"] = _shorten_numbers(fields.pop("on_error"))
    if "on_success" in fields:
        retry["on_success"] = _on_success(fields.pop("on_success"))
    if "max_redeliveries" in fields:
        retry["max_redeliveries"] = fields.pop("max_redeliveries")
    if retry:
        fields["retry"] = retry
    return _order(_shorten_numbers(fields), NODE_ORDER)


def _loop(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.pop("tolerant", False):
        fields["on_failure"] = "continue"
    if fields.get("mode") == "async":
        # The default of this mode differs from the default of the stored form.
        fields.setdefault("concurrency", 1)
    return _order(_shorten_numbers(fields), LOOP_ORDER)


def _on_success(fields: dict[str, Any]) -> dict[str, Any]:
    if "merge_path" in fields:
        fields["merge_path"] = ".".join(fields["merge_path"])
    return _order(_shorten_numbers(fields), ON_SUCCESS_ORDER)


def _schema(value: Any) -> Any:
    """Order the keys of a JSON Schema, with the type of each part first."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return _order({name: _schema(inner) for name, inner in fields.items()}, SCHEMA_ORDER)


def _order(fields: Mapping[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    ordered = {name: fields[name] for name in first if name in fields}
    ordered.update(fields)
    return ordered


def _shorten_numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write durations and other floats as integers where possible; they are read as floats again."""
    shortened: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, float) and value.is_integer():
            shortened[name] = int(value)
        else:
            shortened[name] = value
    return shortened


def _lines(value: object, indent: str) -> Iterator[str]:
    """Yield the lines of an object or a list."""
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
        yield f"{head} |\n" if value.endswith("\n") else f"{head} |-\n"
        for line in value.removesuffix("\n").split("\n"):
            yield f"{indent}  {line}\n" if line else "\n"
    else:
        yield f"{head} {_scalar(cast('object', value))}\n"


def _is_block(text: str) -> bool:
    """Return whether a text has several lines and can be written as a block scalar."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) == 1 or not lines[0] or not lines[-1] or lines[0].startswith(" "):
        return False
    return all(line.isprintable() and not line.endswith(" ") for line in lines)


def _key(key: str) -> str:
    if _PLAIN_KEY.fullmatch(key) and key not in WORDS:
        return key
    return _quote(key)


def _scalar(value: object) -> str:
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if _PLAIN.fullmatch(value) and value not in WORDS:
        return value
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return _quote(value)


def _quote(text: str) -> str:
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}"
