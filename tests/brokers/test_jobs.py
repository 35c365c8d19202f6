"""Jobs over brokers on servers, also when the servers are flushed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.brokers.conftest import Site
from tests.contracts.brokers import empty_postgres
from tests.contracts.done_listener import subscribed
from tests.defaults import duties
from tests.engine.harness import ENDS_SECONDS, Process, opened, plan
from tests.engine.sharing_harness import deployed
from tests.servers import send_redis
from windlass.core.changes import Task
from windlass.core.errors import BrokerUnavailable
from windlass.core.plan import Plan

JOBS = 20


def fan() -> Plan:
    """Return one node, ten after it, and one after those."""
    middle = {f"m{number}": ["first"] for number in range(10)}
    return plan({"first": [], **middle, "last": list(middle)})


async def emptied(site: Site) -> None:
    if site.kind == "redis":
        await asyncio.to_thread(send_redis, site.url, b"FLUSHALL")
    else:
        await empty_postgres(site.url)


@pytest.fixture
async def on_site(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Make the harness use a broker of the site."""
    broker = await site.open()
    monkeypatch.setattr("tests.engine.harness.MemoryBroker", lambda clock: broker)
    # The regular check of tasks in flight would hide that a loss is not noticed.
    quick = duties(sweep_seconds=0.05, in_flight_check_seconds=10 * ENDS_SECONDS)
    monkeypatch.setattr("windlass.engine.engine_duties.CHECK_CONTENTS_SECONDS", 0.05)
    monkeypatch.setattr("tests.engine.harness.duties", lambda sweep_seconds: quick)
    return site


async def test_jobs_complete_over_a_server(on_site: Site, tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, fan())
        await process.start()
        jobs = [await process.submit() for _ in range(JOBS)]
        ended = [await process.ended(job.spec.job_id) for job in jobs]
        await process.stop()

    assert {job.state.status for job in ended} == {"completed"}


async def test_jobs_complete_although_the_server_is_flushed_repeatedly(
    on_site: Site, tmp_path: Path
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, fan())
        await process.start()
        jobs = [await process.submit() for _ in range(JOBS)]
        ending = asyncio.gather(*(process.ended(job.spec.job_id) for job in jobs))
        for _ in range(10):
            await emptied(on_site)
            await asyncio.sleep(0.02)
        ended = await ending
        await process.stop()

    assert {job.state.status for job in ended} == {"completed"}


async def test_a_comparison_with_changed_contents_that_fails_is_repeated(
    on_site: Site, tmp_path: Path
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, fan())
        ask, failures = process.broker.missing, 0

        async def missing(task_ids: Sequence[str]) -> Sequence[str]:
            nonlocal failures
            if task_ids and failures:
                failures -= 1
                raise BrokerUnavailable("on request")
            return await ask(task_ids)

        vars(process.broker)["missing"] = missing
        await process.start()
        jobs = [await process.submit() for _ in range(JOBS)]
        failures = 2
        await emptied(on_site)
        ended = [await process.ended(job.spec.job_id) for job in jobs]
        await process.stop()

    assert {job.state.status for job in ended} == {"completed"}


async def test_tasks_of_ended_attempts_are_removed_from_older_contents(
    site: Site, on_site: Site, tmp_path: Path
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, fan())
        await process.start()
        job_id = (await process.submit()).spec.job_id
        await process.ended(job_id)
        outdated = Task(f"{job_id}_first_1", job_id, "first", 1, "echo", b"{}", "nobody")
        # Older contents are without the epochs of later owners.
        await emptied(site)
        await (await site.open()).publish([outdated])

        async with asyncio.timeout(ENDS_SECONDS):
            while await process.broker.tasks_of(0):  # noqa: ASYNC110  there is no event for it
                await asyncio.sleep(0.01)
        await process.stop()


async def test_process_without_shards_is_notified_that_a_job_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.engine.engine.POLL_SECONDS", 10 * ENDS_SECONDS)
    engine_broker, server_broker = await site.open(), await site.open()
    async with deployed(engine_broker, server_broker) as both:
        [job_id] = await both.submit()
        waiting = await both.waiting(job_id)
        # The server's subscription is up.
        await subscribed(server_broker, engine_broker)
        both.gate.set()

        async with asyncio.timeout(ENDS_SECONDS):
            await waiting

        assert (await both.store.jobs.get(job_id)).state.status == "completed"
