"""An engine with its worker on a SQLite database, built by hand so that tests can reach every part."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import msgspec
from msgspec import Raw

from simulation.plans import plan_of
from tests.defaults import OUTPUT_BYTES_MAX, duties, worker_options
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.core.artifacts import is_reference, read_reference
from windlass.core.jobs import JobRecord
from windlass.core.plan import NodePlan, Plan
from windlass.core.submit_request import SubmitRequest
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.engine.shard import Shard
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler import Handler
from windlass.ports.store import Store
from windlass.ports.store.workflows import StoredWorkflow
from windlass.spec import check_input, compile_plan, read_definition
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.sqlite.store import SqliteStore
from windlass.worker.worker import Worker

ENDS_SECONDS = 20.0
CLOCK = SystemClock()


class Process:
    """The parts of one process: a broker, an engine and, optionally, a worker."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        name: str = "one",
        *,
        only_new_jobs: bool = False,
        handlers: Mapping[str, Handler] | None = None,
        concurrency: int = 64,
    ) -> None:
        self.store = store
        self.broker = MemoryBroker(CLOCK)
        self.artifacts = MemoryArtifacts()
        plans = Plans(store, lambda stored: _plan(plan, stored))
        self.engine = Engine(
            store=store,
            broker=self.broker,
            clock=CLOCK,
            plans=plans,
            artifacts=self.artifacts,
            random=Random(),
            owner=name,
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties(sweep_seconds=0.05),
            check_input=check_input,
            only_new_jobs=only_new_jobs,
        )
        known = {**builtin_handlers(HandlerConfig(allow_private=True)), **(handlers or {})}
        self.worker = Worker(
            self.broker,
            known,
            CLOCK,
            worker_id=name,
            artifacts=self.artifacts,
            random=Random(1),
            **worker_options(concurrency=concurrency),
        )
        self._working: asyncio.Task[None] | None = None

    @property
    def shard(self) -> Shard:
        """The only shard."""
        [shard] = self.engine.shard_owner.shards
        return shard

    async def start(self, *, worker: bool = True) -> None:
        await self.engine.start()
        if worker:
            self._working = asyncio.create_task(self.worker.run())

    async def stop(self) -> None:
        if self._working is not None:
            await self.worker.stop(1.0)
            await self._working
        await self.engine.stop()

    async def submit(self, input: bytes = b"{}", key: str | None = None) -> JobRecord:
        request = SubmitRequest("test", msgspec.json.decode(input), 1, key)
        return (await self.engine.jobs.submit(request)).job

    async def ended(self, job_id: str) -> JobRecord:
        await asyncio.wait_for(self.engine.jobs.wait(job_id), ENDS_SECONDS)
        return await self.store.jobs.get(job_id)


def _plan(plan: Plan, stored: StoredWorkflow) -> Plan:
    if bytes(stored.definition) == b'"broken"':
        raise ValueError("this definition cannot be compiled")
    return plan


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path / "engine.db"), CLOCK)
    await store.workflows.put("test", Raw(b"{}"), "digest", CLOCK.now())
    try:
        yield store
    finally:
        await store.close()


def plan(edges: Mapping[str, Sequence[str]], **nodes: NodePlan) -> Plan:
    return plan_of(edges, nodes)


async def events_of(store: Store, job_id: str) -> list[str]:
    return [event.type for event in await store.jobs.events(job_id)]


def plan_from(document: Mapping[str, object]) -> Plan:
    """Return the plan of a document, as the workflow of the harness."""
    definition, _ = read_definition({"workflow_id": "test", **document})
    return compile_plan(definition, 1)


async def output_of(process: Process, job_id: str, node_id: str) -> object:
    """Return the output of a node, from its row or the artifact store."""
    output = (await process.store.jobs.nodes(job_id, node_id))[0].output
    assert output is not None
    body = (
        await process.artifacts.get(read_reference(output).key)
        if is_reference(output)
        else bytes(output)
    )
    return msgspec.json.decode(body)


async def until(
    process: Process,
    job_id: str,
    holds: Callable[[], Awaitable[bool]],
    every_seconds: float = ENDS_SECONDS,
) -> None:
    """Wait until a condition holds; checked after each change of the job, and periodically."""
    with process.engine.jobs.subscribe(job_id) as changed:
        async with asyncio.timeout(ENDS_SECONDS):
            while not await holds():
                with suppress(TimeoutError):
                    async with asyncio.timeout(every_seconds):
                        await changed.wait()
                changed.clear()
