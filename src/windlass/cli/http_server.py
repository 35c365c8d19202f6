"""Serves the API over HTTP in the process of the engine."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import click
import uvicorn

from windlass.cli.server_address import local_url
from windlass.core.errors import Problem, SettingsInvalid
from windlass.process import ALL_ROLES, Roles, require_unlocked
from windlass.server import Server, open_server
from windlass.settings import Settings

BACKLOG = 2_048
# Concurrent connections and requests; further ones get status 503.
CONCURRENT_MAX = 4_096
KEEP_ALIVE_SECONDS = 75


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the command, which has more to stop than HTTP."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and set `is_listening`."""
        await super().startup(sockets)
        self.is_listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Install no signal handlers."""
        yield


def require_local(settings: Settings) -> None:
    """Refuse to listen for other machines unless the settings allow it: there is no authentication yet."""
    host = settings.server.host
    if settings.server.allow_remote or is_loopback(host):
        return
    problem = Problem(
        path="server.host",
        message=f"{host!r} is reachable from other machines, and the API has no authentication yet",
        hint="listen on 127.0.0.1, or set server.allow_remote = true if the network is trusted",
    )
    raise SettingsInvalid([problem])


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@asynccontextmanager
async def run_server(
    settings: Settings,
    prepare: Callable[[Server], Awaitable[None]] | None = None,
    *,
    roles: Roles = ALL_ROLES,
) -> AsyncGenerator[tuple[Server, str]]:
    """Start a server and return it with its URL. No request is served before `prepare` returns.

    On exit, requests finish, the worker hands back its tasks, and the engine stops, in this order.
    """
    require_local(settings)
    require_unlocked(settings)
    with _bind(settings.server.host, settings.server.port) as bound:
        url = local_url(settings.server.host, bound.getsockname()[1])
        async with open_server(settings, roles) as server:
            if prepare is not None:
                await prepare(server)
            async with _serve_http(server, bound, settings.server.drain_seconds):
                yield server, url


@contextmanager
def _bind(host: str, port: int) -> Generator[socket.socket]:
    """Bind the port before anything else starts: connections wait until the API accepts them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror or error}; select another address with --host and --port"
        ) from error
    with bound:
        bound.setblocking(False)
        yield bound


@asynccontextmanager
async def _serve_http(
    server: Server, bound: socket.socket, drain_seconds: int
) -> AsyncGenerator[None]:
    config = uvicorn.Config(
        server.app,
        http="httptools",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=CONCURRENT_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=drain_seconds,
    )
    http_server = HttpServer(config)
    http_task = asyncio.create_task(http_server.serve(sockets=[bound]))
    listening_task = asyncio.create_task(http_server.is_listening.wait())
    try:
        await asyncio.wait((listening_task, http_task), return_when=asyncio.FIRST_COMPLETED)
        if http_task.done():
            http_task.result()
        yield
    finally:
        listening_task.cancel()
        server.closing.set()
        http_server.should_exit = True
        await http_task
