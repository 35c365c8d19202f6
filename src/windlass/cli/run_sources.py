"""Where commands read schedules, runs and deliveries: the embedded database, or a server."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import click
from msgspec import Struct

from windlass.cli.runner import run_async
from windlass.cli.server_address import server_url
from windlass.client import Client
from windlass.clock import SystemClock
from windlass.core.errors import ScheduleNotFound
from windlass.ports.store.runs import DeliveryFilter, RunFilter, ScheduleFilter
from windlass.settings import load_settings
from windlass.views.runs import delivery_shape, next_times, run_shape, schedule_shape, slots_of
from windlass.wire import Delivery, NextTimes, Page, Run, Schedule

if TYPE_CHECKING:
    from windlass.process import Reader

Result = TypeVar("Result")
Item = TypeVar("Item")

# The most that a server gives at once.
SERVER_PAGE = 100


class Wanted(Struct, frozen=True):
    """Which runs or deliveries, and how many of them."""

    limit: int
    workflow_id: str | None = None
    # A state of runs, or an outcome of deliveries.
    state: str | None = None
    job_id: str | None = None
    cursor: str | None = None


class RunSource(Protocol):
    """A place to look schedules, runs and deliveries up."""

    async def schedules(self, limit: int, cursor: str | None) -> Page[Schedule]:
        """A page of schedules, by workflow id."""
        ...

    async def schedule(self, workflow_id: str) -> Schedule:
        """A schedule; ScheduleNotFound."""
        ...

    async def next(self, workflow_id: str, count: int) -> NextTimes:
        """The slots to come; ScheduleNotFound."""
        ...

    async def runs(self, wanted: Wanted) -> Page[Run]:
        """A page of runs, newest slot first."""
        ...

    async def run(self, run_id: str) -> Run:
        """A run; RunNotFound."""
        ...

    async def deliveries(self, wanted: Wanted) -> Page[Delivery]:
        """A page of deliveries, newest first."""
        ...


class ReaderRuns:
    """The embedded database."""

    def __init__(self, reader: "Reader") -> None:
        self._plan = reader.plans.get
        self._store = reader.store.runs
        self._clock = SystemClock()

    async def schedules(self, limit: int, cursor: str | None) -> Page[Schedule]:
        """A page of schedules; a cursor is the id of the last one seen."""
        rows = await self._store.schedules(ScheduleFilter(cursor, limit))
        found: list[Schedule] = []
        for row in rows:
            try:
                found.append(schedule_shape(row, await slots_of(self._plan, row), self._clock.now()))
            except ScheduleNotFound:
                continue
        return Page(found, rows[-1].workflow_id if len(rows) == limit else None)

    async def schedule(self, workflow_id: str) -> Schedule:
        """A schedule."""
        row = await self._store.schedule(workflow_id)
        return schedule_shape(row, await slots_of(self._plan, row), self._clock.now())

    async def next(self, workflow_id: str, count: int) -> NextTimes:
        """The slots to come."""
        slots = await slots_of(self._plan, await self._store.schedule(workflow_id))
        return next_times(workflow_id, slots, self._clock.now(), count)

    async def runs(self, wanted: Wanted) -> Page[Run]:
        """A page of runs; a cursor is the slot and the id of the last one seen."""
        before = _before(wanted.cursor)
        rows = await self._store.list(RunFilter(wanted.workflow_id, wanted.state, before, wanted.limit))
        last = rows[-1] if len(rows) == wanted.limit else None
        return Page([run_shape(row) for row in rows], last and f"{last.scheduled_at}/{last.run_id}")

    async def run(self, run_id: str) -> Run:
        """A run."""
        return run_shape(await self._store.get(run_id))

    async def deliveries(self, wanted: Wanted) -> Page[Delivery]:
        """A page of deliveries; a cursor is the instant and the id of the last one seen."""
        before = _before(wanted.cursor)
        asked = DeliveryFilter(wanted.workflow_id, wanted.job_id, wanted.state, before, wanted.limit)
        rows = await self._store.deliveries(asked)
        last = rows[-1] if len(rows) == wanted.limit else None
        return Page([delivery_shape(row) for row in rows], last and f"{last.sent_at}/{last.delivery_id}")


class ServerRuns:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def schedules(self, limit: int, cursor: str | None) -> Page[Schedule]:
        """A page of schedules."""
        return await _some(lambda size, place: self._client.schedules.page(limit=size, cursor=place), limit, cursor)

    async def schedule(self, workflow_id: str) -> Schedule:
        """A schedule."""
        return await self._client.schedules.show(workflow_id)

    async def next(self, workflow_id: str, count: int) -> NextTimes:
        """The slots to come."""
        return await self._client.schedules.next(workflow_id, count)

    async def runs(self, wanted: Wanted) -> Page[Run]:
        """A page of runs."""
        return await _some(
            lambda size, place: self._client.runs.page(
                workflow_id=wanted.workflow_id, state=wanted.state, limit=size, cursor=place
            ),
            wanted.limit,
            wanted.cursor,
        )

    async def run(self, run_id: str) -> Run:
        """A run."""
        return await self._client.runs.show(run_id)

    async def deliveries(self, wanted: Wanted) -> Page[Delivery]:
        """A page of deliveries."""
        return await _some(
            lambda size, place: self._client.deliveries.page(
                workflow_id=wanted.workflow_id, job_id=wanted.job_id, outcome=wanted.state, limit=size, cursor=place
            ),
            wanted.limit,
            wanted.cursor,
        )


async def _some(
    page_of: Callable[[int, str | None], Awaitable[Page[Item]]], limit: int, cursor: str | None
) -> Page[Item]:
    """As many items as are wanted, put together from as many pages of a server as it takes."""
    found: list[Item] = []
    while len(found) < limit:
        page = await page_of(min(SERVER_PAGE, limit - len(found)), cursor)
        found.extend(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    return Page(found, cursor)


def look(server: str | None, database: str | None, question: Callable[[RunSource], Awaitable[Result]]) -> Result:
    """What the server that is named answers, or else the embedded database."""

    async def looking() -> Result:
        async with _opened(server, database) as source:
            return await question(source)

    return run_async(looking())


@asynccontextmanager
async def _opened(server: str | None, database: str | None) -> AsyncGenerator[RunSource]:
    if server is not None and database is not None:
        raise click.UsageError("--server and --database name two places to look: leave one out")
    url = server_url(server) if database is None else None
    if url is not None:
        async with Client(url) as client:
            yield ServerRuns(client)
        return
    settings = load_settings({} if database is None else {"database_url": database}).settings
    # The parts of an engine take a fifth of a second to import; who asks a server needs none of them.
    from windlass.process import open_reader

    async with open_reader(settings) as reader:
        yield ReaderRuns(reader)


def _before(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    at, _, name = cursor.partition("/")
    if not at.isdigit() or not name:
        raise click.BadParameter(f"{cursor!r} is not the next_cursor of a page", param_hint="--cursor")
    return int(at), name
