"""Instants and durations: integers of microseconds, counted from the Unix epoch in UTC."""

from datetime import UTC, datetime, timedelta

from windlass.core.errors import InputInvalid, Problem

MICROSECONDS = 1_000_000
# An instant in the year 9999 may not be representable in UTC.
YEAR_MAX = 9998
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SHOWN_MAX = 80


def parse_instant(text: str, path: str) -> int:
    """Return an ISO 8601 instant as microseconds since the epoch, at least 0. InputInvalid names the field `path`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    hint = "write an ISO 8601 instant with an offset, like 2030-01-31T08:00:00Z"
    if found is not None and found.year > YEAR_MAX:
        found, hint = None, f"use a year up to {YEAR_MAX}"
    if found is None or found.tzinfo is None:
        raise InputInvalid(
            [Problem(path=path, message=f"invalid instant: {text[:_SHOWN_MAX]!r}", hint=hint)]
        )
    return max(0, (found - _EPOCH) // _MICROSECOND)
