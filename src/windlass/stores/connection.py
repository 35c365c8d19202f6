"""SQLite connections as the store uses them, and the little of apsw that it relies on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import apsw

BUSY_TIMEOUT_MS = 10_000
# The log starts at this size and is then written over: a flush is twice as fast when the file does not grow.
CHECKPOINT_PAGES = 1_000

_CACHE_KIB = 65_536


class Rows(Protocol):
    """The answer to a statement."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def get_description(self) -> Sequence[tuple[str, Any]]: ...


class Connection(Protocol):
    """A connection; what it raises are apsw's errors."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> Rows: ...

    def close(self) -> None: ...

    @property
    def in_transaction(self) -> bool: ...


def connect(path: str, *, synchronous: str = "full", read_only: bool = False) -> Connection:
    """A connection as every part of the store wants it."""
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
    opened = apsw.Connection(path, flags=flags)
    opened.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection = cast("Connection", opened)
    if read_only:
        connection.execute("pragma query_only = on")
    else:
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
    return connection
