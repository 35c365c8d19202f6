"""PostgreSQL databases of workflows: a bounded pool each, values in JSON's terms, errors in ours."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from windlass.connections.failures import DatabaseRefused, DatabaseUnavailable, QueryCanceled

# Connections of one process to one named database.
CONNECTIONS_MAX = 10
CONNECT_SECONDS_MAX = 15.0
# How long a task waits for a connection that others use.
WAIT_SECONDS_MAX = 120.0
# How long a connection may take to come back: a cancelled statement has to end first.
CANCEL_SECONDS_MAX = 5.0
IDLE_SECONDS_MAX = 300.0
CLOSE_SECONDS_MAX = 5.0
DETAIL_CHARS_MAX = 500

QUERY_CANCELLED = "57014"
SEVERAL_STATEMENTS = "cannot insert multiple commands into a prepared statement"
# Reading and writing these as PostgreSQL's own text keeps them exact, whatever they hold.
_AS_TEXT = ("timestamptz", "timestamp", "date", "time", "timetz", "interval", "numeric", "uuid", "bytea")
_AS_JSON = ("json", "jsonb")
# What another attempt may find changed: lost connections, restarts, failovers, full disks, deadlocks, held locks.
_OFFSET_HOURS = re.compile(r"T.*[+-]\d\d$")
_PASSING = re.compile(r"08...|53...|57P0[1235]|58...|40001|40P01|55P03|25006")


class PostgresCursor(Protocol):
    """A cursor: the rows of a statement, some at a time."""

    async def fetch(self, count: int) -> Sequence[Any]: ...


class PreparedStatement(Protocol):
    """A statement that the server has read."""

    def get_attributes(self) -> Sequence[Any]: ...

    def get_parameters(self) -> Sequence[Any]: ...

    def get_statusmsg(self) -> str | None: ...

    async def cursor(self, *values: object) -> PostgresCursor: ...

    async def fetch(self, *values: object) -> Sequence[Any]: ...


class PostgresConnection(Protocol):
    """A connection; what it raises are the driver's errors."""

    def get_server_pid(self) -> int: ...

    async def execute(self, sql: str, *values: object) -> str: ...

    async def fetch(self, sql: str, *values: object) -> Sequence[Any]: ...

    async def fetchval(self, sql: str, *values: object) -> Any: ...

    async def prepare(self, sql: str) -> PreparedStatement: ...

    def transaction(self, *, isolation: str | None = None) -> AbstractAsyncContextManager[None]: ...


class ConnectionPool(Protocol):
    def acquire(self, *, timeout: float) -> Awaitable[PostgresConnection]: ...

    async def release(self, connection: PostgresConnection, *, timeout: float | None = None) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


class PostgresDatabase:
    """One named database. The pool is opened at its first use."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url
        self._opening = asyncio.Lock()
        self._pool: ConnectionPool | None = None
        # Server processes whose sessions are not as they began. The driver would reset each of them each time.
        self._changed: set[int] = set()

    @asynccontextmanager
    async def session(self, *, runs_any: bool = False) -> AsyncGenerator[PostgresConnection]:
        """A connection for a while; errors of the database inside are translated. A cancel stops its statement.

        With `runs_any` whatever statements leave behind in it (settings, locks) is undone before others get it.
        """
        with self.translated():
            pool = await self._opened()
            connection = await self._acquired(pool)
            if runs_any:
                self._changed.add(connection.get_server_pid())
            try:
                yield connection
            finally:
                await pool.release(connection, timeout=CANCEL_SECONDS_MAX)

    async def statement(self, session: PostgresConnection, sql: str) -> PreparedStatement | None:
        """The statement of a text; None when it holds several, which can only be run whole."""
        try:
            return await session.prepare(sql)
        except asyncpg.PostgresSyntaxError as error:
            if SEVERAL_STATEMENTS in str(error):
                return None
            raise

    async def aclose(self) -> None:
        """Close all connections, in earnest when they do not come back."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    @contextmanager
    def translated(self) -> Generator[None]:
        """Turn the driver's errors into ours. None of them holds the password."""
        try:
            yield
        except asyncpg.PostgresError as error:
            raise self._translated(error) from None
        except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            # The driver's word for connections that ended, or are about to.
            raise DatabaseUnavailable(self._said(str(error))) from None
        except (OSError, EOFError) as error:  # TimeoutError is an OSError
            what = str(error) or "no answer in time"
            raise DatabaseUnavailable(self._said(f"cannot be reached: {what}")) from None

    async def _opened(self) -> ConnectionPool:
        async with self._opening:
            if self._pool is None:
                self._pool = await _pool(self._url, self._reset)
            return self._pool

    async def _acquired(self, pool: ConnectionPool) -> PostgresConnection:
        try:
            return await pool.acquire(timeout=WAIT_SECONDS_MAX)
        except (ValueError, TypeError):
            # The driver reads the URL only now, and its message may hold parts of it.
            raise DatabaseRefused(
                f"{self.name}: its URL cannot be used: write postgresql://user:password@host:port/database"
            ) from None

    async def _reset(self, connection: Any) -> None:
        process = connection.get_server_pid()
        if process in self._changed:
            await connection.execute(connection.get_reset_query())
            self._changed.discard(process)

    def _translated(self, error: asyncpg.PostgresError) -> DatabaseRefused | DatabaseUnavailable | QueryCanceled:
        code = str(getattr(error, "sqlstate", "") or "")
        detail = str(getattr(error, "detail", "") or "")[:DETAIL_CHARS_MAX]
        text = self._said(f"{error}".splitlines()[0] if str(error) else type(error).__name__)
        text += f" ({detail})" if detail else ""
        if code == QUERY_CANCELLED:
            return QueryCanceled(text)
        kind = DatabaseUnavailable if _PASSING.fullmatch(code) else DatabaseRefused
        return kind(text, code=code)

    def _said(self, text: str) -> str:
        for secret in _secrets(self._url):
            text = text.replace(secret, "***")
        return f"{self.name}: {text}"


async def _pool(url: str, reset: Callable[[Any], Awaitable[None]]) -> ConnectionPool:
    open_pool = cast("Any", asyncpg).create_pool
    pool = await open_pool(
        url,
        min_size=0,
        max_size=CONNECTIONS_MAX,
        max_inactive_connection_lifetime=IDLE_SECONDS_MAX,
        timeout=CONNECT_SECONDS_MAX,
        init=_prepare,
        reset=reset,
        # A text without a zone means the same on every server.
        server_settings={"application_name": "windlass", "TimeZone": "UTC", "DateStyle": "ISO"},
    )
    return cast("ConnectionPool", pool)


async def _prepare(connection: Any) -> None:
    for name in _AS_TEXT:
        decoder = _instant if name.startswith("timestamp") else str
        await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=decoder, format="text")
    for name in _AS_JSON:
        await connection.set_type_codec(name, schema="pg_catalog", encoder=_encode, decoder=_decode, format="text")


def _instant(text: str) -> str:
    """A timestamp of PostgreSQL's as ISO 8601 writes it."""
    text = text.replace(" ", "T", 1)
    return f"{text}:00" if _OFFSET_HOURS.search(text) else text


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # a number that only PostgreSQL has room for
        return text


def _secrets(url: str) -> list[str]:
    """The password of a URL, as it stands there and as it is meant."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return [url]
    return sorted({password, unquote(password)}, key=len, reverse=True) if password else []
