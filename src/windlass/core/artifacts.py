"""References to large values: an output that is kept in the artifact store.

A reference is deliberately not JSON: no handler can return one, and code that forgets to resolve one fails.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from windlass.core.templates.json_values import is_mapping, merged

# Larger outputs go to the artifact store.
INLINE_BYTES_MAX = 256 * 1024

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


class TaskArtifact(Struct, frozen=True, omit_defaults=True, gc=False):
    """An artifact, or a part of one, in the params of a task, which have null in its place until it is fetched."""

    key: str
    # The keys and indices that lead to the part, in the artifact.
    path: tuple[str | int, ...] = ()
    # The artifact as the author wrote it, for errors: `fetch.output`.
    label: str = ""
    # The keys and indices that lead to the value, in the params.
    place: tuple[str | int, ...] = ()
    # A JSON object that is merged into the value: changes that earlier pages made to the params.
    patch: bytes | None = None


def fill_params(params: bytes, values: Sequence[tuple[TaskArtifact, bytes]]) -> bytes:
    """Return the params of a task with the values of its artifacts in their places."""
    whole: dict[str, Any] = {"params": msgspec.json.decode(params)}
    for artifact, body in values:
        value: object = Raw(body)
        if artifact.patch is not None:
            value = merged(msgspec.json.decode(body), msgspec.json.decode(artifact.patch))
        *path, last = ("params", *artifact.place)
        container: Any = whole
        for key in path:
            container = container[key]
        # Raw: the value is copied without being decoded.
        container[last] = value
    return msgspec.json.encode(whole["params"])


def patch_artifacts(artifacts: Sequence[TaskArtifact], patch: object) -> tuple[TaskArtifact, ...]:
    """Return the artifacts of params into which a patch is merged: those that it replaces are left out."""
    kept: list[TaskArtifact] = []
    for artifact in artifacts:
        inner = patch
        is_changed = True
        for key in artifact.place:
            if is_mapping(inner) and isinstance(key, str) and key not in inner:
                is_changed = False
                break
            # A patch replaces lists, and everything that is not an object.
            inner = inner.get(key) if is_mapping(inner) and isinstance(key, str) else None
        if not is_changed:
            kept.append(artifact)
        elif is_mapping(inner):
            kept.append(replace(artifact, patch=msgspec.json.encode(inner)))
    return tuple(kept)
