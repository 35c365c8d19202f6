"""Those who wait for what another process does are told that it is done, and find it if they are not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from simulation.shared_broker import SharedBroker, SharedBrokerClient
from tests.engine.harness import CLOCK, ENDS_SECONDS, Process, opened, plan
from tests.engine.sharing_harness import Deployment, deployed
from windlass.core.errors import JobNotFound
from windlass.ports.broker import Broker


class NotedSeat(SharedBrokerClient):
    """Counts what is said and who listens, and says nothing to others if asked."""

    def __init__(self, server: SharedBroker) -> None:
        super().__init__(server)
        self.told: list[str] = []
        self.listeners = 0
        self.is_mute = False

    def notify_done(self, ids: Sequence[str]) -> None:
        self.told += ids
        if not self.is_mute:
            super().notify_done(ids)

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        self.listeners += 1
        super().subscribe_done(callback)


class Seats:
    """The broker as each of the two processes has it."""

    def __init__(self) -> None:
        shared = SharedBroker(CLOCK)
        self.engine, self.server = NotedSeat(shared), NotedSeat(shared)


@pytest.fixture
def seats() -> Seats:
    return Seats()


@pytest.fixture
async def deployment(seats: Seats) -> AsyncIterator[Deployment]:
    """Two processes that look for ends five times a second."""
    async with deployed(cast("Broker", seats.engine), cast("Broker", seats.server)) as both:
        yield both


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody finds an end by looking before a test has long failed."""
    monkeypatch.setattr("windlass.engine.engine.POLL_SECONDS", 10 * ENDS_SECONDS)


@pytest.mark.usefixtures("unwatched")
async def test_an_end_in_another_process_is_heard_without_a_look(deployment: Deployment) -> None:
    [job_id] = await deployment.submit()
    waiting = await deployment.waiting(job_id)
    deployment.gate.set()

    async with asyncio.timeout(ENDS_SECONDS):
        await waiting

    assert (await deployment.store.jobs.get(job_id)).state.status == "completed"
    assert deployment.store.questions == [[job_id]]


@pytest.mark.usefixtures("unwatched")
async def test_those_who_follow_a_job_hear_of_its_end(deployment: Deployment) -> None:
    [job_id] = await deployment.submit()
    with deployment.server.jobs.subscribe(job_id) as news:
        deployment.gate.set()

        async with asyncio.timeout(ENDS_SECONDS):
            await news.wait()

    assert (await deployment.store.jobs.get(job_id)).state.status == "completed"


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("ask", ["cancel", "retry"])
async def test_that_a_request_was_applied_is_heard_without_a_look(
    deployment: Deployment, seats: Seats, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    monkeypatch.setattr("windlass.engine.job_control.APPLIED_SECONDS_MAX", 10 * ENDS_SECONDS)
    [job_id] = await deployment.submit()
    await deployment.begun(job_id)

    async with asyncio.timeout(ENDS_SECONDS):
        await deployment.server.jobs.cancel(job_id)
        if ask == "retry":
            await deployment.server.jobs.retry(job_id)

    status = (await deployment.store.jobs.get(job_id)).state.status
    assert status == ("cancelled" if ask == "cancel" else "running")
    assert seats.server.listeners == 1


async def test_an_end_that_nobody_told_of_is_found(deployment: Deployment, seats: Seats) -> None:
    seats.engine.is_mute = True
    [job_id] = await deployment.submit()
    waiting = await deployment.waiting(job_id)
    deployment.gate.set()

    async with asyncio.timeout(ENDS_SECONDS):
        await waiting

    assert seats.engine.told == [job_id]


@pytest.mark.usefixtures("unwatched")
async def test_a_hundred_waits_at_once_ask_the_database_once(deployment: Deployment) -> None:
    job_ids = await deployment.submit(100)
    waiting = [asyncio.create_task(deployment.server.jobs.wait(job_id)) for job_id in job_ids]
    await deployment.store.until_asked()
    deployment.gate.set()

    async with asyncio.timeout(ENDS_SECONDS):
        await asyncio.gather(*waiting)

    assert [sorted(asked) for asked in deployment.store.questions] == [sorted(job_ids)]


@pytest.mark.usefixtures("unwatched")
async def test_a_job_that_was_retried_elsewhere_is_waited_for_again(deployment: Deployment) -> None:
    [job_id] = await deployment.submit()
    first = await deployment.waiting(job_id)
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await first
    deployment.gate.clear()
    await deployment.engine.jobs.retry(job_id, "a")

    second = await deployment.waiting(job_id)
    was_done = second.done()
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await second

    assert not was_done
    assert (await deployment.store.jobs.get(job_id)).state.status == "completed"


@pytest.mark.usefixtures("unwatched")
async def test_what_others_say_of_a_job_that_runs_here_counts_for_nothing(deployment: Deployment, seats: Seats) -> None:
    [job_id] = await deployment.submit()
    await deployment.begun(job_id)
    waiting = asyncio.create_task(deployment.engine.jobs.wait(job_id))
    # There is one that does not run here: it listens.
    with deployment.engine.jobs.subscribe("elsewhere") as news:
        await asyncio.sleep(0)
        seats.server.notify_done([job_id, "elsewhere"])
        await news.wait()
    await asyncio.sleep(0)
    was_done = waiting.done()
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await waiting

    assert not was_done


async def test_a_wait_for_a_job_that_is_not_there_says_so(deployment: Deployment) -> None:
    [job_id] = await deployment.submit()
    waits = [deployment.server.jobs.wait("missing"), deployment.engine.jobs.wait("missing")]

    for wait in waits:
        with pytest.raises(JobNotFound, match="job not found: missing; list the jobs"):
            await wait

    waiting = await deployment.waiting(job_id)
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await waiting


async def test_a_process_listens_once_and_only_if_somebody_waits_in_it(deployment: Deployment, seats: Seats) -> None:
    before = seats.server.listeners
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        for job_id in await deployment.submit(5):
            await deployment.server.jobs.wait(job_id)

    assert (before, seats.server.listeners, seats.engine.listeners) == (0, 1, 0)


async def test_an_engine_that_runs_alone_tells_nobody(tmp_path: Path) -> None:
    heard: list[Sequence[str]] = []
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}))
        process.broker.subscribe_done(heard.append)
        await process.start()
        await process.ended((await process.submit()).spec.job_id)
        await process.stop()

    assert heard == []
