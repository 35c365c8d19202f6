"""Connections to PostgreSQL: bounded pools, retries, and translated errors of the driver.

Reads are repeated after a lost connection. Writes are not, because it is unknown whether they took effect.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from windlass.core.errors import CommitUnknown, StoreUnavailable, StoreUnusable
from windlass.core.redaction import redact_url

# Reserved for leases, so that an engine can renew them while all other connections are busy.
LEASE_CONNECTIONS_MAX = 1
LEASE_STATEMENT_SECONDS = 5.0
CONNECT_SECONDS_MAX = 10.0
# How long a call waits for a connection that others use.
WAIT_SECONDS_MAX = 30.0
STATEMENT_SECONDS = 30.0
# The server cancels a statement that takes too long; after this time more, the driver gives up on the server.
GRACE_SECONDS = 5.0
RELEASE_SECONDS_MAX = 5.0
CLOSE_SECONDS_MAX = 30.0
IDLE_SECONDS_MAX = 300.0
# A connection is replaced after this many statements, which frees the memory of its server process.
STATEMENTS_MAX = 1_000_000
# Sessions that are kept between statements. Now and then one is released nevertheless, for the limits above.
IDLE_SESSIONS_MAX = 5
USES_PER_RELEASE = 1_000
READ_ATTEMPTS = 3
CONFLICT_ATTEMPTS = 5
CONFLICT_WAIT_SECONDS = 0.01
VERSION_MIN = 140_000

# Serialization failures and deadlocks: the server undid everything, and another attempt may succeed.
CONFLICTS = frozenset({"40001", "40P01"})
_LOST = (
    OSError,
    EOFError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
)
# The server ended the connection, or does not accept connections yet.
_SHUTTING_DOWN = frozenset({"57P01", "57P02", "57P03"})
# The database or the role is read-only, lacks tables or rights, or the data is damaged: no retry helps.
_UNUSABLE = frozenset({"25006", "42501", "42P01", "42883", "XX001", "XX002"})
_FAILURES = (*_LOST, asyncpg.PostgresError)

T = TypeVar("T")


class Session(Protocol):
    """A connection. It raises the driver's errors."""

    async def execute(self, sql: str, *values: object) -> str: ...

    async def fetch(self, sql: str, *values: object) -> Sequence[Any]: ...

    async def fetchrow(self, sql: str, *values: object) -> Any: ...

    async def fetchval(self, sql: str, *values: object) -> Any: ...

    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AbstractAsyncContextManager[None]: ...

    async def copy_records_to_table(
        self, table: str, *, records: AsyncIterable[Sequence[Any]], columns: Sequence[str]
    ) -> str: ...

    def is_closed(self) -> bool: ...

    async def close(self) -> None: ...


class _Pool(Protocol):
    def acquire(self, *, timeout: float) -> Awaitable[Session]: ...

    async def release(self, connection: Session, *, timeout: float | None = None) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


class _Sessions:
    """A pool that keeps some idle sessions, without the driver's acquire and release for every statement."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._idle: list[Session] = []
        self._waiting = 0
        self._uses = 0

    async def acquire(self) -> Session:
        """Return a session for one caller. Raises one of the driver's errors."""
        while self._idle:
            session = self._idle.pop()
            if _is_usable(session):
                return session
            await self.release(session)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=WAIT_SECONDS_MAX)
        finally:
            self._waiting -= 1

    async def keep(self, session: Session) -> None:
        """Keep a session on which no statement runs for the next caller, or release it."""
        self._uses += 1
        is_kept = (
            not self._waiting
            and len(self._idle) < IDLE_SESSIONS_MAX
            and self._uses % USES_PER_RELEASE
        )
        if is_kept and _is_usable(session):
            self._idle.append(session)
        else:
            await self.release(session)

    async def release(self, session: Session) -> None:
        """Return a session to the driver, in any state."""
        try:
            await self._pool.release(session, timeout=RELEASE_SECONDS_MAX)
        except _FAILURES:
            # The pool closes a connection that it cannot reset. What the caller did with it has taken effect.
            return

    async def close(self) -> None:
        """Close all connections when they are released."""
        while self._idle:
            await self.release(self._idle.pop())
        await self._pool.close()

    def terminate(self) -> None:
        """Close all connections at once."""
        self._pool.terminate()


def _is_usable(session: Session) -> bool:
    try:
        return not session.is_closed()
    except asyncpg.InterfaceError:
        # The driver released it, because the connection was lost.
        return False


