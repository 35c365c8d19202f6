"""The brokers that the contract suite runs against, and their clocks."""

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

import asyncpg
import pytest
import redis

from simulation.shared_broker import SharedBroker, SharedBrokerClient
from tests.servers import Server, new_database, redis_program, send_redis, start_redis
from windlass.brokers.memory import MemoryBroker
from windlass.brokers.postgres.broker import PostgresBroker
from windlass.brokers.redis.broker import PREFIX, RedisBroker
from windlass.ports.broker import Broker

EMPTIED_MAX = 10


class SetClock:
    """A clock that a test sets. On servers, which have their own clocks, the stored times are changed instead."""

    def __init__(self) -> None:
        self.at = 1_000_000_000
        self.age: Callable[[float], Awaitable[None]] | None = None

    def now(self) -> int:
        return self.at

    def wall(self) -> int:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        self.at += round(seconds * 1_000_000)
        if self.age is not None:
            await self.age(seconds)


async def age_redis(url: str, seconds: float) -> None:
    """Move every time that the server stores into the past."""
    with redis.Redis.from_url(url) as client:
        microseconds = round(seconds * 1_000_000)
        for worker_id in client.zrange(PREFIX + "workers", 0, -1):
            client.execute_command("ZINCRBY", PREFIX + "workers", -microseconds, worker_id)
        for task_id, body in cast("dict[bytes, bytes]", client.hgetall(PREFIX + "bodies")).items():
            published_at, rest = body.split(b" ", 1)
            aged = b"%d %s" % (int(published_at) - microseconds, rest)
            client.hset(PREFIX + "bodies", mapping={task_id: aged})
        for task_id in client.hkeys(PREFIX + "heartbeats"):
            client.hincrby(PREFIX + "heartbeats", task_id, -microseconds)
        for task_id, lease in cast("dict[bytes, bytes]", client.hgetall(PREFIX + "leases")).items():
            turn, claimed_at, rest = lease.split(b" ", 2)
            aged = b"%s %d %s" % (turn, int(claimed_at) - microseconds, rest)
            client.hset(PREFIX + "leases", mapping={task_id: aged})


@asynccontextmanager
async def memory_broker(request: pytest.FixtureRequest, clock: SetClock) -> AsyncGenerator[Broker]:
    yield MemoryBroker(clock)


@asynccontextmanager
async def shared_broker(request: pytest.FixtureRequest, clock: SetClock) -> AsyncGenerator[Broker]:
    yield cast("Broker", SharedBrokerClient(SharedBroker(clock)))


@asynccontextmanager
async def redis_broker(request: pytest.FixtureRequest, clock: SetClock) -> AsyncGenerator[Broker]:
    async with opened_redis(request.getfixturevalue("redis_url"), clock) as broker:
        yield broker


@asynccontextmanager
async def system_redis_broker(
    request: pytest.FixtureRequest, clock: SetClock
) -> AsyncGenerator[Broker]:
    async with opened_redis(request.getfixturevalue("system_redis_url"), clock) as broker:
        yield broker


@asynccontextmanager
async def opened_redis(url: str, clock: SetClock) -> AsyncGenerator[RedisBroker]:
    broker = await RedisBroker.open(url)
    clock.age = lambda seconds: age_redis(url, seconds)
    yield broker
    await broker.close()


async def empty_postgres(url: str) -> None:
    """Empty the tables, as a crash of the server does."""
    connection = await asyncpg.connect(url)
    for attempt in range(EMPTIED_MAX):
        try:
            await connection.execute(
                "truncate broker_tasks, broker_inbox, broker_workers, broker_cancellations, broker_turns, "
                "broker_epochs, broker_contents"
            )
            break
        except asyncpg.DeadlockDetectedError:
            # Truncate locks one table after the other, which may deadlock with an active broker.
            if attempt + 1 == EMPTIED_MAX:
                raise
    await connection.close()


async def age_postgres(url: str, seconds: float) -> None:
    """Move every time in the tables into the past."""
    connection = await asyncpg.connect(url)
    past = timedelta(seconds=seconds)
    aged = "extended_at = extended_at - $1::interval, published_at = published_at - $1::interval"
    await connection.execute(f"update broker_tasks set {aged}", past)
    await connection.execute("update broker_workers set seen_at = seen_at - $1::interval", past)
    await connection.close()


@asynccontextmanager
async def postgres_broker(
    request: pytest.FixtureRequest, clock: SetClock
) -> AsyncGenerator[Broker]:
    url: str = request.getfixturevalue("broker_database")
    broker = await PostgresBroker.open(url)
    await empty_postgres(url)
    clock.age = lambda seconds: age_postgres(url, seconds)
    yield broker
    await broker.close()


Opener = Callable[[pytest.FixtureRequest, SetClock], AbstractAsyncContextManager[Broker]]
BROKERS: dict[str, Opener] = {
    "memory": memory_broker,
    "postgres": postgres_broker,
    "redis": redis_broker,
    # The broker that simulated processes share.
    "shared": shared_broker,
}
# The bundled server is the oldest supported version; a server of the system is another version.
SYSTEM_REDIS = shutil.which("redis-server")
if SYSTEM_REDIS is not None and Path(SYSTEM_REDIS) != redis_program():
    BROKERS["redis-system"] = system_redis_broker


@pytest.fixture(scope="session")
def broker_database(postgres_server: Server, database_numbers: Iterator[int]) -> str:
    """A database for all tests of a session: creating one takes longer than a test."""
    return new_database(postgres_server.url, f"brokers_{next(database_numbers)}")


@pytest.fixture(scope="session")
def system_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_redis(tmp_path_factory.mktemp("system-redis"), Path(str(SYSTEM_REDIS)))
    yield server
    server.stop()


@pytest.fixture
def system_redis_url(system_redis: Server) -> str:
    send_redis(system_redis.url, b"FLUSHALL")
    return system_redis.url
