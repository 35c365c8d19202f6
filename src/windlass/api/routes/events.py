"""The events of a job that are stored, page by page."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import Flag, Number, id_of, query_of
from windlass.api.state import ApiState
from windlass.core.events import Event as StoredEvent
from windlass.ports.store import Store
from windlass.views.event_view import EventView
from windlass.wire import Event, Page

TAG = "events"
PAGE = 500
PAGE_MAX = 5_000
# A page that would be larger is cut; the next one goes on.
PAGE_BYTES_MAX = 8 << 20
# Events that are looked at to find those of one page that are not of single iterations, at once and in all.
LOOKED_AT_MAX = 5_000
LOOKS_MAX = 10


class EventsQuery(Struct, forbid_unknown_fields=True):
    """Events after this number: `next_cursor` is the next one's. The context, and the events of single iterations, may
    be left out."""

    after: Number = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE
    context: Flag = "true"
    items: Flag = "true"


def _bounded(events: list[Event]) -> list[Event]:
    """As many events as fit into one answer, at least one."""
    left = PAGE_BYTES_MAX
    for place, event in enumerate(events):
        left -= sum(len(memoryview(part)) for part in (event.data, event.meta, event.context))
        if left < 0 and place:
            return events[:place]
    return events


async def _without_items(store: Store, job_id: str, after: int, limit: int) -> tuple[Sequence[StoredEvent], int | None]:
    """Events that are not of single iterations, and where to go on: they may be many events apart."""
    found: list[StoredEvent] = []
    for _ in range(LOOKS_MAX):
        page = await store.overview.node_events(job_id, after, limit + 1 - len(found), LOOKED_AT_MAX)
        found += page.events
        if len(found) > limit:
            return found[:limit], found[limit - 1].seq
        if page.last_seq == after:
            return found, None
        after = page.last_seq
    return found, after


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/events`."""
    routes = APIRouter()

    async def listed(request: Request) -> Response:
        query = query_of(request, EventsQuery)
        job_id = id_of(request, "job_id")
        job = await state.store.job(job_id)
        plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
        if query.items == "true":
            stored = await state.store.events(job_id, query.after, query.limit + 1)
            found, after = stored[: query.limit], stored[query.limit - 1].seq if len(stored) > query.limit else None
        else:
            found, after = await _without_items(state.store, job_id, query.after, query.limit)
        teller = EventView(state.store, plan, job, with_context=query.context == "true")
        page = _bounded(await teller.told(found))
        if len(page) < len(found):
            after = page[-1].seq
        return answer(Page(page, None if after is None else str(after)))

    declare(routes, "GET", "/jobs/{job_id}/events", listed, Operation(
        policy=Policy.READ, tag=TAG, summary="List the events of a job, in their order",
        query=EventsQuery, answers={200: Page[Event]}, refusals=(404, 422),
    ))  # fmt: skip
    return routes
