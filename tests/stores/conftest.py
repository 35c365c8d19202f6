"""Databases on a real PostgreSQL, for tests of what only that store does."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.contracts.stores import emptied
from tests.servers import Server, new_database
from windlass.clock import SystemClock
from windlass.stores.postgres.store import PostgresStore


@pytest.fixture(scope="session")
def own_database(postgres_server: Server) -> str:
    return new_database(postgres_server.url, "particular")


@pytest.fixture
async def url(own_database: str) -> str:
    return await emptied(own_database)


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    opened = await PostgresStore.open(url, SystemClock(), connections_max=10)
    yield opened
    await opened.close()


@pytest.fixture
async def admin(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()
