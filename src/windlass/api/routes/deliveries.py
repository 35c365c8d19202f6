"""Routes of webhook deliveries."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.requests import DELIVERY_ID, Cursor, Limit, path_text, read_query, reject_query
from windlass.api.state import ApiState
from windlass.core.fields import Id
from windlass.core.runs.rows import DeliveryRow
from windlass.ports.store.runs import DeliveryFilter, RunStore
from windlass.views.pagination import delivery_page
from windlass.views.runs import delivery_view
from windlass.wire import DeliveryView, Page, RedeliveryView

TAG = "deliveries"
PAGE = 50


class DeliveriesQuery(Struct, forbid_unknown_fields=True):
    """The filter and page of a list of deliveries."""

    workflow_id: Id | UnsetType = UNSET
    job_id: Id | UnsetType = UNSET
    outcome: Literal["delivered", "failed"] | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


class DeliveryRoutes:
    """Handlers of deliveries."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    @property
    def _store(self) -> RunStore:
        return self._state.store.runs

    async def list(self, request: Request) -> Response:
        """List deliveries, newest first."""
        query = read_query(request, DeliveriesQuery)
        wanted = DeliveryFilter(
            workflow_id=given(query.workflow_id),
            job_id=given(query.job_id),
            outcome=given(query.outcome),
            limit=query.limit,
        )
        return json_response(await delivery_page(self._store, wanted, given(query.cursor)))

    async def show(self, request: Request) -> Response:
        """Show a delivery."""
        reject_query(request)
        return json_response(delivery_view(await self._row(request)))

    async def redeliver(self, request: Request) -> Response:
        """Deliver a webhook again."""
        reject_query(request)
        delivery_id = (await self._row(request)).delivery_id
        job_id = await self._state.control.runs.redeliver(delivery_id)
        return json_response(
            RedeliveryView(delivery_id, job_id), 201, {"location": f"/api/v1/jobs/{job_id}"}
        )

    async def _row(self, request: Request) -> DeliveryRow:
        return await self._store.delivery(path_text(request, "delivery_id", DELIVERY_ID))


def routes(state: ApiState) -> list[Route]:
    """Return the routes of deliveries."""
    handlers = DeliveryRoutes(state)
    return [
        route("GET", "/api/v1/deliveries", handlers.list, Operation(
            policy=Policy.READ, tag=TAG, summary="List webhook deliveries, newest first",
            query=DeliveriesQuery, responses={200: Page[DeliveryView]}, errors=(422,),
        )),
        route("GET", "/api/v1/deliveries/{delivery_id}", handlers.show, Operation(
            policy=Policy.READ, tag=TAG, summary="Show a webhook delivery",
            responses={200: DeliveryView}, errors=(404, 422), response_example=_DELIVERY,
        )),
        route("POST", "/api/v1/deliveries/{delivery_id}/redeliver", handlers.redeliver, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Deliver a webhook again with the same webhook-id, in a new job",
            responses={201: RedeliveryView}, errors=(404, 409, 422, 503),
        )),
    ]  # fmt: skip


_DELIVERY = {
    "delivery_id": "1m7gjrzmd8447yh6bp63mp70_notify_1",
    "job_id": "1m7gjrzmd8447yh6bp63mp70",
    "workflow_id": "orders",
    "node_id": "notify",
    "attempt": 1,
    "url": "https://example.com/in",
    "outcome": "failed",
    "status": 503,
    "sent_at": "2026-05-01T00:30:12.600000Z",
    "duration_seconds": 0.21,
    "error": "POST https://example.com/in answered 503 Service Unavailable",
    "response": "",
}
