"""The list of a job's events."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.policy import Policy
from windlass.api.requests import Flag, Number, path_id, read_query
from windlass.api.state import ApiState
from windlass.core.events import Event
from windlass.ports.store import Store
from windlass.views.events import EventRenderer
from windlass.views.pagination import paginate
from windlass.wire import EventView, Page

TAG = "events"
PAGE = 500
PAGE_MAX = 5_000
# A larger page is shortened; the next page continues after it.
PAGE_BYTES_MAX = 8 << 20
# Events scanned per query, and queries per page, to find events that are not of iterations.
SCANNED_MAX = 5_000
SCANS_MAX = 10

# Stored events, and the number after which the next page starts.
EventPage = tuple[Sequence[Event], str | None]


class EventsQuery(Struct, forbid_unknown_fields=True):
    """The page of a list of events, and whether it includes the context and the events of iterations."""

    after: Number = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE
    context: Flag = "true"
    iterations: Flag = "true"


def routes(state: ApiState) -> list[Route]:
    """Return the route of the list of events."""

    async def list_events(request: Request) -> Response:
        query = read_query(request, EventsQuery)
        job = await state.store.jobs.get(path_id(request, "job_id"))
        plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
        read_page = _all_events if query.iterations == "true" else _node_events
        events, next_cursor = await read_page(
            state.store, job.spec.job_id, query.after, query.limit
        )
        renderer = EventRenderer(state.store, plan, job, with_context=query.context == "true")
        views = _within_bytes(await renderer.render(events))
        if len(views) < len(events):
            next_cursor = str(views[-1].seq)
        return json_response(Page(views, next_cursor))

    operation = Operation(
        policy=Policy.READ,
        tag=TAG,
        summary="List the events of a job in order",
        query=EventsQuery,
        responses={200: Page[EventView]},
        errors=(404, 422),
    )
    return [route("GET", "/api/v1/jobs/{job_id}/events", list_events, operation)]


async def _all_events(store: Store, job_id: str, after: int, limit: int) -> EventPage:
    events = await store.jobs.events(job_id, after, limit + 1)
    return paginate(events, limit, _cursor)


async def _node_events(store: Store, job_id: str, after: int, limit: int) -> EventPage:
    """Read events that are not of iterations; a bounded number of events is scanned for them."""
    found: list[Event] = []
    for _ in range(SCANS_MAX):
        scan = await store.overview.node_events(job_id, after, limit + 1 - len(found), SCANNED_MAX)
        found += scan.events
        if len(found) > limit:
            return paginate(found, limit, _cursor)
        if scan.last_seq == after:
            return found, None
        after = scan.last_seq
    return found, str(after)


def _cursor(event: Event) -> str:
    return str(event.seq)


def _within_bytes(views: list[EventView]) -> list[EventView]:
    """Return as many events as fit into one response, at least one."""
    remaining = PAGE_BYTES_MAX
    for count, view in enumerate(views):
        remaining -= sum(len(memoryview(part)) for part in (view.data, view.meta, view.context))
        if remaining < 0 and count > 0:
            return views[:count]
    return views
