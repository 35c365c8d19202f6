"""Fixtures and hooks for all tests: property test settings, the order of tests, and private servers."""

import gc
import shutil
import tempfile
from collections.abc import Generator, Iterator
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from itertools import count
from pathlib import Path

import hypothesis
import pytest

from tests.servers import (
    Server,
    drop_database,
    new_database,
    send_redis,
    start_postgres,
    start_redis,
)

# A slow machine is not a failure.
hypothesis.settings.register_profile("windlass", deadline=None, print_blob=True)
hypothesis.settings.load_profile("windlass")

# Tests that take long because they kill processes or drive a browser.
LONG = (
    "tests/system/test_chaos.py",
    "tests/system/test_kill",
    "tests/system/test_scale_out.py",
    "tests/ui/",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection while tests are collected; what collection creates lives to the end anyway."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Distribute the long tests among the others, so that no process is left with them at the end."""
    long = [item for item in items if item.nodeid.startswith(LONG)]
    others = [item for item in items if not item.nodeid.startswith(LONG)]
    if not long:
        return
    stride = len(others) // len(long)
    items.clear()
    for number, item in enumerate(long):
        items += [item, *others[number * stride : (number + 1) * stride]]
    items += others[len(long) * stride :]


# Files that are locked while a test runs, and while a test waits to run alone.
RUNNING, WAITING = Path(__file__), Path(__file__).with_name("__init__.py")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run tests marked `alone` while no other test runs, in any process of this session."""
    mode = LOCK_EX if item.get_closest_marker("alone") else LOCK_SH
    with WAITING.open() as waiting, RUNNING.open() as running:
        flock(waiting, LOCK_EX)
        flock(running, mode)
        flock(waiting, LOCK_UN)
        return (yield)


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder for the data of servers, removed at the end. pytest would keep its own for several sessions."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-servers-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(server_folder: Path) -> Iterator[Server]:
    """A PostgreSQL server for all tests of this process."""
    server = start_postgres(server_folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def database_numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def postgres_url(postgres_server: Server, database_numbers: Iterator[int]) -> Iterator[str]:
    """An empty PostgreSQL database for one test."""
    name = f"test_{next(database_numbers)}"
    yield new_database(postgres_server.url, name)
    drop_database(postgres_server.url, name)


@pytest.fixture(scope="session")
def redis_server(server_folder: Path) -> Iterator[Server]:
    """A Redis server for all tests of this process."""
    server = start_redis(server_folder)
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: Server) -> str:
    """An empty Redis server."""
    send_redis(redis_server.url, b"FLUSHALL")
    return redis_server.url
