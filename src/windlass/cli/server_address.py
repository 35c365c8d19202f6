"""Where commands find a server."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from windlass.cli.runner import run_async, stop_signals, unless
from windlass.client import Client
from windlass.settings import load_settings

Result = TypeVar("Result")

INTERRUPTED = 130

SERVER = click.option("--server", metavar="URL", help="The server to ask (default: WINDLASS_SERVER).")
# Addresses to listen on that are none to connect to.
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def server_url(flag: str | None) -> str | None:
    """The server that the flag, WINDLASS_SERVER or windlass.toml name; SettingsInvalid."""
    return load_settings({} if flag is None else {"server.url": flag}).settings.server.url


def local_url(host: str, port: int) -> str:
    """The URL of a server that listens on this machine."""
    reached = ANY_ADDRESS.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{reached}:{port}"


def needed_server(flag: str | None) -> str:
    """The server that is named, or the one that `windlass dev` starts here."""
    settings = load_settings({} if flag is None else {"server.url": flag}).settings.server
    return settings.url or local_url(settings.host, settings.port)


def ask(flag: str | None, question: Callable[[Client], Awaitable[Result]]) -> Result:
    """What a server answers; ServerUnreachable."""

    async def asking() -> Result:
        async with Client(needed_server(flag)) as client:
            return await question(client)

    return run_async(asking())


def ask_until_stopped(flag: str | None, question: Callable[[Client], Awaitable[int]]) -> int:
    """Do what takes long and gives an exit code, unless Ctrl-C or SIGTERM ends it."""
    codes: list[int] = []

    async def asking() -> None:
        async with Client(needed_server(flag)) as client:
            codes.append(await question(client))

    async def heeding() -> None:
        with stop_signals() as stop:
            await unless(stop, asking())

    run_async(heeding())
    return codes[0] if codes else INTERRUPTED
