"""Store, broker, engine, worker and API in one process, for tests that need access to each part."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Self

import httpx2
import uvicorn
from starlette.applications import Starlette

from tests.defaults import OUTPUT_BYTES_MAX, duties, worker_options
from windlass.api.app import create_app
from windlass.api.state import ApiState
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig
from windlass.ports.broker import ALL_QUEUES
from windlass.ports.handler import Handler
from windlass.spec import check_input, compile_plan, definition_from_json
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.sqlite.store import SqliteStore
from windlass.worker.worker import Worker

API = "/api/v1"
ENDS = "30s"
# A missing folder, so that tests do not depend on whether the web UI was built.
NO_UI = Path("no-ui")
CHAIN = """
workflow_id: {workflow_id}
nodes:
  start: {{type: start, next: [first]}}
  first: {{handler: echo}}
  second: {{handler: echo, dependencies: [first], params: {{seen: "{{{{ first.output }}}}", mark: {mark}}}}}
  end: {{type: end, dependencies: [second]}}
"""


class System:
    """Store, broker, engine, worker and application in one process."""

    def __init__(
        self, store: SqliteStore, handlers: Mapping[str, Handler], chance: int, **settings: Any
    ) -> None:
        self.store = store
        self.handlers = handlers
        self.clock = SystemClock()
        self.broker = MemoryBroker(self.clock)
        plans = Plans(
            store,
            lambda stored: compile_plan(definition_from_json(stored.definition), stored.version),
        )
        self.artifacts = MemoryArtifacts()
        self.engine = Engine(
            store=store,
            broker=self.broker,
            clock=self.clock,
            plans=plans,
            artifacts=self.artifacts,
            random=Random(chance),
            owner="test",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties(sweep_seconds=0.05),
            check_input=check_input,
        )
        self.state = ApiState(
            store, self.artifacts, self.broker, self.engine, self.clock, tuple(handlers), Random(chance), "0.0.0",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            **{"ui_folder": NO_UI, **settings},
        )  # fmt: skip
        self.app: Starlette = create_app(self.state)
        self.client = self.new_client()

    def new_client(self, url: str = "http://localhost") -> httpx2.AsyncClient:
        """Return a new client of the application."""
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=True)
        return httpx2.AsyncClient(transport=transport, base_url=url, timeout=60.0)

    @classmethod
    @asynccontextmanager
    async def running(
        cls,
        folder: Path,
        *,
        worker: bool = True,
        queues: Sequence[str] = (ALL_QUEUES,),
        handlers: Mapping[str, Handler] | None = None,
        chance: int = 1,
        **settings: Any,
    ) -> AsyncIterator[Self]:
        """Start a system that is stopped at the end of the block."""
        known = {**builtin_handlers(HandlerConfig(allow_private=True)), **(handlers or {})}
        async with AsyncExitStack() as stack:
            store = await SqliteStore.open(str(folder / "api.db"), SystemClock())
            stack.push_async_callback(store.close)
            system = cls(store, known, chance, **settings)
            await system.engine.start()
            stack.push_async_callback(system.engine.stop)
            if worker:
                await stack.enter_async_context(system.working(queues))
            await stack.enter_async_context(system.client)
            yield system

    @asynccontextmanager
    async def working(self, queues: Sequence[str] = (ALL_QUEUES,)) -> AsyncIterator[None]:
        """Start a worker that is stopped at the end of the block."""
        worker = Worker(
            self.broker, self.handlers, self.clock, worker_id="inner", random=Random(1), artifacts=self.artifacts,
            **worker_options(queues=queues),
        )  # fmt: skip
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            await worker.stop(0.0)
            await task

    async def deploy(self, workflow_id: str = "chain", mark: int = 1) -> dict[str, Any]:
        """Deploy a chain of two echo nodes; another mark is another version."""
        return await self.deploy_text(CHAIN.format(workflow_id=workflow_id, mark=mark))

    async def deploy_text(self, text: str) -> dict[str, Any]:
        response = await self.client.post(
            f"{API}/workflows", content=text, headers={"content-type": "application/yaml"}
        )
        assert response.status_code in (200, 201), response.text
        return response.json()

    async def submit(self, workflow_id: str = "chain", **fields: Any) -> str:
        response = await self.client.post(
            f"{API}/jobs", json={"workflow_id": workflow_id, **fields}
        )
        assert response.status_code in (200, 201), response.text
        return response.json()["job_id"]

    async def ended(self, job_id: str) -> dict[str, Any]:
        response = await self.client.get(
            f"{API}/jobs/{job_id}", params={"wait": ENDS, "nodes": "true"}
        )
        assert response.status_code == 200, response.text
        return response.json()

    async def dispatched(self, job_id: str, node_id: str) -> None:
        """Wait until a node is dispatched."""
        with self.engine.jobs.subscribe(job_id) as changed:
            async with asyncio.timeout(10.0):
                while (await self.client.get(f"{API}/jobs/{job_id}/nodes/{node_id}")).json()[
                    "status"
                ] != "dispatched":
                    await changed.wait()
                    changed.clear()


@asynccontextmanager
async def listening(app: Starlette) -> AsyncIterator[str]:
    """Start a real server on loopback and yield its URL."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        # Connections before the server is ready wait in the backlog.
        bound.listen()
        config = uvicorn.Config(
            app, log_level="error", lifespan="off", access_log=False, timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve([bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
