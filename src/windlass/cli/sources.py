"""Where commands read: a server, or the database of this installation."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from windlass.cli.runner import run_async
from windlass.cli.server_address import configured_server
from windlass.client import Client
from windlass.settings_loader import load_settings
from windlass.wire import Page

if TYPE_CHECKING:
    from windlass.reader import Reader

Item = TypeVar("Item")
Source = TypeVar("Source")
Result = TypeVar("Result")

# The largest page of a server.
SERVER_PAGE = 100


@asynccontextmanager
async def open_source(
    server: str | None, database: str | None
) -> "AsyncGenerator[Client | Reader]":
    """Open the server of the flag or the settings, otherwise the database."""
    if server is not None and database is not None:
        raise click.UsageError("--server and --database cannot be combined: leave one out")
    url: str | None = None
    if database is None:
        url = configured_server(server)
    if url is not None:
        async with Client(url) as client:
            yield client
        return
    # The modules of an engine take a fifth of a second to import; clients of a server do not need them.
    from windlass.reader import open_reader

    async with open_reader(load_settings({"database_url": database}).settings) as reader:
        yield reader


def read_source(
    server: str | None,
    database: str | None,
    source_of: "Callable[[Client | Reader], Source]",
    read: Callable[[Source], Awaitable[Result]],
) -> Result:
    """Return what `read` finds on the server, or otherwise in the database."""

    async def open_and_read() -> Result:
        async with open_source(server, database) as opened:
            return await read(source_of(opened))

    return run_async(open_and_read())


async def read_pages(
    read_page: Callable[[int, str | None], Awaitable[Page[Item]]], limit: int, cursor: str | None
) -> Page[Item]:
    """Return up to `limit` items from as many pages of a server as necessary."""
    items: list[Item] = []
    while len(items) < limit:
        page = await read_page(min(SERVER_PAGE, limit - len(items)), cursor)
        items.extend(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    return Page(items, cursor)
