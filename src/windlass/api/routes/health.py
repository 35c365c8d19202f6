"""Probes and the health of the server."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.policy import Policy
from windlass.api.requests import reject_query
from windlass.api.routes.workers import worker_views
from windlass.api.state import ApiState
from windlass.api.write_probe import WriteProbe, unavailable
from windlass.core.errors import BrokerUnavailable, StoreUnavailable
from windlass.ports.store.leases import Ownership
from windlass.ports.store.workflows import WorkflowFilter
from windlass.views.health import EnginesView, engines_view
from windlass.wire import HealthView, WorkerView

TAG = "health"


class HealthRoutes:
    """Handlers of probes."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._probe = WriteProbe(state.store, state.broker, state.clock)

    async def live(self, request: Request) -> Response:
        """Answer that the process is running."""
        reject_query(request)
        return json_response(HealthView("ok", self._state.version))

    async def ready(self, request: Request) -> Response:
        """Answer whether this process can serve: whether what requests store and send is accepted."""
        reject_query(request)
        problems = [*self._process_problems(), *await self._probe.problems()]
        return json_response(self._view(problems), 503 if problems else 200)

    async def health(self, request: Request) -> Response:
        """Show the state of all processes of the deployment: shards, engines and workers."""
        reject_query(request)
        problems = [*self._process_problems(), *self._state.worker_problems()]
        engines = EnginesView([], [], [])
        workers: list[WorkerView] = []
        try:
            engines = self._engines(await self._read_database())
        except StoreUnavailable as error:
            problems.append(unavailable("database", error))
        try:
            workers = await worker_views(self._state)
        except BrokerUnavailable as error:
            problems.append(unavailable("broker", error))
        return json_response(self._view([*problems, *engines.problems], engines, workers))

    def _view(
        self,
        problems: list[str],
        engines: EnginesView | None = None,
        workers: list[WorkerView] | None = None,
    ) -> HealthView:
        return HealthView(
            status="degraded" if problems else "ok",
            version=self._state.version,
            shards=[] if engines is None else engines.shards,
            workers=workers or [],
            engines=[] if engines is None else engines.engines,
            problems=problems,
        )

    async def _read_database(self) -> Ownership:
        """Return the owners of the shards. StoreUnavailable."""
        await self._state.store.workflows.list(WorkflowFilter(limit=1))
        return await self._state.store.leases.ownership()

    def _engines(self, ownership: Ownership) -> EnginesView:
        control = self._state.control
        return engines_view(ownership, range(control.shard_count), is_shared=control.is_shared)

    def _process_problems(self) -> list[str]:
        """Return why this process cannot serve, its database aside."""
        problems: list[str] = []
        if self._state.closing.is_set():
            problems.append("the server is stopping")
        # A server beside engines needs no shard of its own.
        if not self._state.control.is_shared and not self._state.control.shards:
            problems.append("the engine of this process has lost its shard")
        return problems


def routes(state: ApiState) -> list[Route]:
    """Return the routes of probes."""
    handlers = HealthRoutes(state)
    return [
        route("GET", "/livez", handlers.live, Operation(
            policy=Policy.PUBLIC, tag=TAG, summary="Check that the process is running",
            responses={200: HealthView}, errors=(422,),
        )),
        route("GET", "/readyz", handlers.ready, Operation(
            policy=Policy.PUBLIC, tag=TAG, summary="Check that this process can store and send, and is not stopping",
            responses={200: HealthView, 503: HealthView}, errors=(422,),
        )),
        route("GET", "/health", handlers.health, Operation(
            policy=Policy.READ, tag=TAG, summary="Show the state of all shards, engines and workers",
            responses={200: HealthView}, errors=(422,),
        )),
    ]  # fmt: skip
