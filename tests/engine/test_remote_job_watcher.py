"""Concurrent reads of job positions share one query, and each gets its own answer."""

import asyncio
import gc
from collections.abc import Sequence
from typing import cast

import pytest

from windlass.core.errors import JobNotFound, StoreUnavailable
from windlass.core.report_verdict import ReportVerdict
from windlass.engine import remote_job_watcher
from windlass.engine.remote_job_watcher import RemoteJobWatcher
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobPosition


class IgnoringListener:
    """Ignores changes."""

    def job_changed(self, position: JobPosition) -> None:
        """Do nothing."""

    def request_applied(self, request_id: str) -> None:
        """Do nothing."""

    def report_applied(self, result_id: str, verdict: ReportVerdict | None) -> None:
        """Do nothing."""

    def done(self, ids: Sequence[str]) -> None:
        """Do nothing."""


class PositionStore:
    """Has every job whose id does not start with `no`; answers when it may."""

    def __init__(self) -> None:
        self.queries: list[Sequence[str]] = []
        self.has_query = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: Exception | None = None

    @property
    def jobs(self) -> "PositionStore":
        return self

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        self.queries.append(job_ids)
        self.has_query.set()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return [
            JobPosition(job_id, 1, "running")
            for job_id in reversed(job_ids)
            if not job_id.startswith("no")
        ]


@pytest.fixture
def store() -> PositionStore:
    return PositionStore()


@pytest.fixture
def watcher(store: PositionStore) -> RemoteJobWatcher:
    return RemoteJobWatcher(cast("Store", store), None, IgnoringListener())


async def test_concurrent_calls_share_a_query(
    watcher: RemoteJobWatcher, store: PositionStore
) -> None:
    found = await asyncio.gather(*(watcher.position(job_id) for job_id in ("a", "b", "a")))

    assert [position.job_id for position in found] == ["a", "b", "a"]
    assert store.queries == [["a", "b"]]


async def test_a_call_during_a_query_gets_a_newer_answer(
    watcher: RemoteJobWatcher, store: PositionStore
) -> None:
    store.may_answer.clear()
    first = asyncio.create_task(watcher.position("a"))
    await store.has_query.wait()
    second = asyncio.create_task(watcher.position("a"))
    await asyncio.sleep(0)
    store.may_answer.set()
    await asyncio.gather(first, second)

    assert store.queries == [["a"], ["a"]]


async def test_an_unknown_job_fails_only_its_own_call(watcher: RemoteJobWatcher) -> None:
    found = await asyncio.gather(
        watcher.position("a"), watcher.position("none"), return_exceptions=True
    )

    assert found[0] == JobPosition("a", 1, "running")
    assert isinstance(found[1], JobNotFound)


async def test_queries_are_bounded(
    watcher: RemoteJobWatcher, store: PositionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_job_watcher, "QUERY_JOBS_MAX", 10)

    found = await asyncio.gather(*(watcher.position(f"j{number}") for number in range(25)))

    assert [position.job_id for position in found] == [f"j{number}" for number in range(25)]
    assert [len(query) for query in store.queries] == [10, 10, 5]


async def test_a_failed_query_fails_its_callers_and_no_later_ones(
    watcher: RemoteJobWatcher, store: PositionStore
) -> None:
    store.failure = StoreUnavailable("unavailable")
    failed = await asyncio.gather(
        watcher.position("a"), watcher.position("b"), return_exceptions=True
    )
    store.failure = None

    assert [str(error) for error in failed] == ["unavailable", "unavailable"]
    assert (await watcher.position("a")).job_id == "a"


async def test_a_cancelled_call_does_not_affect_the_others(
    watcher: RemoteJobWatcher, store: PositionStore
) -> None:
    store.may_answer.clear()
    tasks = [asyncio.create_task(watcher.position(job_id)) for job_id in ("a", "b", "a")]
    await store.has_query.wait()
    tasks[0].cancel()
    store.may_answer.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(found[0], asyncio.CancelledError)
    assert [one.job_id for one in found[1:] if isinstance(one, JobPosition)] == ["b", "a"]


async def test_a_failure_without_callers_is_not_logged(
    watcher: RemoteJobWatcher, store: PositionStore, caplog: pytest.LogCaptureFixture
) -> None:
    # Engines that earlier tests abandoned log their failures when they are collected.
    gc.collect()
    caplog.clear()
    store.may_answer.clear()
    store.failure = StoreUnavailable("unavailable")
    call = asyncio.create_task(watcher.position("a"))
    await store.has_query.wait()
    call.cancel()
    await asyncio.wait([call])
    store.may_answer.set()
    with pytest.raises(StoreUnavailable):
        await watcher.position("b")
    gc.collect()

    assert caplog.records == []
