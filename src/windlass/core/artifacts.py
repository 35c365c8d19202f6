"""References to large values: an output that is kept in the artifact store.

A reference is deliberately not JSON: no handler can return one, and code that forgets to resolve one fails.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

# Larger outputs go to the artifact store.
INLINE_BYTES_MAX = 256 * 1024
# The key of the object that refers to an artifact in the params of a task, which also lists the keys.
MARKER = "$artifact"

Decoded = TypeVar("Decoded", bound=Struct)

# The value of an artifact that was removed.
GONE = object()

_SIGN = b"@"
_SIGN_BYTE = _SIGN[0]


class ArtifactReference(Struct, frozen=True, gc=False):
    """The key of a large value and the size of its JSON in bytes."""

    key: str
    size: int


def reference(key: str, size: int) -> Raw:
    """Return the output that refers to an artifact."""
    return Raw(_SIGN + msgspec.json.encode(ArtifactReference(key, size)))


def is_reference(output: Raw) -> bool:
    """Whether an output is a reference."""
    return memoryview(output)[0] == _SIGN_BYTE


def read_reference(output: Raw) -> ArtifactReference:
    """Return the reference in an output."""
    return msgspec.json.decode(memoryview(output)[1:], type=ArtifactReference)


def decode_or(default: Decoded, value: Raw | None) -> Decoded:
    """Decode JSON as the type of `default`; `default` if there is none, it is large, or it has another shape."""
    if value is None or is_reference(value):
        return default
    try:
        return msgspec.json.decode(value, type=type(default))
    except msgspec.MsgspecError:
        return default


def resolve_params(params: bytes, bodies: Mapping[str, bytes], bytes_max: int) -> bytes | None:
    """Return the params of a task with the values of its artifacts; None if they grow too large."""
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
                # Raw: the value is copied without being decoded.
                place[at] = Raw(body)
                left -= len(body)
                if left < 0:
                    return None
            elif isinstance(value, list):
                pending.append(cast("list[Any]", value))
    return msgspec.json.encode(whole["params"])
