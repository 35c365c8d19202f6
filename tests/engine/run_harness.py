"""An engine with its worker for tests of runs: definitions as documents, and handlers that tests control."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.defaults import OUTPUT_BYTES_MAX, worker_options
from tests.defaults import duties as default_duties
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.core.errors import RunNotFound
from windlass.core.jobs import JobRecord
from windlass.core.plan import Plan
from windlass.core.runs.rows import RunRow
from windlass.core.submit_request import SubmitRequest
from windlass.engine.config import Duties
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import declared, handler
from windlass.ports.store import Store
from windlass.ports.store.runs import RunFilter
from windlass.ports.store.workflows import StoredWorkflow
from windlass.spec import (
    check_input,
    compile_plan,
    definition_from_json,
    definition_json,
    digest,
    read_definition,
)
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.sqlite.store import SqliteStore
from windlass.worker.worker import Worker

ENDS_SECONDS = 20.0
LOOK_SECONDS = 0.02
CLOCK = SystemClock()


class Steered:
    """Handlers that wait until a test opens the gate, and responses to webhooks that a test chooses."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = asyncio.Event()
        self.calls: list[str] = []
        self.stopped: list[str] = []
        # What the receiver of webhooks answers, and what was sent to it.
        self.answer: object = None
        self.sent: list[dict[str, object]] = []
        # Whether the node called `flaky` fails.
        self.fails = False
        # Clear while the receiver of webhooks does not answer.
        self.answers = asyncio.Event()
        self.answers.set()

    def handlers(self) -> dict[str, object]:
        @handler("gate")
        async def gate(ctx: Context) -> str:
            """Wait for the test."""
            self.calls.append(ctx.node_id)
            self.started.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.stopped.append(ctx.job_id)
                raise
            return "through"

        @handler("flaky")
        async def flaky(ctx: Context) -> str:
            """Fail while the test wants it."""
            self.calls.append(ctx.node_id)
            if self.fails:
                raise ValueError("as it was told to")
            return "good"

        @handler("webhook")
        async def webhook(
            ctx: Context,
            url: str,
            type: str = "",
            data: Any = None,
            timeout: float = 1.0,
            id: str | None = None,
            timestamp: str | None = None,
            workflow_id: str | None = None,
        ) -> dict[str, object]:
            """Record what would be sent."""
            self.sent.append({"url": url, "type": type, "data": data, "timestamp": timestamp})
            await self.answers.wait()
            return {"status": 200, "webhook_id": "x", "response": self.answer}

        return {one.name: one for one in (declared(gate), declared(flaky), declared(webhook))}


class RunProcess:
    """The parts of one process; `crash` leaves everything as it is."""

    def __init__(
        self, store: Store, steered: Steered, *, duties: Duties | None = None, alone: bool = False
    ) -> None:
        self.store = store
        self.broker = MemoryBroker(CLOCK)
        self.artifacts = MemoryArtifacts()
        self.engine = Engine(
            store=store,
            broker=self.broker,
            clock=CLOCK,
            plans=Plans(store, compiled),
            artifacts=self.artifacts,
            random=Random(),
            owner=f"process-{id(self)}",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties or default_duties(sweep_seconds=0.05),
            only_new_jobs=alone,
            check_input=check_input,
        )
        known: Mapping[str, object] = {
            **builtin_handlers(HandlerConfig(allow_private=True)),
            **steered.handlers(),
        }
        self.worker = Worker(
            self.broker,
            known,  # pyright: ignore[reportArgumentType]
            CLOCK,
            worker_id=f"worker-{id(self)}",
            artifacts=self.artifacts,
            **worker_options(),
        )
        self._working: asyncio.Task[None] | None = None

    async def start(self, *, worker: bool = True) -> None:
        await self.engine.start()
        if worker:
            self._working = asyncio.create_task(self.worker.run())

    async def stop(self) -> None:
        if self._working is not None:
            await self.worker.stop(0.0)
            await self._working
        await self.engine.stop()

    async def submit(self, workflow_id: str, given: bytes = b"{}") -> JobRecord:
        return (
            await self.engine.jobs.submit(SubmitRequest(workflow_id, msgspec.json.decode(given)))
        ).job

    async def ended(self, job_id: str) -> JobRecord:
        async with asyncio.timeout(ENDS_SECONDS):
            await self.engine.jobs.wait(job_id)
        return await self.store.jobs.get(job_id)

    async def run_in(self, run_id: str, *states: str) -> RunRow:
        """Wait until the run is in one of these states and return it."""
        async with asyncio.timeout(ENDS_SECONDS):
            while True:
                with suppress(RunNotFound):
                    row = await self.store.runs.get(run_id)
                    if row.state in states:
                        return row
                # Nobody tells of runs: their rows are looked at.
                await asyncio.sleep(LOOK_SECONDS)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a condition on the rows holds."""
        async with asyncio.timeout(ENDS_SECONDS):
            # Rows are looked at; there is nothing to wait for instead.
            while not await holds():  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)

    async def runs_of(self, workflow_id: str, count: int, state: str = "completed") -> list[RunRow]:
        """Wait for a number of runs of a workflow in a state and return them."""
        async with asyncio.timeout(ENDS_SECONDS):
            while True:
                rows = await self.store.runs.list(
                    RunFilter(workflow_id=workflow_id, state=state, limit=1_000)
                )
                if len(rows) >= count:
                    return list(rows)
                await asyncio.sleep(LOOK_SECONDS)


def compiled(stored: StoredWorkflow) -> Plan:
    return compile_plan(definition_from_json(stored.definition), stored.version)


async def deploy(store: Store, workflow_id: str, document: Mapping[str, object]) -> None:
    """Store a definition as the next version."""
    definition, _ = read_definition({"workflow_id": workflow_id, **document})
    raw = definition_json(definition)
    await store.workflows.put(workflow_id, raw, digest(raw), CLOCK.now())


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path / "runs.db"), CLOCK, synchronous="off")
    try:
        yield store
    finally:
        await store.close()
