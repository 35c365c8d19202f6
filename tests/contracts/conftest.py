"""The implementations that the contract suites run against. A further one is one more line here."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.store import Store
from windlass.stores.sqlite import SqliteStore
from windlass.testing.memory_store import MemoryStore


async def sqlite_store(folder: Path) -> Store:
    return await SqliteStore.open(str(folder / "windlass.db"), SystemClock(), synchronous="off")


async def memory_store(folder: Path) -> Store:
    return MemoryStore()


async def memory_broker(clock: Clock) -> Broker:
    return MemoryBroker(clock)


STORES: dict[str, Callable[[Path], Awaitable[Store]]] = {"sqlite": sqlite_store, "memory": memory_store}
BROKERS: dict[str, Callable[[Clock], Awaitable[Broker]]] = {"memory": memory_broker}


@pytest.fixture(params=sorted(STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await STORES[request.param](tmp_path)
    yield opened
    await opened.close()


class SetClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.at = 1_000_000_000

    def now(self) -> int:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += round(seconds * 1_000_000)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture(params=sorted(BROKERS))
async def broker(request: pytest.FixtureRequest, clock: SetClock) -> Broker:
    return await BROKERS[request.param](clock)
