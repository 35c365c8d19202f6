"""Jobs with their iterations, events and logs, from a server or a database. Both return the types of the API."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from windlass.cli.sources import read_pages, read_source
from windlass.client import Client
from windlass.core.errors import NodeNotFound
from windlass.core.jobs import JobSelection
from windlass.ports.store.jobs import JobFilter
from windlass.ports.store.logs import LogFilter
from windlass.views.events import EventRenderer
from windlass.views.jobs import job_view, log_view
from windlass.views.loops import IterationSelection, iteration_views
from windlass.views.outputs import OutputReader
from windlass.views.pagination import job_page
from windlass.wire import EventView, IterationView, JobView, LogView, NodeView, Page

if TYPE_CHECKING:
    from windlass.reader import Reader

Result = TypeVar("Result")

ROWS_PAGE = 1_000
# Limit of the displayed outputs of a job together; larger ones are displayed by their size.
RESULT_BYTES_MAX = 16 << 20
MARKER_PREFIX = b'{"_truncated"'


class JobPageSelection(JobSelection, frozen=True, kw_only=True):
    """Which page of a list of jobs to show."""

    limit: int
    cursor: str | None = None


class LogSelection(Struct, frozen=True):
    """Which log lines of a job to list."""

    node: str | None = None
    attempt: int | None = None
    index: int | None = None


class JobSource(Protocol):
    """A server or a database."""

    async def jobs(self, selection: JobPageSelection) -> Page[JobView]:
        """Return a page of jobs, newest first."""
        ...

    async def job(self, job_id: str) -> JobView:
        """Return a job with its nodes and outputs. JobNotFound."""
        ...

    def iterations(
        self, job_id: str, node_id: str, status: str | None
    ) -> AsyncIterator[IterationView]:
        """Yield the iterations of a loop by index, or those in one state. JobNotFound, NodeNotFound."""
        ...

    def events(self, job_id: str, after: int, *, context: bool) -> AsyncIterator[EventView]:
        """Yield events in order, after a sequence number. JobNotFound."""
        ...

    def logs(self, job_id: str, selection: LogSelection) -> AsyncIterator[LogView]:
        """Yield log lines in order. JobNotFound."""
        ...


def read_jobs(
    server: str | None, database: str | None, read: Callable[[JobSource], Awaitable[Result]]
) -> Result:
    """Return what `read` finds on the server, or otherwise in the database."""
    return read_source(server, database, job_source, read)


def job_source(opened: "Client | Reader") -> JobSource:
    """Return the source that reads from a server or a database."""
    if isinstance(opened, Client):
        return ServerJobs(opened)
    return DatabaseJobs(opened)


class DatabaseJobs:
    """Jobs of a database."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._store = reader.store

    async def jobs(self, selection: JobPageSelection) -> Page[JobView]:
        """Return a page of jobs."""
        wanted = JobFilter(limit=selection.limit, **selection.selected())
        return await job_page(self._store.jobs, wanted, selection.cursor)

    async def job(self, job_id: str) -> JobView:
        """Return a job with its nodes and outputs."""
        result = await self._reader.result(job_id, RESULT_BYTES_MAX)
        return job_view(result.job, result.result_data, result.nodes)

    async def iterations(
        self, job_id: str, node_id: str, status: str | None
    ) -> AsyncIterator[IterationView]:
        """Yield the iterations of a loop."""
        job = await self._store.jobs.get(job_id)
        plan = await self._reader.plans.get(job.spec.workflow_id, job.spec.version)
        if node_id not in plan.index:
            raise NodeNotFound(
                f"workflow {job.spec.workflow_id} version {job.spec.version} has no node {node_id!r}"
            )
        rows = await self._store.jobs.nodes(job_id, node_id)
        row = rows[0] if rows else None
        outputs = OutputReader(self._reader.artifacts, RESULT_BYTES_MAX, RESULT_BYTES_MAX)
        wanted = IterationSelection(status, limit=ROWS_PAGE)
        while page := await iteration_views(self._store, outputs, plan, row, wanted):
            for iteration in page:
                yield iteration
            wanted = structs.replace(wanted, after=page[-1].index)

    async def events(self, job_id: str, after: int, *, context: bool) -> AsyncIterator[EventView]:
        """Yield events in order."""
        job = await self._store.jobs.get(job_id)
        plan = await self._reader.plans.get(job.spec.workflow_id, job.spec.version)
        view = EventRenderer(self._store, plan, job, with_context=context)
        while page := await self._store.jobs.events(job_id, after, ROWS_PAGE):
            for event in await view.render(page):
                yield event
            after = page[-1].seq

    async def logs(self, job_id: str, selection: LogSelection) -> AsyncIterator[LogView]:
        """Yield log lines in order."""
        await self._store.jobs.get(job_id)
        wanted = LogFilter(
            job_id=job_id,
            node_id=selection.node,
            attempt=selection.attempt,
            index=selection.index,
            limit=ROWS_PAGE,
        )
        while page := await self._store.logs.list(wanted):
            for line in page:
                yield log_view(line)
            wanted = structs.replace(wanted, after=page[-1].log_id)


