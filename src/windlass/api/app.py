"""The HTTP application: every route under its policy, behind the manners that all of them share."""

from collections.abc import Sequence

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api import stream
from windlass.api.middleware import RequestGuard
from windlass.api.openapi import describe
from windlass.api.operations import JSON, Operation, below, declare, request_id_of
from windlass.api.policy import Policy, require_policies
from windlass.api.problems import made, problem_response
from windlass.api.requests import no_query
from windlass.api.routes import (
    deliveries,
    events,
    health,
    hooks,
    jobs,
    logs,
    metrics,
    nodes,
    runs,
    schedules,
    statistics,
    submits,
    tasks,
    workers,
    workflows,
)
from windlass.api.state import ApiState
from windlass.api.ui import Ui, read_ui

PREFIX = "/api/v1"
DOCUMENTS = frozenset({PREFIX + "/workflows", PREFIX + "/workflows/validate"})
RESOURCES = (
    submits, tasks, jobs, nodes, events, stream, logs, workflows, statistics, workers, schedules, runs, deliveries,
    hooks,
)  # fmt: skip


def create_app(state: ApiState) -> FastAPI:
    """The application on a running system; PolicyMissing when a route declares no policy."""
    app = FastAPI(
        title="Windlass",
        version=state.version,
        # The description is our own route; the pages that show it load scripts from elsewhere.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    routes = app.router.routes
    routes.extend(health.router(state).routes)
    routes.extend(metrics.router(state).routes)
    for resource in RESOURCES:
        routes.extend(below(PREFIX, resource.router(state)))
    routes.extend(below(PREFIX, _description(routes, state.version)))
    require_policies(routes)
    described = describe(routes, state.version)
    app.openapi = lambda: described
    # In place of the framework's own layers: endpoints turn their errors into answers themselves, and each layer that
    # a request only passes through costs it as much as finding its route.
    app.middleware_stack = RequestGuard(Routed(app.router, read_ui(state.ui_folder)), state, DOCUMENTS)
    return app


class Routed:
    """Brings a request to its endpoint. Paths without parameters are found at once, the others in the router's list.
    What the API does not know, the web UI may."""

    def __init__(self, router: APIRouter, ui: Ui) -> None:
        self._router = router
        self._ui = ui
        self._fixed: dict[tuple[str, str], ASGIApp] = {
            (method, path): document for path, document in ui.files.items() for method in ("GET", "HEAD")
        }
        for route in router.routes:
            if isinstance(route, Route) and "{" not in route.path:
                self._fixed.update(((method, route.path), route.endpoint) for method in route.methods or ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._fixed.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is not None:
            scope["endpoint"] = endpoint
            scope["path_params"] = {}
            await endpoint(scope, receive, send)
            return
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            page = self._ui.page_for(scope) if error.status_code == 404 else None
            response = page or _unrouted(self._router.routes, scope, error)
            await response(scope, receive, send)


def _description(routes: Sequence[BaseRoute], version: str) -> APIRouter:
    """`/openapi.json`, of all routes there are."""
    router = APIRouter()

    async def show(request: Request) -> Response:
        no_query(request)
        return Response(msgspec.json.encode(describe(routes, version)), media_type=JSON)

    declare(router, "GET", "/openapi.json", show, Operation(
        policy=Policy.PUBLIC, tag="health", summary="This description", answers={200: dict}, refusals=(422,),
    ))  # fmt: skip
    return router


def _unrouted(routes: Sequence[BaseRoute], scope: Scope, error: HTTPException) -> Response:
    """What no route takes: an unknown path, or a method that its path has not."""
    request_id = request_id_of(scope)
    if error.status_code != 405:
        detail = f"there is no such route; {PREFIX}/openapi.json lists them"
        return problem_response(made(404, "not-found", detail, (), request_id))
    found = [route for route in routes if isinstance(route, Route)]
    path = next(route.path for route in found if route.matches(scope)[0] is Match.PARTIAL)
    taken = ", ".join(sorted({method for route in found if route.path == path for method in route.methods or ()}))
    response = problem_response(made(405, "method-not-allowed", f"the path takes {taken}", (), request_id))
    response.headers["allow"] = taken
    return response
