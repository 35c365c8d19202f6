"""The API server of a process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from msgspec import Struct

from windlass import __version__
from windlass.connections.secrets import Secrets
from windlass.embedded import Embedded
from windlass.process import ALL_ROLES, Process, Roles, open_process
from windlass.settings import Settings, is_shared


class Server(Struct, frozen=True):
    """A process and the ASGI application that serves its API."""

    process: Process
    embedded: Embedded
    app: Any
    # Set when the server is about to stop: event streams and long polls end.
    closing: asyncio.Event


@asynccontextmanager
async def open_server(settings: Settings, roles: Roles = ALL_ROLES) -> AsyncGenerator[Server]:
    """Start a process with an API. On SQLite it always has all roles."""
    # The API takes long to import, and no other command needs it.
    from windlass.api.app import create_app
    from windlass.api.state import LOOPBACK_HOSTS, ApiState

    if not is_shared(settings):
        roles = ALL_ROLES
    async with open_process(settings, roles) as process:
        state = ApiState(
            store=process.store,
            artifacts=process.artifacts,
            broker=process.broker,
            control=process.engine,
            clock=process.clock,
            handlers=process.handlers,
            chance=Random(),
            version=__version__,
            allowed_hosts=(*LOOPBACK_HOSTS, *settings.server.allowed_hosts),
            artifact_bytes_max=settings.artifacts.bytes_max,
            secrets=Secrets(settings.secrets),
            worker_problems=process.problems,
        )
        yield Server(process, Embedded(process), create_app(state), state.closing)
