"""Connections of the PostgreSQL broker: a small pool for its statements, one for notifications."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from windlass.brokers.notifier import Notifier
from windlass.core.errors import BrokerUnavailable

POOL_MAX = 4
# A call waits so long for its answer, over all its tries, before it fails; a statement, on its own.
CALL_SECONDS_MAX = 5.0
STATEMENT_SECONDS_MAX = 4.0
CONNECT_SECONDS_MAX = 3.0
RETRY_SECONDS_MIN = 0.01
RETRY_SECONDS_MAX = 0.5
# How often those who wait look by themselves: whoever should notify them may have died just before.
LOOK_SECONDS = 1.0
PULSE_SECONDS = 5.0
# Notifications take turns in the whole database: a process sends no more often than this, for all it has to say.
NOTIFY_SECONDS_MIN = 0.002
NOTIFY_CHANNEL = "windlass_broker"
PAYLOAD_BYTES_MAX = 7_000
# What is told of a job that has ended, or of a request that was applied, begins so.
DONE = "done:"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)

# Nothing here waits for a disk, and every statement is a walk along an index: a plan that was made while a table was
# empty must not read the whole of it when it is full.
_SETTINGS = {
    "synchronous_commit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "statement_timeout": f"{STATEMENT_SECONDS_MAX:g}s",
    "idle_in_transaction_session_timeout": f"{STATEMENT_SECONDS_MAX:g}s",
}

log = logging.getLogger("windlass.brokers")


@cache
def queries() -> dict[str, str]:
    """Every named query of the broker, its comments with it."""
    texts = [
        (files("windlass.brokers.postgres") / "sql" / name).read_text("utf-8") for name in ("queries.sql", "schema.sql")
    ]
    parts = [_NAME.split(text) for text in texts]
    return {name: text.strip() for part in parts for name, text in zip(part[1::2], part[2::2], strict=True)}


class Dial:
    """Makes connections to the database of a URL, and knows which failures pass."""

    def __init__(self, url: str) -> None:
        # An extra: only those who use PostgreSQL have its driver.
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]

        self.url = url
        self.driver: Any = asyncpg
        passing = (
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
        self.absent: tuple[type[Exception], ...] = (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError)
        self.passing: tuple[type[Exception], ...] = (*passing, OSError, TimeoutError)
        self.failures: tuple[type[Exception], ...] = (*self.passing, asyncpg.PostgresError)
        parts = urlsplit(url)
        self.place = f"{parts.hostname or 'the local socket'}:{parts.port or 5432}{parts.path}"

    async def connect(self) -> Any:
        """A connection outside the pool; one of `failures`."""
        return await self.driver.connect(self.url, timeout=CONNECT_SECONDS_MAX, command_timeout=CALL_SECONDS_MAX)

    async def pool(self) -> Any:
        """A pool that connects when it is used."""
        return await self.driver.create_pool(
            self.url,
            min_size=0,
            max_size=POOL_MAX,
            timeout=CONNECT_SECONDS_MAX,
            command_timeout=CALL_SECONDS_MAX,
            init=_prepare,
            # Else the driver would undo the settings after every statement, with a round trip of its own.
            reset=_keep,
        )


async def _prepare(connection: Any) -> None:
    for name, value in _SETTINGS.items():
        await connection.execute(f"set session {name} = '{value}'")


async def _keep(connection: Any) -> None:
    """Leave a connection that goes back to the pool as it is: no statement here changes it."""


class Link:
    """Runs statements, again when the server was away for a moment."""

    def __init__(self, dial: Dial, pool: Any) -> None:
        self._dial = dial
        self._pool = pool
        self._queries = queries()

    async def fetch(self, name: str, *arguments: object) -> Sequence[Any]:
        """Run a query in a transaction of its own. BrokerUnavailable."""
        query = self._queries[name]

        async def fetch() -> Sequence[Any]:
            return await self._pool.fetch(query, *arguments)

        return await self.persist(fetch)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Callable[..., Awaitable[Sequence[Any]]]]:
        """Several queries in one transaction, through the function that this gives."""
        async with self._pool.acquire() as connection, connection.transaction():

            async def fetch(name: str, *arguments: object) -> Sequence[Any]:
                return await connection.fetch(self._queries[name], *arguments)

            yield fetch

    async def make_tables(self) -> None:
        """Make what is not there yet, one process at a time. BrokerUnavailable."""

        await self.persist(self._make_tables)

    async def _make_tables(self) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            # Unlike what is in them, the tables should be there after a crash.
            await connection.execute("set local synchronous_commit = on")
            await connection.execute(self._queries["lock_schema"])
            await connection.execute(self._queries["schema"])

    async def persist(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Do something, again while the failure is a passing one and there is time. BrokerUnavailable."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + CALL_SECONDS_MAX
        pause = RETRY_SECONDS_MIN
        must_make = False
        while True:
            try:
                if must_make:
                    await self._make_tables()
                return await ask()
            except self._dial.failures as failure:
                # A database that was restored from elsewhere may not have them.
                is_absent = isinstance(failure, self._dial.absent)
                if (
                    not (isinstance(failure, self._dial.passing) or (is_absent and not must_make))
                    or clock() + pause > deadline
                ):
                    raise BrokerUnavailable(
                        f"PostgreSQL at {self._dial.place} did not do what the broker asked: "
                        f"{str(failure) or type(failure).__name__}; see that it runs, is reachable and has room"
                    ) from failure
                must_make = must_make or is_absent
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def aclose(self) -> None:
        """End the connections."""
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


class Notices:
    """Tells other processes what is new, and rings the ears of this one for what they tell."""

    def __init__(self, dial: Dial, link: Link) -> None:
        self.bells = Notifier(LOOK_SECONDS)
        self._dial = dial
        self._link = link
        # An ordered set: what is said twice before it was sent is sent once.
        self._untold: dict[str, None] = {}
        self._hearing: list[Callable[[Sequence[str]], None]] = []
        self._telling: asyncio.Task[None] | None = None
        self._listening = asyncio.ensure_future(self._listen())

    def tell(self, channels: Sequence[str]) -> None:
        """Ring for these channels here and everywhere, soon; the caller's transaction is over."""
        for channel in channels:
            self.bells.ring(channel)
        self._tell_soon(channels)

    def notify_done(self, ids: Sequence[str]) -> None:
        """Say everywhere that jobs have ended or requests were applied, soon."""
        self._tell_soon([DONE + one for one in ids])

    def subscribe_done(self, hear: Callable[[Sequence[str]], None]) -> None:
        """From now on call `hear` with the ids of what is said to be done."""
        self._hearing.append(hear)

    def _tell_soon(self, entries: Sequence[str]) -> None:
        self._untold.update(dict.fromkeys(entries))
        if entries and self._telling is None:
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        try:
            while self._untold:
                told, self._untold = list(self._untold), {}
                try:
                    await self._link.fetch("notify", NOTIFY_CHANNEL, _payloads(told))
                except BrokerUnavailable as failure:
                    # Others look by themselves every second.
                    log.warning("a notification was not sent: %s", failure)
                await asyncio.sleep(NOTIFY_SECONDS_MIN)
        finally:
            self._telling = None

    async def _listen(self) -> None:
        pause = RETRY_SECONDS_MIN
        while True:
            try:
                connection = await self._dial.connect()
                try:
                    await connection.add_listener(NOTIFY_CHANNEL, self._hear)
                    self.bells.are_silent = False
                    # What was told before must be looked for.
                    self.bells.ring_all()
                    while True:
                        await asyncio.sleep(PULSE_SECONDS)
                        await connection.execute("select 1")
                finally:
                    connection.terminate()
            except self._dial.failures as failure:
                if not self.bells.are_silent:
                    log.warning("no notifications from PostgreSQL at %s (%s): trying again", self._dial.place, failure)
                    pause = RETRY_SECONDS_MIN
            self.bells.are_silent = True
            self.bells.ring_all()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _hear(self, connection: object, process: object, channel: object, payload: str) -> None:
        entries = payload.split("\n")
        for told in entries:
            # Nobody has an ear for what is done: where nobody hears of it, each costs one look.
            self.bells.ring(told)
        if self._hearing:
            self._hear_done([told.removeprefix(DONE) for told in entries if told.startswith(DONE)])

    def _hear_done(self, ids: Sequence[str]) -> None:
        for hear in self._hearing if ids else ():
            hear(ids)

    async def aclose(self) -> None:
        """Stop listening and telling."""
        for task in (self._listening, self._telling):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def _payloads(entries: Sequence[str]) -> list[str]:
    """Join entries into few notifications, none of them too long."""
    parts: list[list[str]] = []
    room = 0
    for entry in entries:
        size = len(entry.encode()) + 1
        if not parts or size > room:
            parts.append([])
            room = PAYLOAD_BYTES_MAX
        parts[-1].append(entry)
        room -= size
    return ["\n".join(part) for part in parts]
