"""Questions about jobs that are asked at the same time share one query, and each gets its own answer."""

import asyncio
import gc
from collections.abc import Sequence
from typing import cast

import pytest

from windlass.core.errors import JobNotFound, StoreUnavailable
from windlass.engine import remote_job_watcher
from windlass.engine.remote_job_watcher import RemoteJobWatcher
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobPosition


class Answers:
    """Knows every job whose name does not begin with `no`; answers when it may."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: Exception | None = None

    @property
    def jobs(self) -> "Answers":
        return self

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        self.asked.append(job_ids)
        self.is_asked.set()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return [JobPosition(job_id, 1, "running") for job_id in reversed(job_ids) if not job_id.startswith("no")]


@pytest.fixture
def store() -> Answers:
    return Answers()


@pytest.fixture
def asking(store: Answers) -> RemoteJobWatcher:
    return RemoteJobWatcher(cast("Store", store), None, lambda standing, request_id: None, lambda job_ids: None)


async def test_those_who_ask_together_share_a_query(asking: RemoteJobWatcher, store: Answers) -> None:
    found = await asyncio.gather(*(asking.standing(job_id) for job_id in ("a", "b", "a")))

    assert [standing.job_id for standing in found] == ["a", "b", "a"]
    assert store.asked == [["a", "b"]]


async def test_who_asks_while_a_query_is_under_way_gets_a_newer_answer(
    asking: RemoteJobWatcher, store: Answers
) -> None:
    store.may_answer.clear()
    first = asyncio.create_task(asking.standing("a"))
    await store.is_asked.wait()
    second = asyncio.create_task(asking.standing("a"))
    await asyncio.sleep(0)
    store.may_answer.set()
    await asyncio.gather(first, second)

    assert store.asked == [["a"], ["a"]]


async def test_a_job_that_is_not_there_is_an_error_of_its_own(asking: RemoteJobWatcher) -> None:
    found = await asyncio.gather(asking.standing("a"), asking.standing("none"), return_exceptions=True)

    assert found[0] == JobPosition("a", 1, "running")
    assert isinstance(found[1], JobNotFound)


async def test_no_query_asks_for_too_many(
    asking: RemoteJobWatcher, store: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_job_watcher, "ASK_MAX", 10)

    found = await asyncio.gather(*(asking.standing(f"j{number}") for number in range(25)))

    assert [standing.job_id for standing in found] == [f"j{number}" for number in range(25)]
    assert [len(asked) for asked in store.asked] == [10, 10, 5]


async def test_a_query_that_fails_fails_all_who_asked_and_nobody_after(
    asking: RemoteJobWatcher, store: Answers
) -> None:
    store.failure = StoreUnavailable("away")
    failed = await asyncio.gather(asking.standing("a"), asking.standing("b"), return_exceptions=True)
    store.failure = None

    assert [str(error) for error in failed] == ["away", "away"]
    assert (await asking.standing("a")).job_id == "a"


async def test_one_who_gives_up_takes_the_answer_from_nobody(asking: RemoteJobWatcher, store: Answers) -> None:
    store.may_answer.clear()
    tasks = [asyncio.create_task(asking.standing(job_id)) for job_id in ("a", "b", "a")]
    await store.is_asked.wait()
    tasks[0].cancel()
    store.may_answer.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(found[0], asyncio.CancelledError)
    assert [one.job_id for one in found[1:] if isinstance(one, JobPosition)] == ["b", "a"]


async def test_a_failure_that_nobody_waits_for_is_nobodys(
    asking: RemoteJobWatcher, store: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    store.may_answer.clear()
    store.failure = StoreUnavailable("away")
    asked = asyncio.create_task(asking.standing("a"))
    await store.is_asked.wait()
    asked.cancel()
    await asyncio.wait([asked])
    store.may_answer.set()
    with pytest.raises(StoreUnavailable):
        await asking.standing("b")
    gc.collect()

    assert caplog.records == []
