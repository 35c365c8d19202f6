"""Writes rows to files: JSON lines, CSV, Parquet. A lock file serializes writers; writes are synced to disk."""

import asyncio
import errno
import fcntl
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Raw, Struct

from windlass.connections.folder import Folder
from windlass.core.changes import SinkSpec
from windlass.core.errors import FatalError, RetryableError
from windlass.ports.sink import SinkReceipt
from windlass.sinks.formats import FileUpdate, Format, csv_text, json_lines, parquet_file
from windlass.sinks.rows import OptionsInvalid, RowSource, options_of, rows_of

LOCK_SECONDS_MAX = 30.0
LOCK_PAUSE_SECONDS = 0.01
# Concurrent writes; each uses a thread.
WRITES_MAX = 4
RUN_KEY_BYTES_MAX = 4_096

_FORMATS: Mapping[str, Format] = {"jsonl": json_lines, "csv": csv_text, "parquet": parquet_file}
_EXTENSIONS: Mapping[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
# Errors that another attempt may not meet.
_RETRYABLE_ERRORS = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
        errno.ESTALE, errno.ETXTBSY,
    }
)  # fmt: skip


class FileOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of the file sink."""

    path: str
    format: Literal["jsonl", "csv", "parquet"] | None = None
    mode: Literal["append", "replace"] = "append"
    rows: str | None = None
    column: str = "value"
    json_column: str | None = None
    # The header of a CSV file, in order.
    columns: list[str] | None = None


class FileUnavailable(RetryableError):
    """The file cannot be written at the moment."""

    type = "file_unavailable"


class FileRefused(FatalError):
    """The file cannot be written at this path."""

    type = "file_refused"


class FileSink:
    """Writes rows to files below one directory. Unlike a table, a file may get rows twice when a worker dies."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._slots = asyncio.Semaphore(WRITES_MAX)

    async def write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Write the rows. With `replace`, the first write of a run replaces the file and the others append to it."""
        async with self._slots:
            return await asyncio.to_thread(self._write, spec, output, identity)

    async def aclose(self) -> None:
        """Do nothing: no file stays open."""

    def _write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        options = options_of(spec.options, FileOptions)
        encode = _format(options)
        source = RowSource(
            rows=options.rows,
            path=spec.path,
            column=options.column,
            json_column=options.json_column,
        )
        rows = rows_of(output, source)
        path = self._folder.resolve(options.path)
        run_key = spec.run_key or identity
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path) as lock:
                if (
                    options.mode == "replace"
                    and os.pread(lock, RUN_KEY_BYTES_MAX, 0) != run_key.encode()
                ):
                    _write_file(path, encode(rows, None))
                    _store_run_key(lock, run_key)
                elif rows:
                    _write_file(path, encode(rows, _existing(path)))
        except OSError as error:
            message = f"{options.path}: {error.strerror or error}"
            if error.errno in _RETRYABLE_ERRORS:
                raise FileUnavailable(message) from None
            raise FileRefused(message) from None
        return SinkReceipt(len(rows))


def _format(options: FileOptions) -> Format:
    name = options.format or _EXTENSIONS.get(Path(options.path).suffix.lower())
    if name is None:
        extensions, formats = ", ".join(_EXTENSIONS), ", ".join(_FORMATS)
        raise OptionsInvalid(
            f"unknown file format: {options.path}; use one of {extensions}, or set format to one of {formats}"
        )
    if options.columns is None:
        return _FORMATS[name]
    if name != "csv":
        raise OptionsInvalid(f"columns are for CSV files: {options.path} is {name}; remove columns")
    return partial(csv_text, columns=options.columns)


@contextmanager
def _locked(path: Path) -> Generator[int]:
    """Hold the lock file of a file, which is never removed. It also stores which run replaced the file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(path.with_name(f".{path.name}.windlass"), flags, 0o666)
    try:
        deadline = time.monotonic() + LOCK_SECONDS_MAX
        while not _try_lock(lock):
            if time.monotonic() > deadline:
                raise FileUnavailable(
                    f"{path.name}: not locked within {LOCK_SECONDS_MAX:g} s; another writer holds the lock"
                )
            time.sleep(LOCK_PAUSE_SECONDS)
        yield lock
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _store_run_key(lock: int, run_key: str) -> None:
    # Stored after the file is replaced: a crash between the two makes the same run replace it again.
    os.ftruncate(lock, 0)
    os.pwrite(lock, run_key.encode(), 0)
    os.fsync(lock)


def _existing(path: Path) -> Path | None:
    """Return the path of a file that is not empty."""
    if path.exists() and path.stat().st_size > 0:
        return path
    return None


def _write_file(path: Path, update: FileUpdate) -> None:
    if update.replaces_file:
        _replace(path, update.content)
    else:
        _append(path, update.content)


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.draft")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _append(path: Path, content: bytes) -> None:
    """Append the content; on an error, truncate the file to its old size."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if os.pread(file, 1, size - 1) != b"\n":
            # A writer that died left an incomplete line; start a new one.
            content = b"\n" + content
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