class PostgresPool:
    """The connections to one database: a pool for most statements, and a small one for leases."""

    def __init__(self, url: str, work: _Pool, leases: _Pool) -> None:
        self.shown = redact_url(url)
        self._work = _Sessions(work)
        self._leases = _Sessions(leases)
        self._closed = False
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def open(
        cls, url: str, *, connections_max: int, statement_seconds: float = STATEMENT_SECONDS
    ) -> "PostgresPool":
        """Connect and check the server. StoreUnavailable."""
        work = await _pool(url, connections_max, statement_seconds)
        try:
            leases = await _pool(
                url, LEASE_CONNECTIONS_MAX, min(statement_seconds, LEASE_STATEMENT_SECONDS)
            )
        except BaseException:
            work.terminate()
            raise
        return cls(url, work, leases)

    async def close(self) -> None:
        """Wait for running calls, then close all connections; terminate them when that takes too long."""
        self._closed = True
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._idle.wait()
                await self._work.close()
                await self._leases.close()
        except TimeoutError:
            self._work.terminate()
            self._leases.terminate()

    async def read(self, sql: str, *values: object) -> Sequence[Any]:
        """Return the rows of a query. StoreUnavailable."""
        return await self.query(lambda session: session.fetch(sql, *values))

    async def query(
        self, operation: Callable[[Session], Awaitable[T]], *, for_leases: bool = False
    ) -> T:
        """Run an operation that only reads, again if the connection was lost. StoreUnavailable."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        for attempt in range(1, READ_ATTEMPTS + 1):
            async with self._session(for_leases=for_leases) as session:
                try:
                    return await operation(session)
                except _FAILURES as error:
                    if attempt == READ_ATTEMPTS or not _is_lost(error):
                        raise StoreUnavailable(self._message("cannot read", error)) from error
        raise AssertionError("unreachable")

    async def write(self, sql: str, *values: object, for_leases: bool = False) -> Sequence[Any]:
        """Run one statement as its own transaction. CommitUnknown, or StoreUnavailable before it was sent."""
        return await self.change(lambda session: session.fetch(sql, *values), for_leases=for_leases)

    async def change(
        self, operation: Callable[[Session], Awaitable[T]], *, for_leases: bool = False
    ) -> T:
        """Run an operation that is one transaction, again after a conflict. CommitUnknown, StoreUnavailable."""
        if self._closed:
            raise CommitUnknown("the store is closed")
        async with self._session(for_leases=for_leases) as session:
            for attempt in range(1, CONFLICT_ATTEMPTS + 1):
                try:
                    return await operation(session)
                except _FAILURES as error:
                    if _code(error) in _UNUSABLE:
                        raise StoreUnusable(self._message("cannot write to", error)) from error
                    if attempt == CONFLICT_ATTEMPTS or _code(error) not in CONFLICTS:
                        raise CommitUnknown(self._message("cannot write to", error)) from error
                await asyncio.sleep(CONFLICT_WAIT_SECONDS * attempt)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _session(self, *, for_leases: bool) -> AsyncGenerator[Session]:
        pool = self._leases if for_leases else self._work
        self._busy += 1
        self._idle.clear()
        try:
            try:
                session = await pool.acquire()
            except _FAILURES as error:
                raise StoreUnavailable(self._message("cannot reach", error)) from error
            try:
                yield session
            except BaseException:
                # A statement may still be running; the driver ends it.
                await pool.release(session)
                raise
            await pool.keep(session)
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    def _message(self, what: str, error: BaseException) -> str:
        return f"{what} the database {self.shown}: {error_text(error)}"


async def connect(url: str) -> Session:
    """Return a connection outside the pools and without a time limit, for migrations and copies."""
    connecting = cast("Any", asyncpg).connect
    try:
        session = await connecting(
            url,
            timeout=CONNECT_SECONDS_MAX,
            target_session_attrs="read-write",
            server_settings=_session_settings(0),
        )
        try:
            await _check_server(session)
        except BaseException:
            session.terminate()
            raise
    except (*_FAILURES, ValueError, TypeError) as error:
        raise _unusable(url, error) from error
    return cast("Session", session)


async def _pool(url: str, connections_max: int, statement_seconds: float) -> _Pool:
    opening = cast("Any", asyncpg).create_pool
    try:
        pool = await opening(
            url,
            min_size=1,
            max_size=connections_max,
            max_queries=STATEMENTS_MAX,
            max_inactive_connection_lifetime=IDLE_SECONDS_MAX,
            timeout=CONNECT_SECONDS_MAX,
            command_timeout=statement_seconds + GRACE_SECONDS,
            # Never a standby, whose rows may be outdated.
            target_session_attrs="read-write",
            init=_check_server,
            # No statement leaves state in its session, so the driver's reset would be a needless query.
            reset=_nothing,
            server_settings=_session_settings(statement_seconds),
        )
    except (*_FAILURES, ValueError, TypeError) as error:
        raise _unusable(url, error) from error
    return cast("_Pool", pool)


def _session_settings(statement_seconds: float) -> dict[str, str]:
    milliseconds = str(round(statement_seconds * 1000))
    return {
        "application_name": "windlass",
        "timezone": "UTC",
        # Commits rely on these, whatever the defaults of the database and the role are.
        "default_transaction_isolation": "read committed",
        "synchronous_commit": "on",
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        # All statements are short, so none is worth compiling.
        "jit": "off",
        # Every statement uses an index. Plans are kept, and one that was made while a table was small must not scan the
        # table when it has grown.
        "enable_seqscan": "off",
    }


async def _nothing(_: object) -> None:
    """Leave a connection as it is."""


async def _check_server(session: Session) -> None:
    version, encoding = await session.fetchrow(
        "select current_setting('server_version_num')::integer, current_setting('server_encoding')"
    )
    if version < VERSION_MIN:
        raise StoreUnavailable(
            f"PostgreSQL {version // 10_000} is too old; Windlass needs {VERSION_MIN // 10_000}"
        )
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database has the encoding {encoding}; create one with encoding 'UTF8'"
        )


def _unusable(url: str, error: BaseException) -> StoreUnavailable:
    if isinstance(error, ValueError | TypeError) and not isinstance(error, asyncpg.InterfaceError):
        # The driver's message may hold parts of the URL.
        what = "its URL cannot be read; write postgresql://user:password@host:port/database"
    else:
        what = error_text(error)
    return StoreUnavailable(f"cannot use the database {redact_url(url)}: {what}")


def error_text(error: BaseException) -> str:
    """Return the driver's message, or the name of the error, on one line."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _code(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", "") or "")


def was_undone(error: CommitUnknown) -> bool:
    """Return whether the server rejected the transaction, so that nothing took effect."""
    cause = error.__cause__
    return isinstance(cause, asyncpg.PostgresError) and not _is_lost(cause)


def _is_lost(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | asyncpg.DataError):
        return False
    return isinstance(error, _LOST) or _code(error) in _SHUTTING_DOWN
