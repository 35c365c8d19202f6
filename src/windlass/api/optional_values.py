"""Values that a request may omit."""

from typing import TypeVar

from msgspec import UNSET, UnsetType

Value = TypeVar("Value")


def given(value: Value | UnsetType) -> Value | None:
    """Return a value of a request; None if it was omitted."""
    if value is UNSET:
        return None
    return value
