"""Write stored definitions as readable YAML documents that are read back as the same definition."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.spec.reading.scalars import WORDS

# The order of keys; other keys follow in the order of the stored form, and `nodes` is last.
WORKFLOW_ORDER = (
    "workflow_id", "description", "input", "schedule", "constraints", "actions", "run_retry", "hook", "default_alias",
    "on_failure", "timeout_seconds",
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
_BLOCK_START = re.compile(r"[^ \n]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def definition_text(stored: Raw) -> str:
    """Write a stored definition as a YAML document."""
    fields = msgspec.json.decode(bytes(stored), type=dict[str, Any])
    fields.pop("format", None)
    nodes = {node.pop("id"): _node(node) for node in fields.pop("nodes")}
    document = _order(_convert(fields, WORKFLOW_SECTIONS), WORKFLOW_ORDER)
    document["nodes"] = nodes
    return "".join(_lines(document, ""))


def _convert(
    fields: Mapping[str, Any], converters: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Return the fields as authors write them: sections by their converters, numbers without needless fractions."""
    return {name: converters.get(name, _shorten)(value) for name, value in fields.items()}


def _shorten(value: Any) -> Any:
    """Return a duration or another float as an integer where possible; it is read as a float again."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _section(fields: Mapping[str, Any]) -> dict[str, Any]:
    return _convert(fields, {})


def _actions(actions: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return {event: _action(fields) for event, fields in actions.items()}


def _action(fields: dict[str, Any]) -> dict[str, Any]:
    action = {name: fields.pop(name) for name in ("type", "critical") if name in fields}
    parameters = {**fields.pop("hook", {}), **fields}
    if parameters:
        action["parameters"] = _section(parameters)
    return action


def _node(fields: dict[str, Any]) -> dict[str, Any]:
    node = _convert(fields, NODE_SECTIONS)
    retry = {name: node.pop(name) for name in RETRY_KEYS if name in node}
    if retry:
        node["retry"] = retry
    if "kind" in node:
        node["type"] = node.pop("kind")
    return _order(node, NODE_ORDER)


def _sink(fields: dict[str, Any]) -> dict[str, Any]:
    return {"tool": fields["tool"], **fields["options"]}


def _loop(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.pop("tolerant", False):
        fields["on_failure"] = "continue"
    if fields.get("mode") == "async":
        # The default of this mode differs from the default of the stored form.
        fields.setdefault("concurrency", 1)
    return _order(_section(fields), LOOP_ORDER)


def _on_success(fields: dict[str, Any]) -> dict[str, Any]:
    return _order(_convert(fields, {"merge_path": ".".join}), ON_SUCCESS_ORDER)


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


WORKFLOW_SECTIONS: Mapping[str, Callable[[Any], Any]] = {
    "input": _schema,
    "schedule": _section,
    "constraints": _section,
    "run_retry": _section,
    "actions": _actions,
}
NODE_SECTIONS: Mapping[str, Callable[[Any], Any]] = {
    "loop": _loop,
    "sink": _sink,
    "on_error": _section,
    "on_success": _on_success,
}
RETRY_KEYS = ("on_error", "on_success", "max_redeliveries")


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
        yield from _block(head, value, indent + "  ")
    else:
        yield f"{head} {_scalar(cast('object', value))}\n"


def _block(head: str, text: str, indent: str) -> Iterator[str]:
    """Yield the lines of a block scalar, with a sign if the text does not end with a line break."""
    sign = "|"
    if not text.endswith("\n"):
        sign = "|-"
    yield f"{head} {sign}\n"
    for line in text.removesuffix("\n").split("\n"):
        # Empty lines need no indentation.
        yield f"{indent}{line}".rstrip(" ") + "\n"


def _is_block(text: str) -> bool:
    """Return whether a text has several lines and can be written as a block scalar."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) == 1 or not lines[-1] or not _BLOCK_START.match(text):
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
