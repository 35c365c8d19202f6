"""Deliveries of webhooks: every attempt listed, shown, and made once more."""

from typing import Annotated, Literal

from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.pagination import cut, place_of
from windlass.api.policy import Policy
from windlass.api.requests import DELIVERY_ID, Cursor, Id, no_query, query_of, text_of_path
from windlass.api.state import ApiState
from windlass.ports.store.runs import DeliveryFilter, RunStore
from windlass.views.runs import delivery_shape
from windlass.wire import Delivery, Page, Redelivered

TAG = "deliveries"
PAGE = 50
PAGE_MAX = 100


_DELIVERY = {
    "delivery_id": "1m7gjrzmd8447yh6bp63mp70_tell_1", "job_id": "1m7gjrzmd8447yh6bp63mp70", "workflow_id": "telling",
    "node_id": "tell", "attempt": 1, "url": "https://example.com/in", "outcome": "failed", "status": 503,
    "sent_at": "2026-05-01T00:30:12.600000Z", "duration_seconds": 0.21,
    "error": "POST https://example.com/in answered 503 Service Unavailable", "response": "",
}  # fmt: skip


class ListQuery(Struct, forbid_unknown_fields=True):
    """Which deliveries a list shows."""

    workflow_id: Id | UnsetType = UNSET
    job_id: Id | UnsetType = UNSET
    outcome: Literal["delivered", "failed"] | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE


class Deliveries:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    @property
    def _store(self) -> RunStore:
        return self._state.store.runs

    async def list(self, request: Request) -> Response:
        """Attempts to deliver, newest first."""
        query = query_of(request, ListQuery)
        before: tuple[int, str] | None = None if query.cursor is UNSET else place_of(query.cursor, tuple[int, str])
        wanted = DeliveryFilter(
            query.workflow_id or None, query.job_id or None, query.outcome or None, before, query.limit + 1
        )
        found = await self._store.deliveries(wanted)
        page, after = cut(found, query.limit, lambda row: (row.sent_at, row.delivery_id))
        return answer(Page([delivery_shape(row) for row in page], after))

    async def show(self, request: Request) -> Response:
        """One attempt to deliver."""
        no_query(request)
        return answer(delivery_shape(await self._store.delivery(text_of_path(request, "delivery_id", DELIVERY_ID))))

    async def redeliver(self, request: Request) -> Response:
        """Make a delivery once more."""
        no_query(request)
        delivery_id = (await self._store.delivery(text_of_path(request, "delivery_id", DELIVERY_ID))).delivery_id
        job_id = await self._state.control.runs.redeliver(delivery_id)
        return answer(Redelivered(delivery_id, job_id), 201, {"location": f"/api/v1/jobs/{job_id}"})


def router(state: ApiState) -> APIRouter:
    """`/deliveries` and what is below it."""
    routes = APIRouter()
    calls = Deliveries(state)
    one = "/deliveries/{delivery_id}"
    declare(routes, "GET", "/deliveries", calls.list, Operation(
        policy=Policy.READ, tag=TAG, summary="List attempts to deliver webhooks, newest first",
        query=ListQuery, answers={200: Page[Delivery]}, refusals=(422,),
    ))  # fmt: skip
    declare(routes, "GET", one, calls.show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show an attempt to deliver a webhook",
        answers={200: Delivery}, refusals=(404, 422), answer_example=_DELIVERY,
    ))  # fmt: skip
    declare(routes, "POST", one + "/redeliver", calls.redeliver, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Deliver once more, under the same webhook-id, by a job of its own",
        answers={201: Redelivered}, refusals=(404, 409, 422, 503),
    ))  # fmt: skip
    return routes
