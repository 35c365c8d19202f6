"""Where `windlass jobs` reads: the embedded database, or a server. Both answer in the shapes of the API."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import click
import msgspec
from msgspec import Raw, Struct, structs

from windlass.cli.server_address import server_url
from windlass.client import Client
from windlass.core.errors import NodeNotFound
from windlass.ports.store.jobs import JobFilter
from windlass.ports.store.logs import LogFilter
from windlass.settings import load_settings
from windlass.views.event_view import EventView
from windlass.views.jobs import job_shape, log_shape
from windlass.views.loops import WantedTasks, tasks_of
from windlass.views.outputs import Outputs
from windlass.wire import Event, Job, Log, Node, Page, Task

if TYPE_CHECKING:
    from windlass.process import Reader

ROWS_PAGE = 1_000
# The most that a server gives at once.
SERVER_PAGE = 100
# What is printed of a job's outputs, all together; the rest by its size.
RESULT_BYTES_MAX = 16 << 20


class Wanted(Struct, frozen=True):
    """Which jobs, and how many of them."""

    limit: int
    workflow_id: str | None = None
    status: str | None = None
    cursor: str | None = None


class WantedLines(Struct, frozen=True):
    """Which lines of a job's log."""

    node: str | None = None
    attempt: int | None = None
    index: int | None = None


class Source(Protocol):
    """A place to look jobs up."""

    async def jobs(self, wanted: Wanted) -> Page[Job]:
        """A page of jobs, newest first."""
        ...

    async def job(self, job_id: str) -> Job:
        """A job with its nodes and outputs; JobNotFound."""
        ...

    def tasks(self, job_id: str, node_id: str, status: str | None) -> AsyncIterator[Task]:
        """The iterations of a loop by index, or those in one state; JobNotFound, NodeNotFound."""
        ...

    def events(self, job_id: str, after: int, *, context: bool) -> AsyncIterator[Event]:
        """Events in order, after a sequence number; JobNotFound."""
        ...

    def logs(self, job_id: str, wanted: WantedLines) -> AsyncIterator[Log]:
        """Lines of the log in order; JobNotFound."""
        ...


class ReaderSource:
    """The embedded database."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._store = reader.store

    async def jobs(self, wanted: Wanted) -> Page[Job]:
        """A page of jobs; a cursor is the instant and the id of the last one seen."""
        before = _before(wanted.cursor)
        jobs = await self._store.jobs.list(JobFilter(wanted.workflow_id, wanted.status, before, wanted.limit))
        last = jobs[-1] if len(jobs) == wanted.limit else None
        return Page(
            [job_shape(job) for job in jobs], f"{last.spec.created_at}:{last.spec.job_id}" if last is not None else None
        )

    async def job(self, job_id: str) -> Job:
        """A job with its nodes and outputs."""
        # The parts of an engine take a fifth of a second to import; who asks a server needs none of them.
        from windlass.process import job_result

        result = await job_result(self._reader, job_id, RESULT_BYTES_MAX)
        return job_shape(result.job, result.result_data, result.nodes)

    async def tasks(self, job_id: str, node_id: str, status: str | None) -> AsyncIterator[Task]:
        """The iterations of a loop."""
        job = await self._store.jobs.get(job_id)
        plan = await self._reader.plans.get(job.spec.workflow_id, job.spec.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.spec.workflow_id} version {job.spec.version} has no node {node_id!r}")
        rows = await self._store.jobs.nodes(job_id, node_id)
        outputs = Outputs(self._reader.artifacts, RESULT_BYTES_MAX, RESULT_BYTES_MAX)
        wanted = WantedTasks(status, limit=ROWS_PAGE)
        while page := await tasks_of(self._store, outputs, plan, rows[0] if rows else None, wanted):
            for task in page:
                yield task
            wanted = structs.replace(wanted, after=page[-1].index)

    async def events(self, job_id: str, after: int, *, context: bool) -> AsyncIterator[Event]:
        """Events in order."""
        job = await self._store.jobs.get(job_id)
        plan = await self._reader.plans.get(job.spec.workflow_id, job.spec.version)
        teller = EventView(self._store, plan, job, with_context=context)
        while page := await self._store.jobs.events(job_id, after, ROWS_PAGE):
            for event in await teller.told(page):
                yield event
            after = page[-1].seq

    async def logs(self, job_id: str, wanted: WantedLines) -> AsyncIterator[Log]:
        """Lines in order."""
        await self._store.jobs.get(job_id)
        lines = LogFilter(
            job_id=job_id, node_id=wanted.node, attempt=wanted.attempt, index=wanted.index, limit=ROWS_PAGE
        )
        while page := await self._store.logs.list(lines):
            for stored in page:
                yield log_shape(stored)
            lines = structs.replace(lines, after=page[-1].log_id)


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
        return await with_outputs(self._client, structs.replace(job, nodes=await self._client.nodes(job_id)))

    def tasks(self, job_id: str, node_id: str, status: str | None) -> AsyncIterator[Task]:
        """The iterations of a loop."""
        return self._client.tasks(job_id, node_id, status=status)

    def events(self, job_id: str, after: int, *, context: bool) -> AsyncIterator[Event]:
        """Events in order."""
        return self._client.events(job_id, after=after, context=context)

    def logs(self, job_id: str, wanted: WantedLines) -> AsyncIterator[Log]:
        """Lines in order."""
        return self._client.logs(job_id, node=wanted.node, attempt=wanted.attempt, index=wanted.index)


class _Marker(Struct, frozen=True):
    """What a server shows in place of a large value."""

    is_truncated: bool = msgspec.field(default=False, name="_truncated")
    size: int = msgspec.field(default=0, name="_size")
    is_missing: bool = msgspec.field(default=False, name="_missing")


async def with_outputs(client: Client, job: Job) -> Job:
    """The job with large outputs whole, as far as they have no more bytes together than commands print."""
    nodes = {node.node_id: node for node in job.nodes or []}
    cut = {node_id: size for node_id, node in nodes.items() if (size := _cut_size(node)) is not None}
    left = RESULT_BYTES_MAX - sum(len(memoryview(node.output)) for node in nodes.values())
    fetched: dict[str, Raw] = {}
    for node_id, size in sorted(cut.items(), key=lambda one: (one[1], one[0])):
        left -= size
        if left < 0:
            break
        fetched[node_id] = Raw(await client.output(job.job_id, node_id))
    if not fetched:
        return job
    shown = [structs.replace(node, output=fetched.get(node_id, node.output)) for node_id, node in nodes.items()]
    result = msgspec.json.decode(job.result_data, type=dict[str, Raw] | None)
    if result is not None:
        result.update({node_id: output for node_id, output in fetched.items() if node_id in result})
    return structs.replace(job, nodes=shown, result_data=Raw(msgspec.json.encode(result)))


def _cut_size(node: Node) -> int | None:
    """How large an output is that is shown by its size only; None for one that is shown, or cannot be had."""
    if not bytes(memoryview(node.output)[:13]).startswith(b'{"_truncated"'):
        return None
    try:
        marker = msgspec.json.decode(node.output, type=_Marker)
    except msgspec.ValidationError:
        return None
    return marker.size if marker.is_truncated and not marker.is_missing else None


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
    from windlass.process import open_reader

    async with open_reader(settings) as reader:
        yield ReaderSource(reader)


def _before(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    created_at, _, job_id = cursor.partition(":")
    if not created_at.isdigit() or not job_id:
        raise click.BadParameter(f"{cursor!r} is not the next_cursor of a page", param_hint="--cursor")
    return int(created_at), job_id
