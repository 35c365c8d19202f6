"""References to values too large to travel: how an output says that it lies in the artifact store.

A reference is no JSON on purpose: no handler and no server can return one, and whoever forgets to resolve one notices.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

# Outputs up to this size are stored and sent as they are.
INLINE_BYTES_MAX = 256 * 1024
# The object that stands for an artifact inside a task's params, together with the task's own list of keys.
MARKER = "$artifact"

# Stands for the value of an artifact that is not there any more.
GONE = object()

_SIGN = b"@"
_SIGN_BYTE = _SIGN[0]


class ArtifactReference(Struct, frozen=True, gc=False):
    """Where a large value lies, and how many bytes its JSON has."""

    key: str
    size: int


def reference(key: str, size: int) -> Raw:
    """What stands in place of a value."""
    return Raw(_SIGN + msgspec.json.encode(ArtifactReference(key, size)))


def is_reference(output: Raw) -> bool:
    """Whether an output is a reference instead of a value."""
    return memoryview(output)[0] == _SIGN_BYTE


def read_reference(output: Raw) -> ArtifactReference:
    """The reference that an output is."""
    return msgspec.json.decode(memoryview(output)[1:], type=ArtifactReference)


def in_place(params: bytes, bodies: Mapping[str, bytes], bytes_max: int) -> bytes | None:
    """The params of a task with values where their markers are; None when that grows too large."""
    whole: dict[str, Any] = {"params": msgspec.json.decode(params)}
    left = bytes_max - len(params)
    pending: list[dict[Any, Any] | list[Any]] = [whole]
    while pending:
        place = pending.pop()
        items = place.items() if isinstance(place, dict) else enumerate(place)
        for at, value in items:
            if isinstance(value, dict):
                inner = cast("dict[str, Any]", value)
                key = inner.get(MARKER) if len(inner) == 1 else None
                body = bodies.get(key) if isinstance(key, str) else None
                if body is None:
                    pending.append(inner)
                    continue
                # Raw: the value is copied as it is, and decoded once, by whoever reads the params.
                place[at] = Raw(body)
                left -= len(body)
                if left < 0:
                    return None
            elif isinstance(value, list):
                pending.append(cast("list[Any]", value))
    return msgspec.json.encode(whole["params"])
