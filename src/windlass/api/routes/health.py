"""Probes and the health of the server."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.policy import Policy
from windlass.api.requests import reject_query
from windlass.api.routes.workers import worker_views
from windlass.api.state import ApiState
from windlass.core.errors import StoreUnavailable
from windlass.ports.store.leases import LeaseRow
from windlass.ports.store.workflows import WorkflowFilter
from windlass.wire import HealthView, ShardView, instant

TAG = "health"


class Readiness(Struct, frozen=True):
    """Whether the server can serve, and the shards it knows."""

    is_ready: bool
    shards: list[ShardView]


class HealthRoutes:
    """Handlers of probes."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def live(self, request: Request) -> Response:
        """Answer that the process is running."""
        reject_query(request)
        return json_response(HealthView("ok", self._state.version, [], []))

    async def ready(self, request: Request) -> Response:
        """Answer whether the server can serve."""
        reject_query(request)
        readiness = await self._readiness()
        if not readiness.is_ready:
            return json_response(HealthView("degraded", self._state.version, [], []), 503)
        return json_response(HealthView("ok", self._state.version, [], []))

    async def health(self, request: Request) -> Response:
        """Show the state of the server with its shards and workers."""
        reject_query(request)
        readiness = await self._readiness()
        status = "ok" if readiness.is_ready else "degraded"
        workers = await worker_views(self._state)
        return json_response(HealthView(status, self._state.version, readiness.shards, workers))

    async def _readiness(self) -> Readiness:
        control, store = self._state.control, self._state.store
        own = frozenset(control.shards)
        # A server beside engines needs no shard of its own: submits are durable before an engine sees them.
        has_shards = control.is_shared or bool(own)
        try:
            await store.workflows.list(WorkflowFilter(limit=1))
            leases = (await store.leases.ownership()).leases
        except StoreUnavailable:
            return Readiness(
                is_ready=False, shards=[ShardView(shard, None, 0) for shard in sorted(own)]
            )
        # A database that is not shared may still contain shards of an earlier process.
        shards = [_shard_view(row) for row in leases if control.is_shared or row.shard in own]
        return Readiness(has_shards and not self._state.closing.is_set(), shards)


def _shard_view(row: LeaseRow) -> ShardView:
    return ShardView(row.shard, row.owner, row.epoch, row.expired, instant(row.expires_at))


def routes(state: ApiState) -> list[Route]:
    """Return the routes of probes."""
    handlers = HealthRoutes(state)
    return [
        route("GET", "/livez", handlers.live, Operation(
            policy=Policy.PUBLIC, tag=TAG, summary="Check that the process is running",
            responses={200: HealthView}, errors=(422,),
        )),
        route("GET", "/readyz", handlers.ready, Operation(
            policy=Policy.PUBLIC, tag=TAG, summary="Check that the server owns its shards and reaches its database",
            responses={200: HealthView, 503: HealthView}, errors=(422,),
        )),
        route("GET", "/health", handlers.health, Operation(
            policy=Policy.READ, tag=TAG, summary="Show the state of the server with its shards and workers",
            responses={200: HealthView}, errors=(422,),
        )),
    ]  # fmt: skip
