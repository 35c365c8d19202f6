"""Several brokers on one server, like those of engines and workers in different processes."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.contracts.brokers import age_postgres, age_redis, broker_database, empty_postgres
from windlass.brokers.postgres.broker import PostgresBroker
from windlass.brokers.redis.broker import RedisBroker

__all__ = ["broker_database"]

ServerBroker = RedisBroker | PostgresBroker


class Site:
    """A server and the brokers that a test opened on it."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        self._opened: list[ServerBroker] = []

    async def open(self) -> ServerBroker:
        kinds: dict[str, Callable[[str], Awaitable[ServerBroker]]] = {
            "redis": RedisBroker.open,
            "postgres": PostgresBroker.open,
        }
        self._opened.append(await kinds[self.kind](self.url))
        return self._opened[-1]

    async def age(self, seconds: float) -> None:
        await (age_redis if self.kind == "redis" else age_postgres)(self.url, seconds)

    async def close(self) -> None:
        for broker in self._opened:
            await broker.close()


@pytest.fixture(params=["postgres", "redis"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    if request.param == "redis":
        found = Site("redis", request.getfixturevalue("redis_url"))
    else:
        found = Site("postgres", request.getfixturevalue("broker_database"))
        await found.open()
        await empty_postgres(found.url)
    yield found
    await found.close()
