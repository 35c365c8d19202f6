"""The lock of an embedded database: one process at a time, by whatever name it opens the file."""

import errno
import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from windlass.core.errors import DatabaseInUse, StoreUnavailable

# The first bytes of a file that is a SQLite database.
SQLITE_MAGIC = b"SQLite format 3\0"
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# Errors of flock that mean: another process has the lock.
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})
_PID_BYTES_MAX = 20


@contextmanager
def lock_database(path: str, *, create: bool = True) -> Generator[None]:
    """Lock the embedded database for this process. The operating system releases the lock of a process that dies.

    Two locks: one of a file beside the database, which names the process, and one of the database itself, because a
    database with hard links has several files beside it. Without `create` a database that does not exist stays absent.

    DatabaseInUse if another process has the lock, StoreUnavailable if the file cannot be a writable database.
    """
    database, lock_file = Path(path), Path(f"{path}.lock")
    with ExitStack() as stack:
        try:
            if not lock_file.exists():
                # First, so that no lock file appears beside a file that is not a database. With a lock file its lock
                # comes first: closing the database would end the locks that SQLite holds in this process.
                _check(database)
            database.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(_open(lock_file))
            _lock(lock, database, lock)
            _check(database)
            if create or database.exists():
                _lock(stack.enter_context(_open(database)), database, lock)
        except OSError as error:
            what = f"{error.strerror}: {error.filename or lock_file}"
            fix = "make the file and its directory writable, or " if error.errno in _DENIED else ""
            raise StoreUnavailable(
                f"cannot use the database {path}: {what}; {fix}use another file"
            ) from None
        _write_pid(lock)
        yield


def _check(database: Path) -> None:
    """Raise StoreUnavailable for a file that is not a database; OSError if it cannot be read."""
    if not database.exists():
        return
    if not stat.S_ISREG(database.stat().st_mode):
        raise StoreUnavailable(f"cannot use the database {database}: not a file; use another file")
    with database.open("rb") as file:
        if file.read(len(SQLITE_MAGIC)) not in (b"", SQLITE_MAGIC):
            raise StoreUnavailable(
                f"cannot use the database {database}: not a SQLite database; use another file"
            )


def _open(path: Path) -> IO[bytes]:
    """Open a file for reading and writing; create it if it does not exist. OSError."""
    return os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0
    )


def _lock(file: IO[bytes], database: Path, lock: IO[bytes]) -> None:
    """Lock an open file. DatabaseInUse, OSError."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _HELD:
            raise
        raise DatabaseInUse(
            f"database in use by another Windlass process (pid {_read_pid(file, lock)}): {database}; "
            "wait for that process to stop, or select another database with --database"
        ) from None


def _read_pid(file: IO[bytes], lock: IO[bytes]) -> str:
    """Return the process that the lock file names; another one has the database by another name."""
    if file is not lock:
        return "unknown"
    return lock.read(_PID_BYTES_MAX).decode(errors="replace").strip() or "unknown"


def _write_pid(lock: IO[bytes]) -> None:
    # Only for the message to other processes: the lock holds on a full disk, too.
    with suppress(OSError):
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
