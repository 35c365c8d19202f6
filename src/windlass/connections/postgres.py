"""PostgreSQL databases of workflows: a bounded pool each, values as JSON, translated errors."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from windlass.connections.failures import DatabaseRefused, DatabaseUnavailable, QueryCanceled
from windlass.core.redaction import SecretRedactor

# Connections of one process to one named database.
CONNECTIONS_MAX = 10
CONNECT_SECONDS_MAX = 15.0
# How long a task waits for a free connection.
WAIT_SECONDS_MAX = 120.0
# How long releasing a connection may take: a canceled statement has to end first.
CANCEL_SECONDS_MAX = 5.0
IDLE_SECONDS_MAX = 300.0
CLOSE_SECONDS_MAX = 5.0
DETAIL_CHARS_MAX = 500

QUERY_CANCELLED = "57014"
SEVERAL_STATEMENTS = "cannot insert multiple commands into a prepared statement"
# Types that are read and written as PostgreSQL's own text, which keeps them exact.
_AS_TEXT = ("date", "time", "timetz", "interval", "numeric", "uuid", "bytea")
_OFFSET_HOURS = re.compile(r"(T.*[+-]\d\d)$")
# Errors that another attempt may not meet: lost connections, restarts, failovers, full disks, deadlocks, locks.
_RETRYABLE_CODES = re.compile(r"08...|53...|57P0[1235]|58...|40001|40P01|55P03|25006")


class PostgresCursor(Protocol):
    """A cursor: the rows of a statement, some at a time."""

    async def fetch(self, count: int) -> Sequence[Any]: ...


class PreparedStatement(Protocol):
    """A statement prepared on the server."""

    def get_attributes(self) -> Sequence[Any]: ...

    def get_parameters(self) -> Sequence[Any]: ...

    def get_statusmsg(self) -> str | None: ...

    async def cursor(self, *values: object) -> PostgresCursor: ...

    async def fetch(self, *values: object) -> Sequence[Any]: ...


class PostgresConnection(Protocol):
    """A connection; it raises the driver's errors."""

    def get_server_pid(self) -> int: ...

    async def execute(self, sql: str, *values: object) -> str: ...

    async def fetch(self, sql: str, *values: object) -> Sequence[Any]: ...

    async def fetchval(self, sql: str, *values: object) -> Any: ...

    async def prepare(self, sql: str) -> PreparedStatement: ...

    def transaction(self, *, isolation: str | None = None) -> AbstractAsyncContextManager[None]: ...


class ConnectionPool(Protocol):
    def acquire(self, *, timeout: float) -> Awaitable[PostgresConnection]: ...

    async def release(
        self, connection: PostgresConnection, *, timeout: float | None = None
    ) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


class PostgresDatabase:
    """One named database. The pool is opened on first use."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url
        # Passwords are masked whatever their length: they occur in the driver's messages only by accident.
        self._redact = SecretRedactor(_passwords(url), chars_min=1)
        self._opening = asyncio.Lock()
        self._pool: ConnectionPool | None = None
        # Server processes whose session state may have changed; only these are reset on release.
        self._changed: set[int] = set()

    @asynccontextmanager
    async def session(self, *, runs_any: bool = False) -> AsyncGenerator[PostgresConnection]:
        """Borrow a connection; errors are translated, and a cancel stops the running statement.

        With `runs_any`, settings and locks that statements leave behind are reset before others use the connection.
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
        """Prepare a statement; return None if the text has several, which can only be executed together."""
        try:
            return await session.prepare(sql)
        except asyncpg.PostgresSyntaxError as error:
            if SEVERAL_STATEMENTS in str(error):
                return None
            raise

    async def aclose(self) -> None:
        """Close all connections; terminate those that are not released in time."""
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
        """Translate the driver's errors. None of them contains the password."""
        try:
            yield
        except asyncpg.PostgresError as error:
            raise self._translated(error) from None
        except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            # The driver's errors for connections that are closed or closing.
            raise DatabaseUnavailable(self._message(str(error))) from None
        except (OSError, EOFError) as error:  # TimeoutError is an OSError
            what = str(error) or "timed out"
            raise DatabaseUnavailable(self._message(f"cannot be reached: {what}")) from None

    async def _opened(self) -> ConnectionPool:
        async with self._opening:
            if self._pool is None:
                self._pool = await _pool(self._url, self._reset)
            return self._pool

    async def _acquired(self, pool: ConnectionPool) -> PostgresConnection:
        try:
            return await pool.acquire(timeout=WAIT_SECONDS_MAX)
        except (ValueError, TypeError):
            # The driver parses the URL only now, and its message may contain parts of it.
            raise DatabaseRefused(
                f"{self.name}: invalid URL; write postgresql://user:password@host:port/database"
            ) from None

    async def _reset(self, connection: Any) -> None:
        process = connection.get_server_pid()
        if process in self._changed:
            await connection.execute(connection.get_reset_query())
            self._changed.discard(process)

    def _translated(
        self, error: asyncpg.PostgresError
    ) -> DatabaseRefused | DatabaseUnavailable | QueryCanceled:
        code = str(getattr(error, "sqlstate", "") or "")
        detail = str(getattr(error, "detail", "") or "")[:DETAIL_CHARS_MAX]
        lines = str(error).splitlines() or [type(error).__name__]
        text = self._message(lines[0])
        if detail:
            text += f" ({self._redact(detail)})"
        if code == QUERY_CANCELLED:
            return QueryCanceled(text)
        if _RETRYABLE_CODES.fullmatch(code):
            return DatabaseUnavailable(text, code=code)
        return DatabaseRefused(text, code=code)

    def _message(self, text: str) -> str:
        return f"{self.name}: {self._redact(text)}"


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
        # Texts without a time zone have the same meaning on every server.
        server_settings={"application_name": "windlass", "TimeZone": "UTC", "DateStyle": "ISO"},
    )
    return cast("ConnectionPool", pool)


async def _prepare(connection: Any) -> None:
    for name, (encoder, decoder) in _CODECS.items():
        await connection.set_type_codec(
            name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="text"
        )


def _instant(text: str) -> str:
    """Convert a timestamp of PostgreSQL to ISO 8601."""
    return _OFFSET_HOURS.sub(r"\1:00", text.replace(" ", "T", 1))


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # a number that only PostgreSQL can represent
        return text


# The encoder and the decoder of each type.
_CODECS: Mapping[str, tuple[Callable[[Any], str], Callable[[str], object]]] = {
    **dict.fromkeys(_AS_TEXT, (str, str)),
    **dict.fromkeys(("timestamptz", "timestamp"), (str, _instant)),
    **dict.fromkeys(("json", "jsonb"), (_encode, _decode)),
}


def _passwords(url: str) -> list[str]:
    """Return the password of a URL, encoded and decoded; the whole URL if it cannot be parsed."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return [url]
    if not password:
        return []
    return sorted({password, unquote(password)}, key=len, reverse=True)
