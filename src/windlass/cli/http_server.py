"""Serves the API on the loop of the engine: binds, listens, says where, and stops in order."""

import asyncio
import ipaddress
import logging
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import click
import msgspec
import uvicorn

from windlass.api.coalesced_http import JoinedProtocol
from windlass.cli.server_address import local_url
from windlass.core.errors import Problem, SettingsInvalid
from windlass.process import ALL_ROLES, Roles, require_unlocked
from windlass.server import Server, open_server
from windlass.settings import Settings

BACKLOG = 2_048
# Connections and requests at once; what comes beyond is answered with 503.
CONCURRENT_MAX = 4_096
KEEP_ALIVE_SECONDS = 75


class Listener(uvicorn.Server):
    """A server that leaves signals to its command, which has more than HTTP to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take no signal."""
        yield


class Lines(logging.Formatter):
    """A log line as JSON; the access log brings its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        if record.name == "windlass.access":
            return record.getMessage()
        told = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(told).decode()


def log_to_stderr(level: int) -> None:
    """Have what the engine and the API report written to standard error, a JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("windlass").setLevel(level)


def require_closed(settings: Settings) -> None:
    """Refuse to listen for other machines: there are no keys yet, so whoever connects may do everything."""
    host = settings.server.host
    if settings.server.allow_remote or is_loopback(host):
        return
    message = f"{host!r} can be reached from other machines, and the API has no keys yet: anybody could run code here"
    hint = "listen on 127.0.0.1, or say that the network is trusted with server.allow_remote = true"
    raise SettingsInvalid([Problem(path="server.host", message=message, hint=hint)])


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@asynccontextmanager
async def serving(
    settings: Settings, prepare: Callable[[Server], Awaitable[None]] | None = None, *, roles: Roles = ALL_ROLES
) -> AsyncGenerator[tuple[Server, str]]:
    """The whole of it behind its API, and its URL; nobody is answered before it is prepared.

    In the end HTTP drains, the worker hands back what it runs, and the engine stops, in this order.
    """
    require_closed(settings)
    require_unlocked(settings)
    with _bound(settings.server.host, settings.server.port) as listening:
        url = local_url(settings.server.host, listening.getsockname()[1])
        async with open_server(settings, roles) as system:
            if prepare is not None:
                await prepare(system)
            async with _listening(system, listening, settings.server.drain_seconds):
                yield system, url


@contextmanager
def _bound(host: str, port: int) -> Generator[socket.socket]:
    """The port, before anything is started for it: connections wait until the API takes them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror or error}; name another address with --host and --port"
        ) from error
    with bound:
        bound.setblocking(False)
        yield bound


@asynccontextmanager
async def _listening(system: Server, listening: socket.socket, drain_seconds: int) -> AsyncGenerator[None]:
    config = uvicorn.Config(
        system.app,
        http=JoinedProtocol,
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
    listener = Listener(config)
    running = asyncio.create_task(listener.serve(sockets=[listening]))
    listens = asyncio.create_task(listener.listens.wait())
    try:
        await asyncio.wait((listens, running), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield
    finally:
        listens.cancel()
        system.closing.set()
        listener.should_exit = True
        await running
