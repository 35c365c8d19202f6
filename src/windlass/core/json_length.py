"""The length of a value's JSON, estimated before it is encoded.

The encoder ends the process with a segmentation fault when memory runs out (msgspec 0.22), and the JSON of a small
value that contains a part many times can be of any length.
"""

from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from typing import Any, cast

from msgspec import Raw, Struct, structs

# The encoder refuses values that are nested more deeply, or that contain themselves.
LEVELS_MAX = 1_000
# The size up to which an object is measured without lists of its parts.
FLAT_MAX = 16
# Scalars count as part of the collection that contains them.
_SCALARS = frozenset({int, float, bool, type(None)})
_COLLECTIONS = frozenset({dict, list})
_SCALARS_AND_TEXTS = _SCALARS | {str}
# Bytes of each part at least: a digit and a comma; with its key, the quotes and a colon too.
_ELEMENT_BYTES, _ENTRY_BYTES = 2, 5

_Object = Mapping[Any, Any]
_List = Collection[Any]


def is_longer_than(value: object, limit: int) -> bool:
    """Whether the JSON of a value certainly has more bytes than a limit.

    A part that occurs several times counts each time, as in the JSON. The cost is bounded by the limit.
    """
    if type(value) in _SCALARS or _is_flat_and_short(value, limit):
        return False
    length = 0
    level: list[Any] = [value]
    # This runs for every output: a level is read by list comprehensions, which take a third of the time of loops.
    for _ in range(LEVELS_MAX):
        if not level or length > limit:
            break
        objects: list[_Object] = [item for item in level if type(item) is dict]
        lists: list[_List] = [item for item in level if type(item) is list]
        if len(objects) + len(lists) < len(level):
            length += _sort_others(level, objects, lists)
        length += _ENTRY_BYTES * sum(map(len, objects)) + _ELEMENT_BYTES * sum(map(len, lists))
        if length > limit:
            break
        parts: list[Any] = [part for item in lists for part in item]
        parts += [part for item in objects for part in item.values()]
        length += sum([len(key) for item in objects for key in item if type(key) is str])
        length += sum([len(part) for part in parts if type(part) is str])
        level = [part for part in parts if type(part) not in _SCALARS_AND_TEXTS]
    return length > limit


def _is_flat_and_short(value: object, limit: int) -> bool:
    """Whether a value is a small object of scalars within the limit, as most outputs are."""
    if type(value) is not dict:
        return False
    entries = cast("dict[object, object]", value)
    if len(entries) > FLAT_MAX:
        return False
    length = _ENTRY_BYTES * len(entries)
    for key, part in entries.items():
        kind = type(part)
        if kind is str:
            length += len(cast("str", part))
        elif kind not in _SCALARS:
            return False
        if type(key) is str:
            length += len(key)
    return length <= limit


def _sort_others(level: list[Any], objects: list[_Object], lists: list[_List]) -> int:
    """Add what is neither a plain object nor a plain list to them as such; return the length of the rest."""
    length = 0
    for item in level:
        if type(item) in _COLLECTIONS:
            continue
        if isinstance(item, str | bytes | bytearray):
            length += len(item)
        elif isinstance(item, memoryview | Raw):
            # All of its bytes: the digit that each part has is among them.
            length += memoryview(cast("Raw", item)).nbytes - 1
        elif isinstance(item, list | tuple | set | frozenset):
            lists.append(cast("_List", item))
        elif isinstance(item, Mapping):
            objects.append(cast("_Object", item))
        elif isinstance(item, Struct):
            lists.append(structs.astuple(item))
        elif is_dataclass(item) and hasattr(item, "__dict__"):
            objects.append(vars(item))
    return length
