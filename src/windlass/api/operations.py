"""Routes as they are declared: who may call them, what goes in and out, and how an error becomes an answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api.policy import Policy
from windlass.api.problems import problem_of, problem_response

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
YAML = ("application/yaml", "application/x-yaml", "text/yaml")

# Answers are responses or, for streams, anything else that speaks ASGI.
Call = Callable[[Request], Awaitable[ASGIApp]]

_encoder = msgspec.json.Encoder()


class Operation(Struct, frozen=True, kw_only=True):
    """What a route does, for whom, and in which shapes. The description of the API is made of these."""

    policy: Policy
    tag: str
    summary: str
    # The shape of the answer by status; None for one without a body.
    answers: Mapping[int, Any]
    # The shape of the body, its media types, and whether there must be one.
    body: Any = None
    body_types: Sequence[str] = (JSON,)
    body_required: bool = True
    # A Struct whose fields are the query parameters (`requests.query_of` reads them).
    query: type[Struct] | None = None
    headers: type[Struct] | None = None
    # Statuses of refusals, beside those that any route may give.
    refusals: Sequence[int] = ()
    # A body and an answer, shown in the description.
    example: Any = None
    answer_example: Any = None
    answer_type: str = JSON


class Endpoint:
    """A route's end: calls the function and turns errors into answers. An ASGI app, to spare what we do not use."""

    def __init__(self, path: str, call: Call, operation: Operation) -> None:
        self.path = path
        self.call = call
        self.operation = operation

    @property
    def policy(self) -> Policy:
        """Who may call it."""
        return self.operation.policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self.call(Request(scope, receive, send))
        except Exception as error:
            response = problem_response(problem_of(error, request_id_of(scope)))
        await response(scope, receive, send)


def declare(router: APIRouter, method: str, path: str, call: Call, operation: Operation) -> None:
    """Add a route. `path` is below `/api/v1`, unless the router is one of those at the root."""
    router.routes.append(Route(path, Endpoint(path, call, operation), methods=[method], name=f"{method} {path}"))


def below(prefix: str, router: APIRouter) -> list[BaseRoute]:
    """The routes of a router under a prefix, flat: a request is matched in one list."""
    found: list[BaseRoute] = []
    for route in router.routes:
        if isinstance(route, Route) and isinstance(route.endpoint, Endpoint):
            path = prefix + route.path
            endpoint = Endpoint(path, route.endpoint.call, route.endpoint.operation)
            found.append(Route(path, endpoint, methods=route.methods, name=route.name))
        else:
            found.append(route)
    return found


def request_id_of(scope: Scope) -> str | None:
    """The id under which the request is logged."""
    return scope.get("state", {}).get("request_id")


def answer(shape: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A shape of the API as JSON."""
    return Response(_encoder.encode(shape), status, headers, JSON)


class QuickAnswer:
    """As `answer`, for the route that is called most: the framework's response takes longer than the rest of it."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, shape: object, status: int, location: str) -> None:
        self._body = _encoder.encode(shape)
        self._status = status
        self._headers = [
            (b"content-length", b"%d" % len(self._body)),
            (b"content-type", b"application/json"),
            (b"location", location.encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})
