"""Runs on PostgreSQL with three engines: limits hold whichever engine takes a submit, and a slot fires once."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.contracts.stores import emptied
from tests.defaults import OUTPUT_BYTES_MAX, duties, worker_options
from tests.engine.run_harness import CLOCK, compiled, deploy
from tests.servers import Server, new_database
from windlass.brokers.memory import MemoryBroker
from windlass.core.runs.rows import RunRow
from windlass.core.submit_request import SubmitRequest
from windlass.engine.config import Sharing
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler
from windlass.ports.store.runs import RunFilter
from windlass.spec import check_input
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.postgres.store import PostgresStore
from windlass.worker.worker import Worker

ENGINES, SHARDS, TRIGGERS, LIMIT = 3, 8, 200, 3
ENDS_SECONDS = 60.0


class Counter:
    """A handler that counts its concurrent calls."""

    def __init__(self) -> None:
        self.live = self.most = self.calls = 0

    def handlers(self) -> Mapping[str, Handler]:
        @handler("count")
        async def count(ctx: Context) -> None:
            """Count the call."""
            self.live += 1
            self.calls += 1
            self.most = max(self.most, self.live)
            await asyncio.sleep(0)
            self.live -= 1

        return {"count": declared(count)}


@pytest.fixture(scope="session")
def shared_database(postgres_server: Server) -> str:
    return new_database(postgres_server.url, "runs")


@pytest.fixture
async def store(shared_database: str) -> AsyncIterator[PostgresStore]:
    opened = await PostgresStore.open(await emptied(shared_database), CLOCK, connections_max=10)
    yield opened
    await opened.close()


@asynccontextmanager
async def fleet(store: PostgresStore, counter: Counter) -> AsyncIterator[list[Engine]]:
    """Three engines that share the shards, and one worker."""
    broker, artifacts = MemoryBroker(CLOCK), MemoryArtifacts()
    engines = [
        Engine(
            store=store,
            broker=broker,
            clock=CLOCK,
            plans=Plans(store, compiled),
            artifacts=artifacts,
            random=Random(number),
            owner=f"engine-{number}",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties(sweep_seconds=0.2),
            sharing=Sharing(SHARDS, 3.0),
            check_input=check_input,
        )
        for number in range(ENGINES)
    ]
    worker = Worker(
        broker,
        dict(counter.handlers()),
        CLOCK,
        worker_id="worker",
        artifacts=artifacts,
        **worker_options(),
    )
    for engine in engines:
        await engine.start()
    working = asyncio.create_task(worker.run())
    try:
        yield engines
    finally:
        await worker.stop(0.0)
        await working
        for engine in engines:
            await engine.stop()


async def completed(store: PostgresStore, count: int) -> Sequence[RunRow]:
    """Wait for a number of completed runs and return them."""
    while True:
        rows = await store.runs.list(RunFilter(state="completed", limit=1_000))
        if len(rows) >= count:
            return rows
        await asyncio.sleep(0.05)


async def test_the_limit_holds_with_three_engines_and_200_triggers_at_once(
    store: PostgresStore,
) -> None:
    counter = Counter()
    waits = {"on_constraint_violation": {"type": "wait"}}
    nodes = {"nodes": {"one": {"handler": "count"}}}
    await deploy(
        store, "flow", {**nodes, "constraints": {"max_concurrent_runs": LIMIT}, "actions": waits}
    )
    async with fleet(store, counter) as engines, asyncio.timeout(ENDS_SECONDS):
        wanted = SubmitRequest("flow")

        submits = (engines[number % ENGINES].jobs.submit(wanted) for number in range(TRIGGERS))
        jobs = [result.job for result in await asyncio.gather(*submits)]

        for number, job in enumerate(jobs):
            await engines[number % ENGINES].jobs.wait(job.spec.job_id)
        # A run ends in the commit that ends its job.
        rows = await store.runs.list(RunFilter(limit=1_000))
    assert len({job.spec.shard for job in jobs}) == 1
    assert [row.state for row in rows] == ["completed"] * TRIGGERS
    assert counter.calls == TRIGGERS
    assert 1 < counter.most <= LIMIT
    started = sorted(rows, key=lambda row: row.detail.started_at or 0)
    places = [
        row.detail.transitions[-5].at for row in started if "action_running" in row.detail.durations
    ]
    assert places == sorted(places)


async def test_each_slot_of_many_schedules_has_one_job(store: PostgresStore) -> None:
    counter = Counter()
    nodes = {"nodes": {"one": {"handler": "count"}}}
    for number in range(20):
        await deploy(store, f"flow{number}", {**nodes, "schedule": {"every": "1s"}})
    async with fleet(store, counter), asyncio.timeout(ENDS_SECONDS):
        rows = await completed(store, 60)

    slots = {(row.workflow_id, row.scheduled_at) for row in rows}
    assert len(slots) == len(rows) == len({row.job_id for row in rows})
    assert {row.scheduled_at % 1_000_000 for row in rows} == {0}
