"""The HTTP application: the routes of all resources behind one request guard, and the web UI on all other paths."""

from collections.abc import Sequence

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from windlass.api.middleware import RequestGuard
from windlass.api.openapi import openapi_document
from windlass.api.operations import JSON, Operation, request_id_of, route
from windlass.api.policy import Policy, require_policies
from windlass.api.problems import build_problem, problem_response
from windlass.api.requests import reject_query
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
    streams,
    submits,
    tasks,
    workers,
    workflows,
)
from windlass.api.state import ApiState
from windlass.api.ui import read_ui

OPENAPI_PATH = "/api/v1/openapi.json"
# Bodies of these paths are workflow documents, which may be larger than other bodies.
DOCUMENT_PATHS = frozenset({"/api/v1/workflows", "/api/v1/workflows/validate"})
# Routes are matched in this order; the paths of submits and workers are called most.
RESOURCES = (
    submits, tasks, jobs, nodes, events, streams, logs, workflows, statistics, workers, schedules, runs, deliveries,
    hooks, health, metrics,
)  # fmt: skip


def create_app(state: ApiState) -> Starlette:
    """Return the application of a running system; PolicyMissing if a route declares no policy."""
    routes: list[BaseRoute] = []
    for resource in RESOURCES:
        routes.extend(resource.routes(state))
    routes.append(_openapi_route(routes, state.version))
    require_policies(routes)
    ui = read_ui(state.ui_folder)

    async def not_found(request: Request, _: Exception) -> Response:
        response = ui.response(request)
        if response is not None:
            return response
        detail = f"no such path: {request.scope['path']!r}; {OPENAPI_PATH} lists all paths"
        return problem_response(
            build_problem(404, "not-found", detail, request_id=request_id_of(request.scope))
        )

    async def method_not_allowed(request: Request, _: Exception) -> Response:
        allowed = ", ".join(sorted(_methods_of(routes, request)))
        detail = f"method not allowed: {request.method}; use {allowed}"
        problem = build_problem(
            405, "method-not-allowed", detail, request_id=request_id_of(request.scope)
        )
        response = problem_response(problem)
        response.headers["allow"] = allowed
        return response

    app = Starlette(
        routes=routes,
        middleware=[Middleware(RequestGuard, state=state, document_paths=DOCUMENT_PATHS)],
        exception_handlers={404: not_found, 405: method_not_allowed},
    )
    app.router.redirect_slashes = False
    return app


def _openapi_route(described: Sequence[BaseRoute], version: str) -> Route:
    """Return the route of the OpenAPI document, which also describes itself."""
    documents: list[bytes] = []

    async def show(request: Request) -> Response:
        reject_query(request)
        return Response(documents[0], media_type=JSON)

    operation = Operation(
        policy=Policy.PUBLIC,
        tag="health",
        summary="Show the OpenAPI document",
        responses={200: dict},
        errors=(422,),
    )
    own_route = route("GET", OPENAPI_PATH, show, operation)
    documents.append(msgspec.json.encode(openapi_document([*described, own_route], version)))
    return own_route


def _methods_of(routes: Sequence[BaseRoute], request: Request) -> set[str]:
    """Return the methods of the path template that a request matches first."""
    candidates = [candidate for candidate in routes if isinstance(candidate, Route)]
    matched = next(
        candidate
        for candidate in candidates
        if candidate.matches(request.scope)[0] is not Match.NONE
    )
    methods: set[str] = set()
    for candidate in candidates:
        if candidate.path == matched.path:
            methods.update(candidate.methods or ())
    return methods
