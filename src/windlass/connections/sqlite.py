"""SQLite databases of workflows: a few connections each, used in threads, stopped when nobody waits any more.

Writes that wait are committed together: SQLite has one writer at a time, and a commit costs a flush of the disk.
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

# Connections, and threads that use them, for one database.
CONNECTIONS_MAX = 4
# How long a statement waits for another process that writes.
BUSY_SECONDS_MAX = 10.0
BUSY_PAUSE_SECONDS = 0.005
# Writes that share one transaction at most.
GROUP_MAX = 64
# Virtual machine steps between two looks at whether somebody still waits: far less than a millisecond of work.
STEPS_BETWEEN_LOOKS = 10_000

Result = TypeVar("Result")
# What another attempt may find changed: locks, a full or failing disk.
_PASSING = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError, apsw.ProtocolError, apsw.NoMemError)


class SqliteCursor(Protocol):
    """The answer to a statement."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def get_description(self) -> Sequence[tuple[str, Any]]: ...

    def close(self, force: bool = False, /) -> None: ...


class SqliteConnection(Protocol):
    """A connection; what it raises are apsw's errors."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] | None = None, /) -> SqliteCursor: ...

    def executemany(self, sql: str, values: Sequence[Sequence[Any]], /) -> SqliteCursor: ...

    def cursor(self) -> Any: ...

    def changes(self) -> int: ...

    def total_changes(self) -> int: ...

    def close(self) -> None: ...

    @property
    def in_transaction(self) -> bool: ...


class SqliteSession:
    """A seat at the database: a connection, opened at its first use, and whether its work is still wanted."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = _always
        self._busy_since = 0.0
        self._connection: SqliteConnection | None = None

    def connect(self, path: Path) -> SqliteConnection:
        """The connection; apsw's errors when it cannot be opened."""
        if self._connection is None:
            opened = apsw.Connection(str(path))
            # A file of the folder must not open others: those need not lie in it.
            opened.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
            opened.set_busy_handler(self._goes_on_waiting)
            opened.set_progress_handler(lambda: not self.is_wanted(), STEPS_BETWEEN_LOOKS)
            self._connection = cast("SqliteConnection", opened)
        return self._connection

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _goes_on_waiting(self, times: int) -> bool:
        now = time.monotonic()
        if times == 0:
            self._busy_since = now
        if not self.is_wanted() or now - self._busy_since > BUSY_SECONDS_MAX:
            return False
        time.sleep(BUSY_PAUSE_SECONDS)
        return True


class QueuedWrite(Struct, frozen=True):
    """A write that waits for its turn, and where its outcome goes."""

    operation: Callable[[SqliteConnection], Any]
    outcome: "asyncio.Future[Any]"


class SqliteDatabase:
    """One file. Operations run beside each other; those that write, one group after the other."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._threads = ThreadPoolExecutor(CONNECTIONS_MAX, "windlass-sqlite")
        self._seats = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[SqliteSession] = []
        self._wishes: deque[QueuedWrite] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run(
        self, operation: Callable[[SqliteConnection], Result], is_wanted: Callable[[], bool] | None = None
    ) -> Result:
        """Run the operation in a thread. Cancelled or no longer wanted, it stops and leaves no transaction behind."""
        await self._seats.acquire()
        session = self._idle.pop() if self._idle else SqliteSession()
        session.is_wanted = is_wanted or _always
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._work, session, operation)
        running.add_done_callback(lambda _: self._give_back(session))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            session.is_wanted = _never
            await asyncio.wait((running,))
            raise

    async def write(self, operation: Callable[[SqliteConnection], Result]) -> Result:
        """Run the operation in a transaction, which it may share with others; what it raises undoes it alone."""
        wish = QueuedWrite(operation, asyncio.get_running_loop().create_future())
        self._wishes.append(wish)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        return await wish.outcome

    async def aclose(self) -> None:
        """Close every connection that nobody uses; the others close when they come back."""
        self._is_closed = True
        if self._writing is not None:
            self._writing.cancel()
        while self._idle:
            self._idle.pop().close()
        self._threads.shutdown(wait=False)

    async def _write_all(self) -> None:
        while self._wishes:
            group = [self._wishes.popleft() for _ in range(min(GROUP_MAX, len(self._wishes)))]
            running = asyncio.create_task(self.run(partial(self._write_group, group), partial(_is_any_wanted, group)))
            try:
                await asyncio.wait((running,))
            except asyncio.CancelledError:
                running.cancel()
                for wish in (*group, *self._wishes):
                    wish.outcome.cancel()
                raise
            failure = running.exception()
            outcomes = running.result() if failure is None else [failure] * len(group)
            for wish, outcome in zip(group, outcomes, strict=True):
                if wish.outcome.done():
                    continue
                if isinstance(outcome, BaseException):
                    wish.outcome.set_exception(outcome)
                else:
                    wish.outcome.set_result(outcome)

    def _write_group(self, group: Sequence[QueuedWrite], connection: SqliteConnection) -> list[object]:
        # A transaction that may write from its beginning never meets a lock half way.
        connection.execute("begin immediate")
        outcomes = [self._written(wish, connection) for wish in group]
        connection.execute("commit")
        return outcomes

    def _written(self, wish: QueuedWrite, connection: SqliteConnection) -> object:
        """What the operation returns, or the error that undid it; raises when all of the group is undone."""
        if wish.outcome.cancelled():
            return None
        connection.execute("savepoint wish")
        try:
            with translated(self.name):
                outcome = wish.operation(connection)
        except WindlassError as error:
            # A full disk, or a stop, ends the transaction itself.
            if not connection.in_transaction:
                raise
            connection.execute("rollback to wish")
            outcome = error
        connection.execute("release wish")
        return outcome

    def _work(self, session: SqliteSession, operation: Callable[[SqliteConnection], Result]) -> Result:
        with translated(self.name):
            connection = session.connect(self._path)
            try:
                return operation(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def _give_back(self, session: SqliteSession) -> None:
        session.is_wanted = _always
        if self._is_closed:
            session.close()
        else:
            self._idle.append(session)
        self._seats.release()


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _is_any_wanted(group: Sequence[QueuedWrite]) -> bool:
    return not all(wish.outcome.cancelled() for wish in group)


@contextmanager
def translated(name: str) -> Generator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except _PASSING as error:
        raise DatabaseUnavailable(f"{name}: {error}") from None
    except apsw.InterruptError:
        raise DatabaseUnavailable(f"{name}: the statement was stopped") from None
    except apsw.CantOpenError as error:
        raise DatabaseRefused(f"{name}: {error}: its folder must exist and be writable") from None
    except OverflowError:
        raise DatabaseRefused(f"{name}: an integer beyond 64 bits does not fit into SQLite: pass it as text") from None
    except apsw.Error as error:
        raise DatabaseRefused(f"{name}: {error}", code=_code(error)) from None


def _code(error: apsw.Error) -> str:
    return type(error).__name__.removesuffix("Error").lower()
