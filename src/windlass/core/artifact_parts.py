"""Parts of large values, cut out of their JSON: everything around a part is skipped without being decoded."""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.errors import TemplateFailed
from windlass.core.templates.json_values import Fuel, member
from windlass.core.templates.render_frame import format_reference

# Up to this index an element is found without a reference to every element of its list.
FIRST_ELEMENTS = 64
KEYS_KEPT = 1_024

_OBJECT, _ARRAY = b"{", b"["
_ESCAPED = frozenset('"\\')


def part_of(body: bytes, path: tuple[str | int, ...], label: str) -> bytes:
    """Return the JSON of the part at a path; `label` names the whole value.

    Undefined if there is no such part, TemplateFailed if the value is damaged or nested too deeply.
    """
    try:
        return _part_at(Raw(body), path, label)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TemplateFailed(
            f"{label} cannot be read: {error}; run the node again that returned it"
        ) from None


def _part_at(part: Raw, path: tuple[str | int, ...], label: str) -> bytes:
    for count, key in enumerate(path):
        found = _find(part, key)
        if found is None:
            found = _look_up(part, key, format_reference(label, path[:count]))
        part = found
    return bytes(part)


def _find(value: Raw, key: str | int) -> Raw | None:
    """Return the value of a key or an index; None if it is not found this way."""
    first = bytes(memoryview(value)[:1])
    if isinstance(key, str):
        if first != _OBJECT or not _may_name_field(key):
            return None
        shape = _object_with(key)
    elif first == _ARRAY and key < FIRST_ELEMENTS:
        shape = _array_with(key)
    else:
        return None
    try:
        return msgspec.json.decode(value, type=shape).value
    except msgspec.ValidationError:
        return None


def _look_up(value: Raw, key: str | int, label: str) -> Raw:
    """Return the value of a key or an index as a template does, with the same errors."""
    first = bytes(memoryview(value)[:1])
    shape: Any = Any
    if first == _OBJECT:
        shape = dict[str, Raw]
    elif first == _ARRAY:
        shape = list[Raw]
    found = member(Fuel(), msgspec.json.decode(value, type=shape), key, label)
    if isinstance(found, Raw):
        return found
    return Raw(msgspec.json.encode(found))


def _may_name_field(key: str) -> bool:
    """Whether a type can have a field of this name in JSON: msgspec refuses names that JSON has to escape."""
    return key.isprintable() and _ESCAPED.isdisjoint(key)


@lru_cache(maxsize=KEYS_KEPT)
def _object_with(key: str) -> Any:
    """Return the type of objects that have a key: only its value is kept."""
    return msgspec.defstruct("ObjectWithKey", [("value", Raw)], rename={"value": key})


@lru_cache(maxsize=FIRST_ELEMENTS)
def _array_with(index: int) -> Any:
    """Return the type of arrays that have an index: only the elements up to it are kept."""
    before = [(f"before_{place}", Raw) for place in range(index)]
    return msgspec.defstruct("ArrayWithIndex", [*before, ("value", Raw)], array_like=True)
