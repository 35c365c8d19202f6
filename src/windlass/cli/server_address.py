"""Which server a command uses, and calls to it."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.cli.exit_codes import INTERRUPTED
from windlass.cli.runner import run_async, run_until_stopped, stop_signals
from windlass.client import Client
from windlass.settings_loader import load_settings

Result = TypeVar("Result")

# Wildcard listen addresses, and the addresses to connect to instead.
WILDCARD_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def configured_server(flag: str | None) -> str | None:
    """Return the server of the flag, WINDLASS_SERVER or windlass.toml. SettingsInvalid."""
    return load_settings({"server.url": flag}).settings.server.url


def required_server(flag: str | None) -> str:
    """Return the configured server, or the one that `windlass dev` starts on this machine."""
    settings = load_settings({"server.url": flag}).settings.server
    return settings.url or local_url(settings.host, settings.port)


def local_url(host: str, port: int) -> str:
    """Return the URL of a server that listens on this machine."""
    if host in WILDCARD_ADDRESSES:
        host = WILDCARD_ADDRESSES[host]
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def call_server(flag: str | None, request: Callable[[Client], Awaitable[Result]]) -> Result:
    """Return a server's response. ServerUnreachable."""

    async def call() -> Result:
        async with Client(required_server(flag)) as client:
            return await request(client)

    return run_async(call())


def call_server_until_stopped(flag: str | None, request: Callable[[Client], Awaitable[int]]) -> int:
    """Run a long request that returns an exit code; Ctrl-C and SIGTERM cancel it."""
    codes: list[int] = []

    async def call() -> None:
        async with Client(required_server(flag)) as client:
            codes.append(await request(client))

    async def call_until_stopped() -> None:
        with stop_signals() as stop:
            await run_until_stopped(stop, call())

    run_async(call_until_stopped())
    if codes:
        return codes[0]
    return INTERRUPTED
