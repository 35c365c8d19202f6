"""Where `windlass jobs` reads: the embedded database, or a server. Both answer in the shapes of the API."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import click
import msgspec
from msgspec import Struct

from windlass.cli.remote import server_url
from windlass.cli.shapes import event_shape, job_shape, log_shape, result_shape
from windlass.client import Client
from windlass.ports.store import JobFilter, Store
from windlass.settings import load_settings
from windlass.wire import Event, Job, Log, Page

ROWS_PAGE = 1_000
# The most that a server gives at once.
SERVER_PAGE = 100


class Wanted(Struct, frozen=True):
    """Which jobs, and how many of them."""

    limit: int
    workflow_id: str | None = None
    status: str | None = None
    cursor: str | None = None


class Source(Protocol):
    """A place to look jobs up."""

    async def jobs(self, wanted: Wanted) -> Page[Job]:
        """A page of jobs, newest first."""
        ...

    async def job(self, job_id: str) -> Job:
        """A job with its nodes and outputs; JobNotFound."""
        ...

    def events(self, job_id: str, after: int) -> AsyncIterator[Event]:
        """Events in order, after a sequence number; JobNotFound."""
        ...

    def logs(self, job_id: str, node: str | None, attempt: int | None) -> AsyncIterator[Log]:
        """Lines of the log in order; JobNotFound."""
        ...


class StoreSource:
    """The embedded database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def jobs(self, wanted: Wanted) -> Page[Job]:
        """A page of jobs; a cursor is the instant and the id of the last one seen."""
        before = _before(wanted.cursor)
        jobs = await self._store.jobs(JobFilter(wanted.workflow_id, wanted.status, before, wanted.limit))
        last = jobs[-1] if len(jobs) == wanted.limit else None
        return Page([job_shape(job) for job in jobs], f"{last.created_at}:{last.job_id}" if last is not None else None)

    async def job(self, job_id: str) -> Job:
        """A job with its nodes and outputs."""
        # The parts of an engine take a fifth of a second to import; who asks a server needs none of them.
        from windlass.wiring import job_result

        return result_shape(await job_result(self._store, job_id))

    async def events(self, job_id: str, after: int) -> AsyncIterator[Event]:
        """Events in order."""
        await self._store.job(job_id)
        while page := await self._store.events(job_id, after, ROWS_PAGE):
            for event in page:
                yield event_shape(job_id, event)
            after = page[-1].seq

    async def logs(self, job_id: str, node: str | None, attempt: int | None) -> AsyncIterator[Log]:
        """Lines in order."""
        await self._store.job(job_id)
        after = 0
        while page := await self._store.logs(job_id, node, attempt, after, ROWS_PAGE):
            for stored in page:
                yield log_shape(stored)
            after = page[-1].log_id


class ServerSource:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def jobs(self, wanted: Wanted) -> Page[Job]:
        """A page of jobs, put together from as many of the server's as it takes."""
        found: list[Job] = []
        cursor = wanted.cursor
        while len(found) < wanted.limit:
            limit = min(SERVER_PAGE, wanted.limit - len(found))
            page = await self._client.jobs_page(
                workflow_id=wanted.workflow_id, status=wanted.status, limit=limit, cursor=cursor
            )
            found.extend(page.items)
            cursor = page.next_cursor
            if cursor is None:
                break
        return Page(found, cursor)

    async def job(self, job_id: str) -> Job:
        """A job with its nodes and outputs."""
        job = await self._client.job(job_id)
        return msgspec.structs.replace(job, nodes=await self._client.nodes(job_id))

    def events(self, job_id: str, after: int) -> AsyncIterator[Event]:
        """Events in order."""
        return self._client.events(job_id, after=after)

    def logs(self, job_id: str, node: str | None, attempt: int | None) -> AsyncIterator[Log]:
        """Lines in order."""
        return self._client.logs(job_id, node=node, attempt=attempt)


@asynccontextmanager
async def opened(server: str | None, database: str | None) -> AsyncGenerator[Source]:
    """The server that is named, else the embedded database."""
    if server is not None and database is not None:
        raise click.UsageError("--server and --database name two places to look: leave one out")
    url = server_url(server) if database is None else None
    if url is not None:
        async with Client(url) as client:
            yield ServerSource(client)
        return
    settings = load_settings({} if database is None else {"database_url": database}).settings
    # As above: only the embedded database needs it.
    from windlass.wiring import open_reader

    async with open_reader(settings) as store:
        yield StoreSource(store)


def _before(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    created_at, _, job_id = cursor.partition(":")
    if not created_at.isdigit() or not job_id:
        raise click.BadParameter(f"{cursor!r} is not the next_cursor of a page", param_hint="--cursor")
    return int(created_at), job_id
