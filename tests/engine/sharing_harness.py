"""An engine with a worker that runs all jobs, and a process without shards that submits and waits."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

from msgspec import Raw

from tests.defaults import OUTPUT_BYTES_MAX, worker_options
from tests.defaults import duties as default_duties
from tests.engine.harness import CLOCK, ENDS_SECONDS, plan
from windlass.clock import SystemClock
from windlass.core.plan import NodePlan
from windlass.core.submit_request import SubmitRequest
from windlass.engine.config import Sharing
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.ports.broker import Broker
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler
from windlass.ports.store.jobs import JobPosition
from windlass.spec import check_input
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.jobs import MemoryJobs
from windlass.stores.memory.store import MemoryStore
from windlass.worker.worker import Worker

SHARDS, LEASE_SECONDS = 4, 60.0
POLL_SECONDS = 0.01


class RecordingJobs(MemoryJobs):
    """Records the queries for positions."""

    def __init__(self, store: MemoryStore) -> None:
        vars(self).update(vars(store.jobs))
        self.queries: list[Sequence[str]] = []
        self.queried = asyncio.Event()

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        found = await super().positions(job_ids)
        self.queries.append(job_ids)
        self.queried.set()
        return found


class RecordingStore(MemoryStore):
    """Records which jobs waiters read together."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.jobs: RecordingJobs = RecordingJobs(self)

    @property
    def queries(self) -> list[Sequence[str]]:
        return self.jobs.queries

    async def until_queried(self, times: int = 1) -> None:
        """Return after so many queries."""
        async with asyncio.timeout(ENDS_SECONDS):
            while len(self.queries) < times:
                self.jobs.queried.clear()
                await self.jobs.queried.wait()


class Deployment:
    """Both processes, their store, and the gate that every job waits at."""

    def __init__(
        self, store: RecordingStore, engine: Engine, server: Engine, gate: asyncio.Event
    ) -> None:
        self.store = store
        self.engine = engine
        self.server = server
        self.gate = gate

    async def submit(self, count: int = 1) -> list[str]:
        requests = [SubmitRequest("test")] * count
        return [result.job.spec.job_id for result in await self.server.jobs.submit_all(requests)]

    async def begun(self, job_id: str) -> None:
        """Return once the engine has the job in memory."""
        async with asyncio.timeout(ENDS_SECONDS):
            # There is no notification of it.
            while not any(job_id in shard.jobs for shard in self.engine.shard_owner.shards):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)

    async def waiting(self, job_id: str) -> "asyncio.Task[None]":
        """Return a wait of the server that found the job unfinished."""
        times = len(self.store.queries) + 1
        waiting = asyncio.create_task(self.server.jobs.wait(job_id))
        await self.store.until_queried(times)
        return waiting


def _handlers(gate: asyncio.Event) -> Mapping[str, Handler]:
    @handler("gate")
    async def wait(ctx: Context) -> None:
        """Wait until the gate is open."""
        await gate.wait()

    return {"gate": declared(wait)}


@asynccontextmanager
async def deployed(engine_broker: Broker, server_broker: Broker) -> AsyncIterator[Deployment]:
    """Start both processes."""
    store, artifacts, gate = RecordingStore(), MemoryArtifacts(), asyncio.Event()
    await store.workflows.put("test", Raw(b"{}"), "digest", CLOCK.now())
    one = plan({"a": []}, a=NodePlan(id="a", handler="gate"))

    def process(name: str, broker: Broker, *, owns: bool) -> Engine:
        sharing, plans = Sharing(SHARDS, LEASE_SECONDS, owns=owns), Plans(store, lambda stored: one)
        duties = default_duties(sweep_seconds=0.05)
        return Engine(
            store=store,
            broker=broker,
            clock=CLOCK,
            plans=plans,
            artifacts=artifacts,
            random=Random(),
            owner=name,
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties,
            check_input=check_input,
            sharing=sharing,
        )

    engine, server = (
        process("engine", engine_broker, owns=True),
        process("server", server_broker, owns=False),
    )
    worker = Worker(
        engine_broker,
        dict(_handlers(gate)),
        CLOCK,
        worker_id="worker",
        artifacts=artifacts,
        **worker_options(),
    )
    await engine.start()
    await server.start()
    working = asyncio.create_task(worker.run())
    try:
        yield Deployment(store, engine, server, gate)
    finally:
        await worker.stop(0.0)
        await working
        await server.stop()
        await engine.stop()
