"""A server for tests of HTTP workers, with a settable broker clock and an optional worker."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import msgspec
import uvicorn

from tests.defaults import OUTPUT_BYTES_MAX, WORKER_TIMEOUT_SECONDS, duties, worker_options
from windlass.api.app import create_app
from windlass.api.state import ApiState
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.core.jobs import JobRecord
from windlass.core.submit_request import SubmitRequest
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.factory import compile_stored
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig
from windlass.ports.broker import TaskClaim
from windlass.ports.handler import Handler
from windlass.spec import check_input, definition_json, digest, read_definition
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.sqlite.store import SqliteStore
from windlass.worker.log_writer import LogWriter
from windlass.worker.worker import Worker

ENDS_SECONDS = 20.0
WORKFLOW = """
workflow_id: far_work
defaults: {queue: far}
nodes:
  work: {handler: carve, params: {wood: "{{ input.wood | default('oak') }}"}}
"""
RETRIED = """
workflow_id: retried
defaults: {queue: far}
nodes:
  work: {handler: carve, params: {}, retry: {on_error: {max_attempts: 2, initial_delay: 0.01, jitter: 0}}}
"""
PAIR = """
workflow_id: pair
defaults: {queue: far}
nodes:
  left: {handler: carve, params: {}}
  right: {handler: carve, params: {}}
