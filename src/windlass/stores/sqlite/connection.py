"""SQLite connections, and the part of apsw that the store uses."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import apsw

from windlass.core.errors import StoreUnusable

BUSY_TIMEOUT_MS = 10_000
# The write-ahead log is created with this size and then overwritten, so that flushes do not grow the file (ADR 4).
CHECKPOINT_PAGES = 1_000
# Prepared statements that are cached: enough for all, including bulk statements in all their sizes.
STATEMENTS_MAX = 256

# Errors that stay until someone repairs the file or its permissions.
UNUSABLE = (
    apsw.ReadOnlyError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.PermissionsError,
)

_CACHE_KIB = 65_536
_LOG_FRAME_BYTES = 4_120


class Rows(Protocol):
    """The rows of a statement."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...


class Connection(Protocol):
    """A connection. It raises apsw's errors."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> Rows: ...

    def close(self) -> None: ...

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...

    def status(self, op: int, /) -> tuple[int, int]: ...

    def readonly(self, name: str, /) -> bool: ...

    @property
    def in_transaction(self) -> bool: ...


def connect(path: str, *, synchronous: str = "full", read_only: bool = False) -> Connection:
    """Return a connection with the settings of the store."""
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
    opened = apsw.Connection(path, flags=flags, statementcachesize=STATEMENTS_MAX)
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


def unusable(path: str, error: object) -> StoreUnusable:
    """Return the error of a database that no retry can use."""
    return StoreUnusable(
        f"cannot use the database {path}: {error}; make it writable or restore it from a backup, "
        "or select another database"
    )


def grow_log(log: Path) -> None:
    """Extend the write-ahead log with zeros, which SQLite ignores like the rest of an older log."""
    with log.open("r+b") as file:
        missing = CHECKPOINT_PAGES * _LOG_FRAME_BYTES - file.seek(0, os.SEEK_END)
        if missing > 0:
            file.write(bytes(missing))
            file.flush()
            os.fsync(file.fileno())
