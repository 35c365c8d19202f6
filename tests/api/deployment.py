"""A server as `windlass server` starts it: on SQLite one process, on PostgreSQL with the engine in another process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from windlass.embedded import Embedded
from windlass.process import Roles, open_process
from windlass.server import open_server
from windlass.settings_loader import load_settings
from windlass.spec import read_definition

DIALECTS = ("sqlite", "postgres")


class Deployment:
    """An HTTP client of the server, and the program interface of the same process."""

    def __init__(self, client: httpx2.AsyncClient, embedded: Embedded) -> None:
        self.client = client
        self.embedded = embedded
        self.store = embedded.store

    async def post(self, path: str, body: object, status: int = 200) -> Any:
        response = await self.client.post(f"/api/v1{path}", json=body)
        assert response.status_code == status, response.text
        return response.json()

    async def deploy(self, document: str) -> None:
        definition, _ = read_definition(document)
        await self.embedded.deploy(definition)

    async def events(self, job_id: str) -> list[str]:
        return [event.type for event in await self.store.jobs.events(job_id)]


@asynccontextmanager
async def deployed(
    dialect: str, folder: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """Start a deployment on a new database of a dialect."""
    flags: dict[str, object] = {"database_url": f"sqlite:///{folder}/windlass.db"}
    if dialect == "postgres":
        flags["database_url"] = request.getfixturevalue("postgres_url")
        flags["engine.shards"] = 2
    settings = load_settings(flags, folder=folder, environ={}).settings
    async with AsyncExitStack() as stack:
        if dialect == "postgres":
            await stack.enter_async_context(open_process(settings, Roles(engine=True)))
        server = await stack.enter_async_context(open_server(settings, Roles()))
        transport = httpx2.ASGITransport(app=server.app)
        client = httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=30.0)
        await stack.enter_async_context(client)
        yield Deployment(client, server.embedded)
