"""A database file that is deleted or replaced while it is in use: nothing is acknowledged into it any more."""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import apsw
import pytest

from tests.contracts.rows import changes, event, new_job, node_row
from windlass.clock import SystemClock
from windlass.core.errors import StoreUnavailable, StoreUnusable
from windlass.ports.store.jobs import JobFilter
from windlass.stores.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "windlass.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(str(path), SystemClock(), synchronous="off")
    yield opened
    await opened.close()


def delete_all(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def delete_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.rename(path)


def move_away(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


PATIENCE_TRIES = 200
NUMBERS = count()
CHANGES = [delete_all, delete_log, delete_index, replace, move_away]


@pytest.mark.parametrize("change", CHANGES)
async def test_no_write_is_acknowledged_and_no_read_answered(
    store: SqliteStore, path: Path, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    caplog.set_level(logging.ERROR)

    change(path)

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.jobs.list(JobFilter())
        with pytest.raises(StoreUnusable, match="while it is in use"):
            await store.jobs.insert([new_job("j2")])
        with pytest.raises(StoreUnusable, match="while it is in use"):
            # A small commit is written on the event loop.
            await store.commit(
                0, lease.epoch, changes(nodes=[node_row("j1", "a")], events={"j1": [event(2)]})
            )
    [record] = caplog.records
    assert "nothing is accepted any more" in record.getMessage()


@pytest.mark.parametrize("change", [delete_all, delete_log, replace, move_away])
async def test_write_alone_notices_the_change(
    store: SqliteStore, path: Path, change: Callable[[Path], None]
) -> None:
    change(path)

    with pytest.raises(StoreUnusable, match="while it is in use"):
        await store.jobs.insert([new_job("j1")])


@pytest.mark.parametrize("notices", ["write", "read"])
async def test_content_of_a_deleted_log_is_saved_into_the_database(
    store: SqliteStore, path: Path, tmp_path: Path, notices: str
) -> None:
    await store.jobs.insert([new_job("j1")])
    delete_log(path)

    noticing = {"write": store.jobs.insert([new_job("j2")]), "read": store.jobs.list(JobFilter())}
    call = noticing.pop(notices)
    for other in noticing.values():
        other.close()
    with pytest.raises(StoreUnusable):
        await call

    for _ in range(PATIENCE_TRIES):
        if await is_in_file(path, tmp_path, "j1"):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the log was not saved")


async def is_in_file(path: Path, folder: Path, job_id: str) -> bool:
    """Whether a process that starts after this one was killed finds a job."""
    copy = await asyncio.to_thread(shutil.copy, path, folder / f"{next(NUMBERS)}.db")
    found = await SqliteStore.open(str(copy), SystemClock())
    job_ids = {job.spec.job_id for job in await found.jobs.list(JobFilter())}
    await found.close()
    return job_id in job_ids


async def test_file_that_is_brought_back_is_used_again(store: SqliteStore, path: Path) -> None:
    move_away(path)
    with pytest.raises(StoreUnusable):
        await store.jobs.insert([new_job("j1")])

    path.with_name("moved.db").rename(path)

    await store.jobs.insert([new_job("j2")])
    assert len(await store.jobs.list(JobFilter())) in (1, 2)


async def test_checkpoints_of_other_programs_are_no_change(store: SqliteStore, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("pragma wal_checkpoint(truncate)")
    os.utime(path)
    other.close()

    await store.jobs.insert([new_job("j1")])
    assert len(await store.jobs.list(JobFilter())) == 1
