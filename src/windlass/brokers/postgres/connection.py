"""The connection pool of the PostgreSQL broker: runs named queries and retries transient failures."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from windlass.core.errors import BrokerUnavailable

POOL_MAX = 4
# The time limit of a call including its retries, and of a single statement.
CALL_SECONDS_MAX = 5.0
STATEMENT_SECONDS_MAX = 4.0
CONNECT_SECONDS_MAX = 3.0
RETRY_SECONDS_MIN = 0.01
RETRY_SECONDS_MAX = 0.5
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)

# No statement here waits for a disk, and every one uses an index: a plan that was made while a table was empty must not
# scan it when it is full.
_SETTINGS = {
    "synchronous_commit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "statement_timeout": f"{STATEMENT_SECONDS_MAX:g}s",
    "idle_in_transaction_session_timeout": f"{STATEMENT_SECONDS_MAX:g}s",
}


@cache
def queries() -> dict[str, str]:
    """Return every named query of the broker, with its comments."""
    found: dict[str, str] = {}
    for name in ("queries.sql", "schema.sql"):
        text = (files("windlass.brokers.postgres") / "sql" / name).read_text("utf-8")
        parts = _NAME.split(text)
        for query_name, query in zip(parts[1::2], parts[2::2], strict=True):
            found[query_name] = query.strip()
    return found


class PostgresBrokerConnector:
    """Opens connections to the database of a URL, and classifies the driver's errors."""

    def __init__(self, url: str) -> None:
        # An optional dependency.
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]

        self.url = url
        self.driver: Any = asyncpg
        transient = (
            asyncpg.PostgresConnectionError,
            asyncpg.InterfaceError,
            asyncpg.CannotConnectNowError,
            asyncpg.AdminShutdownError,
            asyncpg.CrashShutdownError,
            asyncpg.TooManyConnectionsError,
            asyncpg.SerializationError,
            asyncpg.DeadlockDetectedError,
            asyncpg.QueryCanceledError,
            asyncpg.IdleInTransactionSessionTimeoutError,
        )
        self.missing_schema: tuple[type[Exception], ...] = (
            asyncpg.UndefinedTableError,
            asyncpg.UndefinedFunctionError,
        )
        self.transient: tuple[type[Exception], ...] = (*transient, OSError, TimeoutError)
        self.failures: tuple[type[Exception], ...] = (*self.transient, asyncpg.PostgresError)
        parts = urlsplit(url)
        self.address = f"{parts.hostname or 'the local socket'}:{parts.port or 5432}{parts.path}"

    async def connect(self) -> Any:
        """Open a connection outside the pool. Raises one of `failures`."""
        return await self.driver.connect(
            self.url, timeout=CONNECT_SECONDS_MAX, command_timeout=CALL_SECONDS_MAX
        )

    async def pool(self) -> Any:
        """Return a pool that connects when it is used."""
        return await self.driver.create_pool(
            self.url,
            min_size=0,
            max_size=POOL_MAX,
            timeout=CONNECT_SECONDS_MAX,
            command_timeout=CALL_SECONDS_MAX,
            init=_prepare,
            # By default the driver resets the settings after every statement, which is another round trip.
            reset=_keep_settings,
        )


async def _prepare(connection: Any) -> None:
    for name, value in _SETTINGS.items():
        await connection.execute(f"set session {name} = '{value}'")


async def _keep_settings(connection: Any) -> None:
    """Do nothing: no statement here changes the settings of a connection."""


class PostgresBrokerPool:
    """Runs queries, again after transient failures."""

    def __init__(self, connector: PostgresBrokerConnector, pool: Any) -> None:
        self._connector = connector
        self._pool = pool
        self._queries = queries()

    async def fetch(self, name: str, *arguments: object) -> Sequence[Any]:
        """Run a query in its own transaction. Raises BrokerUnavailable."""
        query = self._queries[name]

        async def fetch() -> Sequence[Any]:
            return await self._pool.fetch(query, *arguments)

        return await self.retry(fetch)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Callable[..., Awaitable[Sequence[Any]]]]:
        """Begin a transaction; the result runs queries in it."""
        async with self._pool.acquire() as connection, connection.transaction():

            async def fetch(name: str, *arguments: object) -> Sequence[Any]:
                return await connection.fetch(self._queries[name], *arguments)

            yield fetch

    async def create_schema(self) -> None:
        """Create missing tables and functions, in one process at a time. Raises BrokerUnavailable."""
        await self.retry(self._create_schema)

    async def _create_schema(self) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            # Unlike their contents, the tables should survive a crash.
            await connection.execute("set local synchronous_commit = on")
            await connection.execute(self._queries["lock_schema"])
            await connection.execute(self._queries["schema"])

    async def retry(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call a function, again after a transient failure while there is time. Raises BrokerUnavailable."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + CALL_SECONDS_MAX
        pause = RETRY_SECONDS_MIN
        is_schema_missing = False
        while True:
            try:
                if is_schema_missing:
                    await self._create_schema()
                return await call()
            except self._connector.missing_schema as failure:
                # For example in a database that was restored from elsewhere. Once is enough.
                if is_schema_missing or clock() + pause > deadline:
                    raise self._unavailable(failure) from failure
                is_schema_missing = True
            except self._connector.failures as failure:
                is_transient = isinstance(failure, self._connector.transient)
                if not is_transient or clock() + pause > deadline:
                    raise self._unavailable(failure) from failure
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _unavailable(self, failure: Exception) -> BrokerUnavailable:
        reason = str(failure) or type(failure).__name__
        return BrokerUnavailable(
            f"PostgreSQL at {self._connector.address} did not execute a query of the broker: {reason}; "
            "check that it is running, reachable and not out of space"
        )

    async def aclose(self) -> None:
        """Close the connections."""
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()
