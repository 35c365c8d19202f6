"""Pagination of lists: opaque cursors and the pages they start."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from windlass.api.problems import invalid
from windlass.api.requests import quoted

T = TypeVar("T")


def paginate(rows: Sequence[T], limit: int, cursor: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Split rows, read with a limit of one more than the page, into the page and the cursor of the next page."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, cursor(page[-1])


def encode_cursor(position: Any) -> str:
    """Encode the position after which the next page starts."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(cursor: str | UnsetType, position_type: Any) -> Any:
    """Return the position that `encode_cursor` was given, None without a cursor; HttpProblem if it is invalid."""
    if cursor is UNSET:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=position_type)
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise invalid("cursor", f"invalid cursor: {quoted(cursor)}", "use `next_cursor` unchanged") from None
