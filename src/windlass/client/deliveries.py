"""Webhook deliveries of a server: `client.deliveries`."""

from collections.abc import AsyncIterator

from windlass import wire
from windlass.client.connection import ApiConnection, query, segment
from windlass.client.errors import ErrorTypes
from windlass.core.errors import DeliveryNotFound

_DELIVERY = ErrorTypes(not_found=DeliveryNotFound)


class Deliveries:
    """Reads and repeats attempts to deliver webhooks."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def page(
        self,
        *,
        workflow_id: str | None = None,
        job_id: str | None = None,
        outcome: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> wire.Page[wire.DeliveryView]:
        """Return one page of deliveries, newest first."""
        params = query(
            workflow_id=workflow_id, job_id=job_id, outcome=outcome, limit=limit, cursor=cursor
        )
        return await self._connection.call(
            "GET", "/deliveries", wire.Page[wire.DeliveryView], params=params
        )

    def list(
        self,
        *,
        workflow_id: str | None = None,
        job_id: str | None = None,
        outcome: str | None = None,
    ) -> AsyncIterator[wire.DeliveryView]:
        """Iterate over deliveries, newest first."""
        params = query(workflow_id=workflow_id, job_id=job_id, outcome=outcome)
        return self._connection.pages(wire.Page[wire.DeliveryView], "/deliveries", params)

    async def get(self, delivery_id: str) -> wire.DeliveryView:
        """Return a delivery; DeliveryNotFound."""
        return await self._connection.call("GET", _path(delivery_id), wire.DeliveryView, _DELIVERY)

    async def redeliver(self, delivery_id: str) -> wire.RedeliveryView:
        """Deliver a webhook again, in a new job; DeliveryNotFound."""
        path = f"{_path(delivery_id)}/redeliver"
        return await self._connection.call("POST", path, wire.RedeliveryView, _DELIVERY)


def _path(delivery_id: str) -> str:
    return f"/deliveries/{segment(delivery_id)}"
