"""Waiting for jobs and requests of other processes: by notification, and by polling if one is lost."""

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


class RecordingClient(SharedBrokerClient):
    """Records notifications and subscriptions, and can lose its notifications."""

    def __init__(self, server: SharedBroker) -> None:
        super().__init__(server)
        self.notified: list[str] = []
        self.subscriptions = 0
        self.loses_notifications = False

    def notify_done(self, ids: Sequence[str]) -> None:
        self.notified += ids
        if not self.loses_notifications:
            super().notify_done(ids)

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        self.subscriptions += 1
        super().subscribe_done(callback)


class Clients:
    """The clients of the two processes of one broker."""

    def __init__(self) -> None:
        shared = SharedBroker(CLOCK)
        self.engine, self.server = RecordingClient(shared), RecordingClient(shared)


@pytest.fixture
def clients() -> Clients:
    return Clients()


@pytest.fixture
async def deployment(clients: Clients) -> AsyncIterator[Deployment]:
    """Two processes that poll five times a second."""
    async with deployed(cast("Broker", clients.engine), cast("Broker", clients.server)) as both:
        yield both


@pytest.fixture
def unpolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll so rarely that a test fails first."""
    monkeypatch.setattr("windlass.engine.engine.POLL_SECONDS", 10 * ENDS_SECONDS)


@pytest.mark.usefixtures("unpolled")
async def test_waiters_are_notified_when_a_job_finishes_in_another_process(
    deployment: Deployment,
) -> None:
    [job_id] = await deployment.submit()
    waiting = await deployment.waiting(job_id)
    deployment.gate.set()

    async with asyncio.timeout(ENDS_SECONDS):
        await waiting

    assert (await deployment.store.jobs.get(job_id)).state.status == "completed"
    assert deployment.store.queries == [[job_id]]


@pytest.mark.usefixtures("unpolled")
async def test_subscribers_are_notified_when_a_job_finishes_in_another_process(
    deployment: Deployment,
) -> None:
    [job_id] = await deployment.submit()
    with deployment.server.jobs.subscribe(job_id) as changed:
        deployment.gate.set()

        async with asyncio.timeout(ENDS_SECONDS):
            await changed.wait()

    assert (await deployment.store.jobs.get(job_id)).state.status == "completed"


@pytest.mark.usefixtures("unpolled")
@pytest.mark.parametrize("request_kind", ["cancel", "retry"])
async def test_callers_are_notified_when_another_process_has_applied_a_request(
    deployment: Deployment, clients: Clients, monkeypatch: pytest.MonkeyPatch, request_kind: str
) -> None:
    monkeypatch.setattr("windlass.engine.job_control.APPLIED_SECONDS_MAX", 10 * ENDS_SECONDS)
    [job_id] = await deployment.submit()
    await deployment.begun(job_id)

    async with asyncio.timeout(ENDS_SECONDS):
        await deployment.server.jobs.cancel(job_id)
        if request_kind == "retry":
            await deployment.server.jobs.retry(job_id)

    status = (await deployment.store.jobs.get(job_id)).state.status
    assert status == ("cancelled" if request_kind == "cancel" else "running")
    assert clients.server.subscriptions == 1


async def test_polling_finds_the_end_of_a_job_whose_notification_was_lost(
    deployment: Deployment, clients: Clients
) -> None:
    clients.engine.loses_notifications = True
    [job_id] = await deployment.submit()
    waiting = await deployment.waiting(job_id)
    deployment.gate.set()

    async with asyncio.timeout(ENDS_SECONDS):
        await waiting

    assert clients.engine.notified == [job_id]


@pytest.mark.usefixtures("unpolled")
async def test_a_hundred_concurrent_waits_make_one_query(deployment: Deployment) -> None:
    job_ids = await deployment.submit(100)
    waiting = [asyncio.create_task(deployment.server.jobs.wait(job_id)) for job_id in job_ids]
    await deployment.store.until_queried()
    deployment.gate.set()

    async with asyncio.timeout(ENDS_SECONDS):
        await asyncio.gather(*waiting)

    assert [sorted(query) for query in deployment.store.queries] == [sorted(job_ids)]


@pytest.mark.usefixtures("unpolled")
async def test_a_job_that_another_process_retried_is_waited_for_again(
    deployment: Deployment,
) -> None:
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


@pytest.mark.usefixtures("unpolled")
async def test_notifications_about_a_job_of_this_process_are_ignored(
    deployment: Deployment, clients: Clients
) -> None:
    [job_id] = await deployment.submit()
    await deployment.begun(job_id)
    waiting = asyncio.create_task(deployment.engine.jobs.wait(job_id))
    # A job of another process: this one subscribes.
    with deployment.engine.jobs.subscribe("elsewhere") as changed:
        await asyncio.sleep(0)
        clients.server.notify_done([job_id, "elsewhere"])
        await changed.wait()
    await asyncio.sleep(0)
    was_done = waiting.done()
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await waiting

    assert not was_done


async def test_waiting_for_an_unknown_job_fails(deployment: Deployment) -> None:
    [job_id] = await deployment.submit()
    waits = [deployment.server.jobs.wait("missing"), deployment.engine.jobs.wait("missing")]

    for wait in waits:
        with pytest.raises(JobNotFound, match="job not found: missing; list the jobs"):
            await wait

    waiting = await deployment.waiting(job_id)
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await waiting


async def test_a_server_subscribes_once_when_it_starts_and_an_engine_only_when_it_waits(
    deployment: Deployment, clients: Clients
) -> None:
    before = clients.server.subscriptions
    deployment.gate.set()
    async with asyncio.timeout(ENDS_SECONDS):
        for job_id in await deployment.submit(5):
            await deployment.server.jobs.wait(job_id)

    assert (before, clients.server.subscriptions, clients.engine.subscriptions) == (1, 1, 0)


async def test_an_engine_that_runs_alone_sends_no_notifications(tmp_path: Path) -> None:
    notified: list[Sequence[str]] = []
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}))
        process.broker.subscribe_done(notified.append)
        await process.start()
        await process.ended((await process.submit()).spec.job_id)
        await process.stop()

    assert notified == []
