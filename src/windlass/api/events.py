"""The events of a job that are stored, page by page."""

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import Flag, Limit, Number, id_of, query_of
from windlass.api.state import ApiState
from windlass.api.telling import Teller
from windlass.wire import Event, Page

TAG = "events"
PAGE = 500
# A page that would be larger is cut; the next one goes on.
PAGE_BYTES_MAX = 8 << 20


class EventsQuery(Struct, forbid_unknown_fields=True):
    """Events after this number: `next_cursor` is the next one's. The context may be left out."""

    after: Number = 0
    limit: Limit = PAGE
    context: Flag = "true"


def _bounded(events: list[Event]) -> list[Event]:
    """As many events as fit into one answer, at least one."""
    left = PAGE_BYTES_MAX
    for place, event in enumerate(events):
        left -= sum(len(memoryview(part)) for part in (event.data, event.meta, event.context))
        if left < 0 and place:
            return events[:place]
    return events


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/events`."""
    routes = APIRouter()

    async def listed(request: Request) -> Response:
        query = query_of(request, EventsQuery)
        job_id = id_of(request, "job_id")
        job = await state.store.job(job_id)
        plan = await state.control.plan(job.workflow_id, job.version)
        found = await state.store.events(job_id, query.after, query.limit + 1)
        teller = Teller(state.store, plan, job, with_context=query.context == "true")
        page = _bounded(await teller.told(found[: query.limit]))
        after = str(page[-1].seq) if len(found) > len(page) else None
        return answer(Page(page, after))

    declare(routes, "GET", "/jobs/{job_id}/events", listed, Operation(
        policy=Policy.READ, tag=TAG, summary="List the events of a job, in their order",
        query=EventsQuery, answers={200: Page[Event]}, refusals=(404, 422),
    ))  # fmt: skip
    return routes
