"""Where lists go on: a place in one, as a text that only the server reads."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.api.problems import invalid
from windlass.api.requests import shown

T = TypeVar("T")


def cut(found: Sequence[T], limit: int, place: Callable[[T], Any]) -> tuple[Sequence[T], str | None]:
    """A page of what was found, of which one more was asked for than it shows, and the cursor of the next page."""
    page = found[:limit]
    return page, cursor_of(place(page[-1])) if len(found) > limit else None


def cursor_of(place: Any) -> str:
    """Where a list goes on, for its next call only: what is in it may change."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(cursor: str, kind: Any) -> Any:
    """What `cursor_of` was given; Refusal for a cursor that nobody here made."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=kind)
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise invalid("cursor", f"{shown(cursor)} is no cursor", "take it from `next_cursor` as it is") from None
