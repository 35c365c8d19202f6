"""Sanitize values for events and the API: truncate large values, mask credentials, remove internal keys."""

from typing import cast

import msgspec
from msgspec import Raw

from windlass.core.redaction import MASK, is_credential, redact_text

# Values with larger JSON are truncated.
VALUE_BYTES_MAX = 10 * 1024
CONTEXT_BYTES_MAX = 64 * 1024
DEPTH_MAX = 16

# Keys with an underscore that are kept, including those that this module writes.
KEPT_KEYS = frozenset({"_step_results", "_truncated", "_size", "_missing", "_unavailable"})

_encode = msgspec.json.Encoder().encode


def truncated(size: int, **marks: bool) -> Raw:
    """Return the marker of a truncated value: the size of its JSON in bytes, and further marks."""
    return Raw(
        _encode(
            {
                "_truncated": True,
                "_size": size,
                **{f"_{name}": mark for name, mark in marks.items()},
            }
        )
    )


def sanitized_json(value: Raw) -> Raw:
    """Sanitize a JSON value. RecursionError and msgspec.DecodeError for invalid or too deep JSON."""
    return Raw(_encode(sanitized(msgspec.json.decode(value))))


def sanitized(value: object) -> object:
    """Sanitize a decoded JSON value. Sanitizing again changes nothing."""
    return _value(value, 0)[0]


def sanitized_context(context: Raw) -> Raw:
    """Sanitize the context of an event, with a bound on each value and on all of them."""
    shown, shown_size, size = _object(msgspec.json.decode(context, type=dict[str, object]), 0)
    if shown_size > CONTEXT_BYTES_MAX:
        return truncated(size)
    return Raw(_encode(shown))


def _value(value: object, depth: int) -> tuple[object, int, int]:
    """Return the sanitized value, its size as JSON, and the size of the original."""
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
    shown = redact_text(value)
    if shown == value:
        return value, size, size
    return shown, len(_encode(shown)), size


def _object(value: dict[str, object], depth: int) -> tuple[object, int, int]:
    kept: dict[str, object] = {}
    kept_size = size = 1
    for key, item in value.items():
        key_size = len(_encode(key)) + 2
        if is_credential(key, item):
            shown, shown_size, item_size = MASK, len(MASK) + 2, len(_encode(item))
        else:
            shown, shown_size, item_size = _value(item, depth + 1)
        size += key_size + item_size
        if not key.startswith("_") or key in KEPT_KEYS:
            kept[key] = shown
            kept_size += key_size + shown_size
    # The closing brace takes the place of the last comma; an empty object has two braces.
    return kept, max(2, kept_size), max(2, size)


def _array(value: list[object], depth: int) -> tuple[object, int, int]:
    kept: list[object] = []
    kept_size = size = 1
    for item in value:
        shown, shown_size, item_size = _value(item, depth + 1)
        kept.append(shown)
        kept_size += shown_size + 1
        size += item_size + 1
    return kept, max(2, kept_size), max(2, size)
