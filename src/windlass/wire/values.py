"""Value types of the API: ids and bounds, pages, problems, instants."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Generic, TypeVar, overload

from msgspec import Meta, Raw, Struct

from windlass.core.instants import MICROSECONDS

T = TypeVar("T")

# Limits that the server enforces; the OpenAPI document states them too.
BATCH_JOBS_MAX = 1_000
ALIAS_TARGETS_MAX = 16

Weight = Annotated[int, Meta(ge=1, le=1_000_000)]
Reason = Annotated[str, Meta(max_length=1000)]


def null() -> Raw:
    """Return JSON null. A factory, because a JSON schema cannot show a raw default."""
    return Raw(b"null")


class Page(Struct, Generic[T], frozen=True):
    """A page of a list and the cursor of the next page."""

    items: list[T]
    next_cursor: str | None = None


class ProblemItem(Struct, frozen=True, omit_defaults=True):
    """One error in a request or a document."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class ProblemDetails(Struct, frozen=True):
    """An error response: application/problem+json."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemItem] = []
    request_id: str | None = None


@overload
def instant(microseconds: int) -> str: ...
@overload
def instant(microseconds: int | None) -> str | None: ...
def instant(microseconds: int | None) -> str | None:
    """Format microseconds since the epoch as ISO 8601."""
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, MICROSECONDS)
    return f"{_second(seconds)}.{rest:06}Z"


# Events and rows are read by the thousand, and many of them share a second.
@lru_cache(maxsize=1_024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
