"""What may be told of values that others gave: large ones become their size, credentials a mask, internals nothing."""

from typing import cast

import msgspec
from msgspec import Raw

from windlass.core.redaction import MASK, is_credential, redact_text

# Any value whose JSON is larger is told by its size.
VALUE_BYTES_MAX = 10 * 1024
CONTEXT_BYTES_MAX = 64 * 1024
DEPTH_MAX = 16

# Internal keys that are told: what this module itself writes among them.
KEPT_KEYS = frozenset({"_step_results", "_truncated", "_size", "_missing", "_unavailable"})

_encode = msgspec.json.Encoder().encode


def truncated(size: int, **marks: bool) -> Raw:
    """What stands for a value that is not told: how many bytes its JSON has, and what else is the matter with it."""
    return Raw(_encode({"_truncated": True, "_size": size, **{f"_{name}": mark for name, mark in marks.items()}}))


def sanitized_json(value: Raw) -> Raw:
    """A JSON value as it may be told; RecursionError and msgspec.DecodeError for what is no JSON within bounds."""
    return Raw(_encode(sanitized(msgspec.json.decode(value))))


def sanitized(value: object) -> object:
    """A decoded JSON value as it may be told. What was sanitized before stays as it is."""
    return _told(value, 0)[0]


def sanitized_context(context: Raw) -> Raw:
    """A JSON object as the context of an event: each of its values within the bound, and all together in theirs."""
    told, told_size, size = _object(msgspec.json.decode(context, type=dict[str, object]), 0)
    return Raw(_encode(told)) if told_size <= CONTEXT_BYTES_MAX else truncated(size)


def _told(value: object, depth: int) -> tuple[object, int, int]:
    """A value as it is told, the bytes of that as JSON, and the bytes of the value itself."""
    if isinstance(value, str):
        found = _text(value)
    elif not isinstance(value, dict | list):
        size = len(_encode(value))
        return value, size, size
    elif depth == DEPTH_MAX:
        return _cut(len(_encode(cast("object", value))))
    elif isinstance(value, dict):
        found = _object(cast("dict[str, object]", value), depth)
    else:
        found = _array(cast("list[object]", value), depth)
    return found if found[1] <= VALUE_BYTES_MAX else _cut(found[2])


def _cut(size: int) -> tuple[object, int, int]:
    marker = {"_truncated": True, "_size": size}
    return marker, len(_encode(marker)), size


def _text(value: str) -> tuple[object, int, int]:
    size = len(_encode(value))
    told = redact_text(value)
    return (value, size, size) if told == value else (told, len(_encode(told)), size)


def _object(value: dict[str, object], depth: int) -> tuple[object, int, int]:
    told: dict[str, object] = {}
    told_size = size = 1
    for key, item in value.items():
        key_size = len(_encode(key)) + 2
        if is_credential(key, item):
            shown, shown_size, item_size = MASK, len(MASK) + 2, len(_encode(item))
        else:
            shown, shown_size, item_size = _told(item, depth + 1)
        size += key_size + item_size
        if not key.startswith("_") or key in KEPT_KEYS:
            told[key] = shown
            told_size += key_size + shown_size
    # The last comma is not there, and the closing brace is; an empty object has only the brace.
    return told, max(2, told_size), max(2, size)


def _array(value: list[object], depth: int) -> tuple[object, int, int]:
    told: list[object] = []
    told_size = size = 1
    for item in value:
        shown, shown_size, item_size = _told(item, depth + 1)
        told.append(shown)
        told_size += shown_size + 1
        size += item_size + 1
    return told, max(2, told_size), max(2, size)
