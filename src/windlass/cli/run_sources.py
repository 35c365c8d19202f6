"""Schedules, runs and deliveries, from a server or a database. Both return the types of the API."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from windlass.cli.sources import read_pages, read_source
from windlass.client import Client
from windlass.clock import SystemClock
from windlass.ports.store.runs import DeliveryFilter, RunFilter
from windlass.views.pagination import (
    delivery_page,
    run_event_page,
    run_page,
    schedule_event_page,
    schedule_page,
)
from windlass.views.runs import load_run_view, next_slots_view, schedule_of, schedule_view
from windlass.wire import (
    DeliveryView,
    NextSlotsView,
    Page,
    RunEventView,
    RunView,
    ScheduleView,
)

if TYPE_CHECKING:
    from windlass.reader import Reader

Result = TypeVar("Result")
EVENTS_PAGE = 500


class RunSelection(Struct, frozen=True):
    """Which runs to list."""

    limit: int
    workflow_id: str | None = None
    state: str | None = None
    cursor: str | None = None


class DeliverySelection(Struct, frozen=True):
    """Which deliveries to list."""

    limit: int
    workflow_id: str | None = None
    job_id: str | None = None
    outcome: str | None = None
    cursor: str | None = None


class RunSource(Protocol):
    """A server or a database."""

    async def schedules(self, limit: int, cursor: str | None) -> Page[ScheduleView]:
        """Return a page of schedules, by workflow id."""
        ...

    async def schedule(self, workflow_id: str) -> ScheduleView:
        """Return a schedule. ScheduleNotFound."""
        ...

    async def next(self, workflow_id: str, count: int) -> NextSlotsView:
        """Return the next slots. ScheduleNotFound."""
        ...

    async def runs(self, selection: RunSelection) -> Page[RunView]:
        """Return a page of runs, newest slot first."""
        ...

    async def run(self, run_id: str) -> RunView:
        """Return a run. RunNotFound."""
        ...

    def run_events(self, run_id: str, after: int) -> AsyncIterator[RunEventView]:
        """Iterate over the events of a run. RunNotFound."""
        ...

    def schedule_events(self, workflow_id: str, after: int) -> AsyncIterator[RunEventView]:
        """Iterate over the events of a schedule. ScheduleNotFound."""
        ...

    async def deliveries(self, selection: DeliverySelection) -> Page[DeliveryView]:
        """Return a page of deliveries, newest first."""
        ...


def read_runs(
    server: str | None, database: str | None, read: Callable[[RunSource], Awaitable[Result]]
) -> Result:
    """Return what `read` finds on the server, or otherwise in the database."""
    return read_source(server, database, run_source, read)


def read_events(
    server: str | None,
    database: str | None,
    read: Callable[[RunSource], AsyncIterator[RunEventView]],
    *,
    limit: int,
) -> Page[RunEventView]:
    """Return the first events of a run or a schedule."""

    async def first(source: RunSource) -> Page[RunEventView]:
        found: list[RunEventView] = []
        async for event in read(source):
            found.append(event)
            if len(found) == limit:
                break
        return Page(found)

    return read_runs(server, database, first)


def run_source(opened: "Client | Reader") -> RunSource:
    """Return the source that reads from a server or a database."""
    if isinstance(opened, Client):
        return ServerRuns(opened)
    return DatabaseRuns(opened)


class ReadEventPage(Protocol):
    """A function that reads a page of events."""

    async def __call__(self, *, after: int, limit: int) -> Page[RunEventView]:
        """Return the events after a sequence number."""
        ...


async def _all_events(read: ReadEventPage, after: int) -> AsyncIterator[RunEventView]:
    while True:
        page = await read(after=after, limit=EVENTS_PAGE)
        for event in page.items:
            yield event
        if page.next_cursor is None:
            return
        after = page.items[-1].seq


class DatabaseRuns:
    """Schedules, runs and deliveries of a database."""

    def __init__(self, reader: "Reader") -> None:
        self._plan = reader.plans.get
        self._store = reader.store.runs
        self._clock = SystemClock()

    async def schedules(self, limit: int, cursor: str | None) -> Page[ScheduleView]:
        """Return a page of schedules."""
        return await schedule_page(
            self._store, self._plan, limit=limit, cursor=cursor, now=self._clock.wall()
        )

    async def schedule(self, workflow_id: str) -> ScheduleView:
        """Return a schedule."""
        row = await self._store.schedule(workflow_id)
        return schedule_view(row, await schedule_of(self._plan, row), self._clock.wall())

    async def next(self, workflow_id: str, count: int) -> NextSlotsView:
        """Return the next slots."""
        slots = await schedule_of(self._plan, await self._store.schedule(workflow_id))
        return next_slots_view(workflow_id, slots, self._clock.wall(), count)

    async def runs(self, selection: RunSelection) -> Page[RunView]:
        """Return a page of runs."""
        wanted = RunFilter(selection.workflow_id, selection.state, limit=selection.limit)
        return await run_page(self._store, wanted, selection.cursor, self._clock.now())

    async def run(self, run_id: str) -> RunView:
        """Return a run."""
        return await load_run_view(self._store, await self._store.get(run_id), self._clock.now())

    def run_events(self, run_id: str, after: int) -> AsyncIterator[RunEventView]:
        """Iterate over the events of a run."""
        return _all_events(partial(run_event_page, self._store, run_id), after)

    def schedule_events(self, workflow_id: str, after: int) -> AsyncIterator[RunEventView]:
        """Iterate over the events of a schedule."""
        return _all_events(partial(schedule_event_page, self._store, workflow_id), after)

    async def deliveries(self, selection: DeliverySelection) -> Page[DeliveryView]:
        """Return a page of deliveries."""
        wanted = DeliveryFilter(
            workflow_id=selection.workflow_id,
            job_id=selection.job_id,
            outcome=selection.outcome,
            limit=selection.limit,
        )
        return await delivery_page(self._store, wanted, selection.cursor)


class ServerRuns:
    """Schedules, runs and deliveries of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def schedules(self, limit: int, cursor: str | None) -> Page[ScheduleView]:
        """Return a page of schedules."""

        async def read_page(limit: int, cursor: str | None) -> Page[ScheduleView]:
            return await self._client.schedules.page(limit=limit, cursor=cursor)

        return await read_pages(read_page, limit, cursor)

    async def schedule(self, workflow_id: str) -> ScheduleView:
        """Return a schedule."""
        return await self._client.schedules.get(workflow_id)

    async def next(self, workflow_id: str, count: int) -> NextSlotsView:
        """Return the next slots."""
        return await self._client.schedules.next_slots(workflow_id, count)

    async def runs(self, selection: RunSelection) -> Page[RunView]:
        """Return a page of runs."""

        async def read_page(limit: int, cursor: str | None) -> Page[RunView]:
            return await self._client.runs.page(
                workflow_id=selection.workflow_id, state=selection.state, limit=limit, cursor=cursor
            )

        return await read_pages(read_page, selection.limit, selection.cursor)

    async def run(self, run_id: str) -> RunView:
        """Return a run."""
        return await self._client.runs.get(run_id)

    def run_events(self, run_id: str, after: int) -> AsyncIterator[RunEventView]:
        """Iterate over the events of a run."""
        return self._client.runs.events(run_id, after=after)

    def schedule_events(self, workflow_id: str, after: int) -> AsyncIterator[RunEventView]:
        """Iterate over the events of a schedule."""
        return self._client.schedules.events(workflow_id, after=after)

    async def deliveries(self, selection: DeliverySelection) -> Page[DeliveryView]:
        """Return a page of deliveries."""

        async def read_page(limit: int, cursor: str | None) -> Page[DeliveryView]:
            return await self._client.deliveries.page(
                workflow_id=selection.workflow_id,
                job_id=selection.job_id,
                outcome=selection.outcome,
                limit=limit,
                cursor=cursor,
            )

        return await read_pages(read_page, selection.limit, selection.cursor)