class ServerJobs:
    """Jobs of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def jobs(self, selection: JobPageSelection) -> Page[JobView]:
        """Return a page of jobs."""

        async def read_page(limit: int, cursor: str | None) -> Page[JobView]:
            return await self._client.jobs.page(selection, limit=limit, cursor=cursor)

        return await read_pages(read_page, selection.limit, selection.cursor)

    async def job(self, job_id: str) -> JobView:
        """Return a job with its nodes and outputs."""
        job = await self._client.jobs.get(job_id)
        return await fetch_outputs(
            self._client, structs.replace(job, nodes=await self._client.jobs.nodes(job_id))
        )

    def iterations(
        self, job_id: str, node_id: str, status: str | None
    ) -> AsyncIterator[IterationView]:
        """Yield the iterations of a loop."""
        return self._client.jobs.iterations(job_id, node_id, status=status)

    def events(self, job_id: str, after: int, *, context: bool) -> AsyncIterator[EventView]:
        """Yield events in order."""
        return self._client.jobs.events(job_id, after=after, context=context)

    def logs(self, job_id: str, selection: LogSelection) -> AsyncIterator[LogView]:
        """Yield log lines in order."""
        return self._client.jobs.logs(
            job_id, node=selection.node, attempt=selection.attempt, index=selection.index
        )


class _Marker(Struct, frozen=True):
    """What a server returns in place of a large value."""

    is_truncated: bool = msgspec.field(default=False, name="_truncated")
    size: int = msgspec.field(default=0, name="_size")
    is_missing: bool = msgspec.field(default=False, name="_missing")


async def fetch_outputs(client: Client, job: JobView) -> JobView:
    """Return the job with its truncated outputs fetched, smallest first, until the limit of displayed outputs."""
    nodes = job.nodes or []
    fetched = await _fetch_truncated(client, job.job_id, nodes)
    if not fetched:
        return job
    complete = [
        structs.replace(node, output=fetched.get(node.node_id, node.output)) for node in nodes
    ]
    result = msgspec.json.decode(job.result_data, type=dict[str, Raw] | None)
    if result is not None:
        for node_id, output in fetched.items():
            if node_id in result:
                result[node_id] = output
    return structs.replace(job, nodes=complete, result_data=Raw(msgspec.json.encode(result)))


async def _fetch_truncated(client: Client, job_id: str, nodes: list[NodeView]) -> dict[str, Raw]:
    truncated: list[tuple[int, str]] = []
    remaining = RESULT_BYTES_MAX
    for node in nodes:
        remaining -= len(memoryview(node.output))
        size = _truncated_size(node)
        if size is not None:
            truncated.append((size, node.node_id))
    fetched: dict[str, Raw] = {}
    for size, node_id in sorted(truncated):
        remaining -= size
        if remaining < 0:
            break
        fetched[node_id] = Raw(await client.jobs.output(job_id, node_id))
    return fetched


def _truncated_size(node: NodeView) -> int | None:
    """Return the size of an output that the server truncated, None if it is complete or missing."""
    if not bytes(memoryview(node.output)[: len(MARKER_PREFIX)]).startswith(MARKER_PREFIX):
        return None
    try:
        marker = msgspec.json.decode(node.output, type=_Marker)
    except msgspec.ValidationError:
        return None
    if marker.is_missing or not marker.is_truncated:
        return None
    return marker.size
