"""The implementations that the contract suites run against."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.brokers import (
    BROKERS,
    SetClock,
    broker_database,
    system_redis,
    system_redis_url,
)
from tests.contracts.stores import STORES, contract_database, debian_database
from windlass.ports.broker import Broker
from windlass.ports.store import Store

__all__ = [
    "BROKERS",
    "STORES",
    "SetClock",
    "broker_database",
    "contract_database",
    "debian_database",
    "system_redis",
    "system_redis_url",
]


@pytest.fixture(params=sorted(STORES))
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with STORES[request.param](request) as opened:
        yield opened
        await opened.close()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture(params=sorted(BROKERS))
async def broker(request: pytest.FixtureRequest, clock: SetClock) -> AsyncIterator[Broker]:
    async with BROKERS[request.param](request, clock) as opened:
        yield opened