"""


class SetClock:
    """The system clock, which can be set forward."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._ahead = 0

    def now(self) -> int:
        return self._machine.now() + self._ahead

    def wall(self) -> int:
        return self.now()

    def jump(self, seconds: float) -> None:
        self._ahead += round(seconds * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ObservedBroker(MemoryBroker):
    """A broker that records which workers have sent a claim."""

    def __init__(self, clock: SetClock) -> None:
        super().__init__(clock)
        self._claimed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def claim(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        wait_seconds: float,
        *,
        handlers: Sequence[str] | None = None,
    ) -> Sequence[TaskClaim]:
        self._claimed[worker_id].set()
        return await super().claim(worker_id, queues, limit, wait_seconds, handlers=handlers)

    async def claim_received(self, worker_id: str) -> None:
        """Wait until a worker has sent a claim."""
        async with asyncio.timeout(ENDS_SECONDS):
            await self._claimed[worker_id].wait()


class Server:
    """The parts of one server process, and a client of it."""

    def __init__(
        self,
        store: SqliteStore,
        artifacts: MemoryArtifacts,
        broker: ObservedBroker,
        clock: SetClock,
        engine: Engine,
        client: httpx2.AsyncClient,
        url: str,
    ) -> None:
        self.store = store
        self.artifacts = artifacts
        self.broker = broker
        self.clock = clock
        self.engine = engine
        self.client = client
        self.url = url

    async def post(self, path: str, body: object, status: int = 200) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = await self.client.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def deploy(self, document: str) -> str:
        definition, _ = read_definition(document)
        encoded = definition_json(definition)
        await self.store.workflows.put(
            definition.workflow_id, encoded, digest(encoded), self.clock.now()
        )
        return definition.workflow_id

    async def submit(self, workflow_id: str, **input_data: object) -> str:
        return (
            await self.engine.jobs.submit(SubmitRequest(workflow_id, input_data, 1))
        ).job.spec.job_id

    async def claim(
        self, queue: str = "far", worker_id: str = "worker-xyz", **rest: object
    ) -> list[dict[str, Any]]:
        body = {"worker_id": worker_id, "queues": [queue], "wait": 10, **rest}
        return (await self.post("/tasks/claim", body))["tasks"]

    async def ended(self, job_id: str) -> JobRecord:
        async with asyncio.timeout(ENDS_SECONDS):
            await self.engine.jobs.wait(job_id)
        return await self.store.jobs.get(job_id)

    async def output(self, job_id: str, node_id: str) -> Any:
        row = (await self.store.jobs.nodes(job_id, node_id))[0]
        return None if row.output is None else msgspec.json.decode(row.output)

    async def error(self, job_id: str, node_id: str) -> Any:
        row = (await self.store.jobs.nodes(job_id, node_id))[0]
        return None if row.error is None else msgspec.json.decode(row.error)

    async def claimed(self, workflow_id: str = "far_work") -> dict[str, Any]:
        """Submit a job and claim its only task."""
        await self.submit(workflow_id)
        (task,) = await self.claim()
        return task

    async def happened(self, job_id: str, event_type: str) -> None:
        """Wait until the job has an event of this type."""
        with self.engine.jobs.subscribe(job_id) as changed:
            async with asyncio.timeout(ENDS_SECONDS):
                while event_type not in await self.events(job_id):
                    await changed.wait()
                    changed.clear()

    async def events(self, job_id: str) -> list[str]:
        return [event.type for event in await self.store.jobs.events(job_id)]


def result(task: dict[str, Any], output: object = None, **rest: object) -> dict[str, object]:
    """Return the body of a result for a claimed task."""
    names = {name: task[name] for name in ("task_id", "job_id", "node_id")}
    return {**names, "status": "completed", "output": output, "worker_id": "worker-xyz", **rest}


@asynccontextmanager
async def serving(
    folder: Path,
    handlers: dict[str, Handler] | None = None,
    queues: Sequence[str] = ("default",),
    port: int = 0,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
    worker_timeout_seconds: float = WORKER_TIMEOUT_SECONDS,
) -> AsyncIterator[Server]:
    """Start a server with a worker for the given queues."""
    clock = SetClock()
    async with AsyncExitStack() as stack:
        store = await SqliteStore.open(str(folder / "server.db"), clock)
        stack.push_async_callback(store.close)
        broker = ObservedBroker(clock)
        plans = Plans(store, compile_stored)
        artifacts = MemoryArtifacts()
        engine = Engine(
            store=store,
            broker=broker,
            clock=clock,
            plans=plans,
            artifacts=artifacts,
            random=Random(),
            owner="server",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties(
                sweep_seconds=0.05,
                worker_timeout_seconds=worker_timeout_seconds,
                worker_check_seconds=worker_timeout_seconds / 15,
            ),
            check_input=check_input,
        )
        stack.push_async_callback(engine.stop)
        await engine.start()
        registry = {**builtin_handlers(HandlerConfig(allow_private=True)), **(handlers or {})}
        if queues:
            logs = LogWriter(store.logs.append, clock)
            writing = asyncio.create_task(logs.run())
            stack.push_async_callback(_closed, logs, writing)
            worker = Worker(
                broker, registry, clock, worker_id="internal", log_sink=logs, artifacts=artifacts,
                **worker_options(queues=queues, processes=1),
            )  # fmt: skip
            working = asyncio.create_task(worker.run())
            stack.push_async_callback(_stopped, worker, working)
        # Closed after the server, so that open requests are still answered.
        client = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=ENDS_SECONDS, trust_env=False, verify=False)
        )
        state = ApiState(
            store=store,
            artifacts=artifacts,
            broker=broker,
            control=engine,
            clock=clock,
            handlers=registry,
            chance=Random(),
            version="test",
            artifact_bytes_max=output_bytes_max,
        )
        url = await stack.enter_async_context(_listening(state, port))
        client.base_url = f"{url}/api/v1"
        yield Server(store, artifacts, broker, clock, engine, client, url)


async def _closed(logs: LogWriter, writing: "asyncio.Task[None]") -> None:
    await logs.aclose()
    await writing


async def _stopped(worker: Worker, working: "asyncio.Task[None]") -> None:
    await worker.stop(0.0)
    await working


@asynccontextmanager
async def _listening(state: ApiState, port: int) -> AsyncIterator[str]:
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        # Connections before the server is ready wait in the backlog.
        bound.listen()
        app = create_app(state)
        config = uvicorn.Config(
            app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve([bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            state.closing.set()
            server.should_exit = True
            await running
