"""What all tests share: how property tests behave on busy machines, and private servers for those that want one."""

import gc
import shutil
import tempfile
from collections.abc import Generator, Iterator
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from itertools import count
from pathlib import Path

import hypothesis
import pytest

from tests.servers import Server, drop_database, new_database, start_postgres, start_redis, tell_redis

# A slow machine is no failure; what a property finds must not depend on how long it took.
hypothesis.settings.register_profile("windlass", deadline=None, print_blob=True)
hypothesis.settings.load_profile("windlass")

# Tests that take long, because they kill processes or drive a browser.
LONG = ("tests/system/test_chaos.py", "tests/system/test_kill", "tests/system/test_scale_out.py", "tests/ui/")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, nor ever among what is left of that: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the long tests over all others: several processes share them, and none is left with them at the end."""
    long = [item for item in items if item.nodeid.startswith(LONG)]
    others = [item for item in items if not item.nodeid.startswith(LONG)]
    stride = len(others) // len(long) if long else 0
    items[:] = [
        item for place, one in enumerate(long) for item in (one, *others[place * stride : (place + 1) * stride])
    ] + others[len(long) * stride :]


# Files that tests lock: whoever is in the room runs, and whoever waits for it to be empty stands in the door.
ROOM, DOOR = Path(__file__), Path(__file__).with_name("__init__.py")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run tests that measure time while no other does, in whatever process of this session."""
    with DOOR.open() as door, ROOM.open() as room:
        flock(door, LOCK_EX)
        flock(room, LOCK_EX if item.get_closest_marker("alone") else LOCK_SH)
        flock(door, LOCK_UN)
        return (yield)


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder for the data of servers, which goes with them."""
    # pytest keeps its own folders for a while; nobody wants to keep a server's.
    folder = Path(tempfile.mkdtemp(prefix="windlass-servers-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(server_folder: Path) -> Iterator[Server]:
    """One PostgreSQL server for all tests of this process."""
    server = start_postgres(server_folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def database_numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def postgres_url(postgres_server: Server, database_numbers: Iterator[int]) -> Iterator[str]:
    """A PostgreSQL database of the test's own, empty."""
    name = f"test_{next(database_numbers)}"
    yield new_database(postgres_server.url, name)
    drop_database(postgres_server.url, name)


@pytest.fixture(scope="session")
def redis_server(server_folder: Path) -> Iterator[Server]:
    """One Redis server for all tests of this process."""
    server = start_redis(server_folder)
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: Server) -> str:
    """A Redis with nothing in it."""
    tell_redis(redis_server.url, b"FLUSHALL")
    return redis_server.url
