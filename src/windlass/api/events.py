"""The events of a job that are stored, page by page."""

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import Limit, Number, id_of, query_of
from windlass.api.shapes import event_shape
from windlass.api.state import ApiState
from windlass.wire import Event, Page

TAG = "events"
PAGE = 500


class EventsQuery(Struct, forbid_unknown_fields=True):
    """Events after this number: `next_cursor` is the next one's."""

    after: Number = 0
    limit: Limit = PAGE


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/events`."""
    routes = APIRouter()

    async def listed(request: Request) -> Response:
        query = query_of(request, EventsQuery)
        job_id = id_of(request, "job_id")
        await state.store.job(job_id)
        found = await state.store.events(job_id, query.after, query.limit + 1)
        page = found[: query.limit]
        after = str(page[-1].seq) if len(found) > len(page) else None
        return answer(Page([event_shape(job_id, event) for event in page], after))

    declare(routes, "GET", "/jobs/{job_id}/events", listed, Operation(
        policy=Policy.READ, tag=TAG, summary="List the events of a job, in their order",
        query=EventsQuery, answers={200: Page[Event]}, refusals=(404, 422),
    ))  # fmt: skip
    return routes
