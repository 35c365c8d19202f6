"""The description of the API (OpenAPI 3.1), made of what the routes declare and of the shapes on the wire."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from starlette.routing import BaseRoute, Route

from windlass.api.operations import EVENT_STREAM, JSON, Endpoint, Operation
from windlass.api.problems import MEDIA_TYPE, made
from windlass.api.requests import DELIVERY_ID, ID_PATTERN, RUN_ID
from windlass.wire import ProblemDetails, ProblemItem

REF_TEMPLATE = "#/components/schemas/{name}"
INTRODUCTION = (
    "Workflows, jobs and workers. Lists are `{items, next_cursor}`; give `next_cursor` back as `cursor` (`after` for "
    "events and logs). Refusals are application/problem+json and name everything that is wrong. "
    "`x-policy` says what a caller must be allowed to do."
)
# What a refusal by status means; any route may also give those of the manners that all share.
REFUSALS = {
    400: ("bad-request", "The request cannot be read"),
    401: ("unsigned", "The webhook is not signed as it should be"),
    403: ("forbidden-origin", "A page of another site sent it"),
    404: ("not-found", "There is nothing by this name"),
    409: ("refused", "The state of things does not allow it"),
    413: ("too-large", "The body is too large"),
    415: ("unsupported-media-type", "The content type is not supported"),
    421: ("forbidden-host", "The host is not served here"),
    422: ("invalid", "Something in the request is wrong; `errors` lists it"),
    503: ("unavailable", "The server cannot do it now; `Retry-After` says when to ask again"),
}
ANSWERS = {200: "Done", 201: "Made", 204: "Done; there is nothing to tell", 503: "Not now"}
_PATTERNS = {"run_id": RUN_ID, "delivery_id": DELIVERY_ID}
_PARAMETER = re.compile(r"\{(\w+)\}")


def describe(routes: Iterable[BaseRoute], version: str) -> dict[str, Any]:
    """The whole document."""
    declared = [(route, route.endpoint) for route in routes if isinstance(route, Route)]
    found = [(route, endpoint) for route, endpoint in declared if isinstance(endpoint, Endpoint)]
    kinds = list(_kinds(endpoint.operation for _, endpoint in found))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF_TEMPLATE)
    by_kind = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route, endpoint in found:
        method = next(name for name in sorted(route.methods or ()) if name != "HEAD").lower()
        paths.setdefault(endpoint.path, {})[method] = _operation(method, endpoint, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Windlass", "version": version, "description": INTRODUCTION},
        "paths": paths,
        "components": {"schemas": components, "responses": _refusals(by_kind[repr(ProblemDetails)])},
    }


def _kinds(operations: Iterable[Operation]) -> Iterator[Any]:
    """Every shape once."""
    seen: dict[str, Any] = {repr(ProblemDetails): ProblemDetails}
    for operation in operations:
        for kind in (operation.body, *operation.answers.values()):
            if kind is not None:
                seen.setdefault(repr(kind), kind)
    yield from seen.values()


def _operation(method: str, endpoint: Endpoint, schemas: Mapping[str, Any]) -> dict[str, Any]:
    operation = endpoint.operation
    name = re.sub(r"\W+", "_", f"{method} {endpoint.path.removeprefix('/api/v1')}").strip("_")
    described: dict[str, Any] = {
        "operationId": name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "x-policy": str(operation.policy),
        "parameters": list(_parameters(endpoint)),
        "responses": dict(_responses(operation, schemas)),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.body_required,
            "content": {kind: _content(schemas[repr(operation.body)], operation.example)
                        for kind in operation.body_types},
        }  # fmt: skip
    return described


def _content(schema: Any, example: Any) -> dict[str, Any]:
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(endpoint.path):
        schema = {"type": "string", "pattern": ID_PATTERN, "maxLength": 128}
        if name in _PATTERNS:
            schema = {"type": "string", "pattern": _PATTERNS[name]}
        if name == "version":
            schema = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for place, kind in (("query", endpoint.operation.query), ("header", endpoint.operation.headers)):
        if kind is not None:
            yield from _fields(place, kind)


def _fields(place: str, kind: type[Struct]) -> Iterator[dict[str, Any]]:
    """A parameter for each field of a Struct."""
    known = msgspec.json.schema_components([kind], ref_template="{name}")[1]
    schema = known[kind.__name__]
    required: list[str] = schema.get("required", [])
    for name, field in schema["properties"].items():
        # An enumeration comes as a reference; only shapes of bodies are components.
        yield {"name": name, "in": place, "required": name in required, "schema": known.get(field.get("$ref"), field)}


def _responses(operation: Operation, schemas: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for status, kind in operation.answers.items():
        described: dict[str, Any] = {"description": ANSWERS[status]}
        if operation.answer_type == EVENT_STREAM and status == 200:
            described["description"] = "Server-sent events: `id` is its number, `event` its type, `data` its JSON"
            described["content"] = {EVENT_STREAM: {"schema": _message(schemas[repr(kind)])}}
        elif kind is not None:
            described["content"] = {
                operation.answer_type: _content(schemas[repr(kind)], operation.answer_example)
            }  # fmt: skip
        yield str(status), described
    shared = (400, 403, 413, 415, 421) if operation.body is not None else (421,)
    for status in sorted({*operation.refusals, *shared} - operation.answers.keys()):
        yield str(status), {"$ref": f"#/components/responses/Refused{status}"}
    yield "default", {"$ref": "#/components/responses/Refused"}


def _message(schema: Any) -> dict[str, Any]:
    """A server-sent event, as its reader takes it apart."""
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
    fields = {"id": {"type": "string"}, "event": {"type": "string"}, "data": data}
    return {"type": "object", "properties": fields, "required": ["data"]}


def _refusals(schema: Any) -> dict[str, Any]:
    """How each status is refused, and any other."""
    other = {"description": "Any other refusal", "content": {MEDIA_TYPE: _content(schema, None)}}
    described: dict[str, Any] = {"Refused": other}
    for status, (kind, meaning) in REFUSALS.items():
        errors = [ProblemItem("input_data.count", "'three' is not of type 'integer'")] if status == 422 else []
        example = msgspec.to_builtins(made(status, kind, meaning.lower(), errors, "4f6c1d2e90ab37c5"))
        described[f"Refused{status}"] = {"description": meaning, "content": {MEDIA_TYPE: _content(schema, example)}}
    return described
