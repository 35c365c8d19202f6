"""References to values too large to travel: how an output says that it lies in the artefact store.

A reference is no JSON on purpose: no handler and no server can return one, and whoever forgets to resolve one notices.
"""

import msgspec
from msgspec import Raw, Struct

# Outputs up to this size are stored and sent as they are.
INLINE_BYTES_MAX = 256 * 1024
# The object that stands for an artefact inside a task's params, together with the task's own list of keys.
MARKER = "$artefact"

_SIGN = b"@"


class Reference(Struct, frozen=True, gc=False):
    """Where a large value lies, and how many bytes its JSON has."""

    key: str
    size: int


def reference(key: str, size: int) -> Raw:
    """What stands in place of a value."""
    return Raw(_SIGN + msgspec.json.encode(Reference(key, size)))


def is_reference(output: Raw) -> bool:
    """Whether an output is a reference instead of a value."""
    return bytes(memoryview(output)[:1]) == _SIGN


def read_reference(output: Raw) -> Reference:
    """The reference that an output is."""
    return msgspec.json.decode(memoryview(output)[1:], type=Reference)
