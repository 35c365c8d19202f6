"""SQLite databases of workflows: a few connections each, used in threads, interrupted when their caller is cancelled.

Queued writes are committed together: SQLite has one writer at a time, and every commit flushes the disk.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import apsw
from msgspec import Struct

from windlass.connections.failures import DatabaseRefused, DatabaseUnavailable
from windlass.core.errors import WindlassError

# Connections and threads of one database.
CONNECTIONS_MAX = 4
# How long a statement waits for a lock of another process.
BUSY_SECONDS_MAX = 10.0
BUSY_PAUSE_SECONDS = 0.005
# Writes that share one transaction, at most.
GROUP_MAX = 64
# Virtual machine steps between two checks for a cancel: far less than a millisecond of work.
STEPS_BETWEEN_CHECKS = 10_000

Result = TypeVar("Result")
# Errors that another attempt may not meet: locks, a full or failing disk.
_RETRYABLE_ERRORS = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.ProtocolError,
    apsw.NoMemError,
)


def _always() -> bool:
    return True


def _never() -> bool:
    return False


class SqliteCursor(Protocol):
    """The result of a statement."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def get_description(self) -> Sequence[tuple[str, Any]]: ...

    def close(self, force: bool = False, /) -> None: ...


class SqliteConnection(Protocol):
    """A connection; it raises apsw's errors."""

    def execute(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any] | None = None, /
    ) -> SqliteCursor: ...

    def executemany(self, sql: str, values: Sequence[Sequence[Any]], /) -> SqliteCursor: ...

    def cursor(self) -> Any: ...

    def changes(self) -> int: ...

    def total_changes(self) -> int: ...

    def close(self) -> None: ...

    @property
    def in_transaction(self) -> bool: ...


class SqliteSession:
    """A connection, opened on first use, and whether its current work should continue."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = _always
        self._busy_since = 0.0
        self._connection: SqliteConnection | None = None

    def connect(self, path: Path) -> SqliteConnection:
        """Return the connection; raises apsw's errors if it cannot be opened."""
        if self._connection is None:
            opened = apsw.Connection(str(path))
            # A file must not attach others, which may lie outside of the directory.
            opened.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
            opened.set_busy_handler(self._keeps_waiting)
            opened.set_progress_handler(lambda: not self.is_wanted(), STEPS_BETWEEN_CHECKS)
            self._connection = cast("SqliteConnection", opened)
        return self._connection

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _keeps_waiting(self, times: int) -> bool:
        now = time.monotonic()
        if times == 0:
            self._busy_since = now
        if not self.is_wanted() or now - self._busy_since > BUSY_SECONDS_MAX:
            return False
        time.sleep(BUSY_PAUSE_SECONDS)
        return True


class QueuedWrite(Struct, frozen=True):
    """A queued write and the future of its outcome."""

    operation: Callable[[SqliteConnection], Any]
    outcome: "asyncio.Future[Any]"

    def resolve(self, outcome: object) -> None:
        """Set the result or the error, unless the caller was cancelled."""
        if self.outcome.done():
            return
        if isinstance(outcome, BaseException):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class SqliteDatabase:
    """One file. Reads run concurrently; writes run in groups, one group at a time."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._threads = ThreadPoolExecutor(CONNECTIONS_MAX, "windlass-sqlite")
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[SqliteSession] = []
        self._queue: deque[QueuedWrite] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run(
        self,
        operation: Callable[[SqliteConnection], Result],
        is_wanted: Callable[[], bool] = _always,
    ) -> Result:
        """Run the operation in a thread; when cancelled, it is interrupted and rolled back."""
        await self._slots.acquire()
        if self._idle:
            session = self._idle.pop()
        else:
            session = SqliteSession()
        session.is_wanted = is_wanted
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, self._work, session, operation
        )
        running.add_done_callback(lambda _: self._release(session))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            session.is_wanted = _never
            await asyncio.wait((running,))
            raise

    async def write(self, operation: Callable[[SqliteConnection], Result]) -> Result:
        """Run the operation in a transaction that it may share with others; its errors roll back only itself."""
        # Not a Batcher: a running group is interrupted when all its callers are cancelled.
        queued = QueuedWrite(operation, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        return await queued.outcome

    async def aclose(self) -> None:
        """Close idle connections; the others are closed when they are released."""
        self._is_closed = True
        if self._writing is not None:
            self._writing.cancel()
        while self._idle:
            self._idle.pop().close()
        self._threads.shutdown(wait=False)

    async def _write_all(self) -> None:
        while self._queue:
            group = [self._queue.popleft() for _ in range(min(GROUP_MAX, len(self._queue)))]
            running = asyncio.create_task(
                self.run(partial(self._write_group, group), partial(_is_any_wanted, group))
            )
            try:
                await asyncio.wait((running,))
            except asyncio.CancelledError:
                running.cancel()
                for queued in (*group, *self._queue):
                    queued.outcome.cancel()
                raise
            outcomes: list[object] = [running.exception()] * len(group)
            if running.exception() is None:
                outcomes = running.result()
            for queued, outcome in zip(group, outcomes, strict=True):
                queued.resolve(outcome)

    def _write_group(
        self, group: Sequence[QueuedWrite], connection: SqliteConnection
    ) -> list[object]:
        # Takes the write lock first, so that no statement of the group fails because of another writer.
        connection.execute("begin immediate")
        outcomes = [self._run_queued(queued, connection) for queued in group]
        connection.execute("commit")
        return outcomes

    def _run_queued(self, queued: QueuedWrite, connection: SqliteConnection) -> object:
        """Return the result of the operation or its error; raise if the whole group is rolled back."""
        if queued.outcome.cancelled():
            return None
        connection.execute("savepoint queued_write")
        try:
            with translate_errors(self.name):
                outcome = queued.operation(connection)
        except WindlassError as error:
            # A full disk or an interrupt ends the whole transaction.
            if not connection.in_transaction:
                raise
            connection.execute("rollback to queued_write")
            outcome = error
        connection.execute("release queued_write")
        return outcome

    def _work(
        self, session: SqliteSession, operation: Callable[[SqliteConnection], Result]
    ) -> Result:
        with translate_errors(self.name):
            connection = session.connect(self._path)
            try:
                return operation(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def _release(self, session: SqliteSession) -> None:
        session.is_wanted = _always
        if self._is_closed:
            session.close()
        else:
            self._idle.append(session)
        self._slots.release()


def _is_any_wanted(group: Sequence[QueuedWrite]) -> bool:
    return not all(queued.outcome.cancelled() for queued in group)


@contextmanager
def translate_errors(name: str) -> Generator[None]:
    """Translate SQLite's errors."""
    try:
        yield
    except _RETRYABLE_ERRORS as error:
        raise DatabaseUnavailable(f"{name}: {error}") from None
    except apsw.InterruptError:
        raise DatabaseUnavailable(f"{name}: the statement was interrupted") from None
    except apsw.CantOpenError as error:
        raise DatabaseRefused(
            f"{name}: {error}; its directory must exist and be writable"
        ) from None
    except OverflowError:
        raise DatabaseRefused(f"{name}: integer beyond 64 bits; pass it as text") from None
    except apsw.Error as error:
        raise DatabaseRefused(f"{name}: {error}", code=_code(error)) from None


def _code(error: apsw.Error) -> str:
    return type(error).__name__.removesuffix("Error").lower()
