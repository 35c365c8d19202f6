"""Operations: what a route declares about itself, and the endpoint that calls its handler."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api.policy import Policy
from windlass.api.problems import problem_details, problem_response

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
YAML = ("application/yaml", "application/x-yaml", "text/yaml")

# Handlers return responses or, for streams, any other ASGI application.
Handler = Callable[[Request], Awaitable[ASGIApp]]

_encoder = msgspec.json.Encoder()


class Operation(Struct, frozen=True, kw_only=True):
    """The policy, types and examples of a route; the OpenAPI document is generated from them."""

    policy: Policy
    tag: str
    summary: str
    # The type of the response by status; None for a response without a body.
    responses: Mapping[int, Any]
    body: Any = None
    body_types: Sequence[str] = (JSON,)
    body_required: bool = True
    # Structs whose fields are the parameters (see `requests.read_query`).
    query: type[Struct] | None = None
    headers: type[Struct] | None = None
    # Statuses of errors besides those that every route may answer.
    errors: Sequence[int] = ()
    request_example: Any = None
    response_example: Any = None
    response_type: str = JSON


class Endpoint:
    """An ASGI application that calls a handler and turns its errors into problem responses."""

    def __init__(self, path: str, handler: Handler, operation: Operation) -> None:
        self.path = path
        self.handler = handler
        self.operation = operation

    @property
    def policy(self) -> Policy:
        """The permission that a caller needs."""
        return self.operation.policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self.handler(Request(scope, receive, send))
        except Exception as error:
            response = problem_response(problem_details(error, request_id_of(scope)))
        await response(scope, receive, send)


def route(method: str, path: str, handler: Handler, operation: Operation) -> Route:
    """Return the route of an operation."""
    return Route(
        path, Endpoint(path, handler, operation), methods=[method], name=f"{method} {path}"
    )


def request_id_of(scope: Scope) -> str | None:
    """Return the id under which the request is logged."""
    return scope.get("state", {}).get("request_id")


def json_response(
    view: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a view as a JSON response."""
    return Response(_encoder.encode(view), status, headers, JSON)
