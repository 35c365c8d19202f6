"""A real server, a client, and a proxy between them that can close connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

from windlass import Context, handler
from windlass.cli.http_server import run_server
from windlass.client import Client
from windlass.ports.handler_declaration import declared
from windlass.server import Server
from windlass.settings import Settings
from windlass.settings_loader import load_settings

ECHO = """
workflow_id: echo
input: {type: object, properties: {n: {type: integer}}}
nodes:
  say: {handler: echo, params: {n: "{{ input.n | default(0) }}"}}
"""
GATED = """
workflow_id: gated
nodes:
  first: {handler: echo}
  gate: {handler: gate, dependencies: [first]}
  last: {handler: echo, dependencies: [gate]}
"""
FAILING = """
workflow_id: failing
nodes:
  fine: {handler: echo}
  boom: {handler: fail, dependencies: [fine], params: {message: it is broken, type: broken, retryable: false}}
"""


class RunningServer:
    """A server with a gate that its jobs wait for."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.url = ""
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        system, self.url = await self._stack.enter_async_context(run_server(self.settings))
        self._add_handlers(system)

    async def stop(self) -> None:
        await self._stack.aclose()

    async def restart(self) -> None:
        """Stop the server and start it again at the same address."""
        await self.stop()
        port = int(self.url.rpartition(":")[2])
        flags = {"database_url": self.settings.database_url, "server.port": port}
        self.settings = load_settings(flags, environ={}).settings
        await self.start()

    def _add_handlers(self, system: Server) -> None:
        @handler("gate")
        async def gate(ctx: Context) -> dict[str, bool]:
            ctx.log("the gate is reached")
            self.reached.set()
            await self.gate.wait()
            ctx.log("the gate is open")
            return {"open": True}

        system.process.handlers["gate"] = declared(gate)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    flags = {"database_url": f"sqlite:///{tmp_path}/windlass.db", "server.port": 0}
    running = RunningServer(load_settings(flags, environ={}, folder=tmp_path).settings)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        for document in (ECHO, GATED, FAILING):
            await client.workflows.deploy(document)
        yield client


class BreakingProxy:
    """A TCP proxy that closes its first connections after a number of response bytes each."""

    def __init__(self, url: str) -> None:
        self.server_port = int(url.rpartition(":")[2])
        self.breaks_after: list[int] = []
        self.connections = 0
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, near: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        budget = self.breaks_after.pop(0) if self.breaks_after else None
        far, requests = await asyncio.open_connection("127.0.0.1", self.server_port)
        forward = asyncio.create_task(_pump(near, requests, None))
        try:
            await _pump(far, answers, budget)
        finally:
            forward.cancel()
            await asyncio.gather(forward, return_exceptions=True)
            for writer in (answers, requests):
                writer.transport.abort()
            self._tasks.discard(task)


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, budget: int | None
) -> None:
    with suppress(ConnectionError):
        while chunk := await source.read(65_536 if budget is None else max(1, budget)):
            target.write(chunk)
            await target.drain()
            if budget is not None:
                budget -= len(chunk)
                if budget <= 0:
                    return


@pytest.fixture
async def proxy(server: RunningServer) -> AsyncIterator[BreakingProxy]:
    async with BreakingProxy(server.url) as proxy:
        yield proxy
