"""The stores that the contract suites run against. A further one is one more line here."""

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

# Debian's server besides the wheel's: another major version.
DEBIAN_PROGRAMS = sorted(DEBIAN.glob("*/bin/postgres"))


@pytest.fixture(scope="session")
def contract_database(postgres_server: Server) -> str:
    """A database for the contract suites of this process, emptied before each test."""
    return new_database(postgres_server.url, "contracts")


@pytest.fixture(scope="session")
def debian_database(server_folder: Path) -> Iterator[str]:
    """The same on Debian's server."""
    folder = server_folder / "debian"
    folder.mkdir()
    server = start_postgres(folder, DEBIAN_PROGRAMS[-1].parent)
    yield new_database(server.url, "contracts")
    server.stop()


async def emptied(url: str) -> str:
    """The database with all tables and no rows in them."""
    await migrate(url, 0)
    connection = await asyncpg.connect(url)
    names = [row[0] for row in await connection.fetch("select tablename from pg_tables where schemaname = 'public'")]
    # Not truncated: that makes new files, which takes a hundred times as long as removing a few rows.
    await connection.execute(";".join(f"delete from {name}" for name in names if name != "schema_version"))
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
