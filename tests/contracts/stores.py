"""The stores that the contract suites run against."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.servers import DEBIAN, Server, new_database, start_postgres
from windlass.clock import SystemClock
from windlass.ports.store import Store
from windlass.stores.memory.store import MemoryStore
from windlass.stores.postgres.store import PostgresStore, migrate
from windlass.stores.sqlite.store import SqliteStore

# Debian's server is another major version than the wheel's.
DEBIAN_PROGRAMS = sorted(DEBIAN.glob("*/bin/postgres"))


@pytest.fixture(scope="session")
def contract_database(postgres_server: Server) -> str:
    """Return a database for the contract suites of this process, which is emptied before each test."""
    return new_database(postgres_server.url, "contracts")


@pytest.fixture(scope="session")
def debian_database(server_folder: Path) -> Iterator[str]:
    """Return the same on Debian's server."""
    folder = server_folder / "debian"
    folder.mkdir()
    server = start_postgres(folder, DEBIAN_PROGRAMS[-1].parent)
    yield new_database(server.url, "contracts")
    server.stop()


async def emptied(url: str) -> str:
    """Create the tables and delete all rows."""
    await migrate(url, 0)
    connection = await asyncpg.connect(url)
    names = [
        row[0]
        for row in await connection.fetch(
            "select tablename from pg_tables where schemaname = 'public'"
        )
    ]
    # Not truncate, which creates new files: deleting a few rows is faster.
    await connection.execute(
        ";".join(f"delete from {name}" for name in names if name != "schema_version")
    )
    await connection.close()
    return url


@asynccontextmanager
async def sqlite(request: pytest.FixtureRequest):
    path = request.getfixturevalue("tmp_path") / "windlass.db"
    yield await SqliteStore.open(str(path), SystemClock(), synchronous="off")


@asynccontextmanager
async def memory(request: pytest.FixtureRequest):
    yield MemoryStore(SystemClock())


@asynccontextmanager
async def postgres(request: pytest.FixtureRequest):
    url = await emptied(request.getfixturevalue("contract_database"))
    yield await PostgresStore.open(url, SystemClock(), connections_max=10)


@asynccontextmanager
async def postgres_of_debian(request: pytest.FixtureRequest):
    url = await emptied(request.getfixturevalue("debian_database"))
    yield await PostgresStore.open(url, SystemClock(), connections_max=10)


STORES: dict[str, Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Store]]] = {
    "sqlite": sqlite,
    "memory": memory,
    "postgres": postgres,
    **({"postgres-debian": postgres_of_debian} if DEBIAN_PROGRAMS else {}),
}
