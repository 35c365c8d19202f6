"""The OpenAPI 3.1 document, generated from the operations of the routes and the types of the API."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct
from starlette.routing import BaseRoute, Route

from windlass.api.operations import EVENT_STREAM, JSON, Endpoint, Operation
from windlass.api.problems import MEDIA_TYPE, build_problem
from windlass.api.requests import DELIVERY_ID, RUN_ID, WORKER_ID
from windlass.core.fields import ID_PATTERN
from windlass.wire import ProblemDetails, ProblemItem

REF_TEMPLATE = "#/components/schemas/{name}"
INTRODUCTION = (
    "Workflows, jobs and workers. Lists are `{items, next_cursor}`; pass `next_cursor` as `cursor` (`after` for events "
    "and logs) to read the next page. Errors are application/problem+json and list all problems of a request. "
    "`x-policy` is the permission that a caller needs."
)
# The kind and the description of errors by status.
PROBLEMS = {
    400: ("bad-request", "Malformed request"),
    401: ("unsigned", "Invalid webhook signature"),
    403: ("forbidden-origin", "Cross-site request"),
    404: ("not-found", "Not found"),
    409: ("refused", "Not allowed in the current state"),
    413: ("too-large", "Body too large"),
    415: ("unsupported-media-type", "Unsupported content type"),
    421: ("forbidden-host", "Unknown host"),
    422: ("invalid", "Invalid request; `errors` lists the problems"),
    503: ("unavailable", "Temporarily unavailable; retry after `Retry-After` seconds"),
}
# Statuses that every route may answer; those with a body also check it.
SHARED_STATUSES = frozenset({421})
BODY_STATUSES = frozenset({400, 403, 413, 415, 421})
DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted", 204: "No content", 503: "Unavailable"}
_PATH_SCHEMAS = {
    "run_id": {"type": "string", "pattern": RUN_ID},
    "delivery_id": {"type": "string", "pattern": DELIVERY_ID},
    "worker_id": {"type": "string", "pattern": WORKER_ID},
    "version": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
}
_ID_SCHEMA = {"type": "string", "pattern": ID_PATTERN, "maxLength": 128}
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")

Json = dict[str, Any]
# JSON schemas by the `repr` of their types, because generic types cannot be compared.
Schemas = Mapping[str, Any]


def openapi_document(routes: Iterable[BaseRoute], version: str) -> Json:
    """Return the OpenAPI document of routes."""
    endpoints: list[tuple[str, Endpoint]] = []
    for route in routes:
        if isinstance(route, Route) and isinstance(route.endpoint, Endpoint):
            (method,) = (route.methods or set()) - {"HEAD"}
            endpoints.append((method.lower(), route.endpoint))
    types = _types(endpoint.operation for _, endpoint in endpoints)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    by_type = {repr(one): schema for one, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Json] = {}
    for method, endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[method] = _operation(method, endpoint, by_type)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Windlass", "version": version, "description": INTRODUCTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": _problem_responses(by_type[repr(ProblemDetails)]),
        },
    }
    return _with_portable_patterns(document)


def _with_portable_patterns(value: Any) -> Any:
    r"""End patterns with `$`, which JSON Schema matches only at the end of the text; it has no `\Z`."""
    if isinstance(value, list):
        return [_with_portable_patterns(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = {name: _with_portable_patterns(item) for name, item in cast("Json", value).items()}
    if isinstance(found.get("pattern"), str):
        found["pattern"] = found["pattern"].replace(r"\Z", "$")
    return found


def _types(operations: Iterable[Operation]) -> list[Any]:
    """Return every type of a request or response once."""
    types: dict[str, Any] = {repr(ProblemDetails): ProblemDetails}
    for operation in operations:
        for one in (operation.body, *operation.responses.values()):
            if one is not None:
                types.setdefault(repr(one), one)
    return list(types.values())


def _operation(method: str, endpoint: Endpoint, schemas: Schemas) -> Json:
    operation = endpoint.operation
    path = endpoint.path.removeprefix("/api/v1")
    described: Json = {
        "operationId": re.sub(r"\W+", "_", f"{method} {path}").strip("_"),
        "summary": operation.summary,
        "tags": [operation.tag],
        "x-policy": str(operation.policy),
        "parameters": list(_parameters(endpoint)),
        "responses": dict(_responses(operation, schemas)),
    }
    if operation.body is not None:
        content = _content(schemas[repr(operation.body)], operation.request_example)
        described["requestBody"] = {
            "required": operation.body_required,
            "content": dict.fromkeys(operation.body_types, content),
        }
    return described


def _content(schema: Any, example: Any) -> Json:
    if example is None:
        return {"schema": schema}
    return {"schema": schema, "example": example}


def _parameters(endpoint: Endpoint) -> Iterator[Json]:
    for name in _PATH_PARAMETER.findall(endpoint.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_SCHEMAS.get(name, _ID_SCHEMA),
        }
    if endpoint.operation.query is not None:
        yield from _fields("query", endpoint.operation.query)
    if endpoint.operation.headers is not None:
        yield from _fields("header", endpoint.operation.headers)


def _fields(place: str, struct: type[Struct]) -> Iterator[Json]:
    """Describe each field of a struct as a parameter."""
    components = msgspec.json.schema_components([struct], ref_template="{name}")[1]
    schema = components[struct.__name__]
    required: list[str] = schema.get("required", [])
    for name, field in schema["properties"].items():
        schema_of_text = _without_null(field)
        # An enumeration is a reference to a component; parameters contain their schema instead.
        inlined = components.get(schema_of_text.get("$ref", ""), schema_of_text)
        yield {"name": name, "in": place, "required": name in required, "schema": inlined}


def _without_null(field: Json) -> Json:
    """Return the schema of a parameter that is sent; one that is not sent has the default None."""
    options = [option for option in field.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        return options[0]
    return field


def _responses(operation: Operation, schemas: Schemas) -> Iterator[tuple[str, Json]]:
    for status, view in operation.responses.items():
        yield (
            str(status),
            _response(operation, status, None if view is None else schemas[repr(view)]),
        )
    statuses = {*operation.errors, *(SHARED_STATUSES if operation.body is None else BODY_STATUSES)}
    for status in sorted(statuses - operation.responses.keys()):
        yield str(status), {"$ref": f"#/components/responses/Problem{status}"}
    yield "default", {"$ref": "#/components/responses/Problem"}


def _response(operation: Operation, status: int, schema: Any) -> Json:
    if schema is None:
        return {"description": DESCRIPTIONS[status]}
    if operation.response_type == EVENT_STREAM:
        return {
            "description": "Server-sent events: `id` is the number, `event` the type, `data` the JSON",
            "content": {EVENT_STREAM: {"schema": _event_schema(schema)}},
        }
    content = _content(schema, operation.response_example)
    return {"description": DESCRIPTIONS[status], "content": {operation.response_type: content}}


def _event_schema(schema: Any) -> Json:
    """Return the schema of one server-sent event."""
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
    fields = {"id": {"type": "string"}, "event": {"type": "string"}, "data": data}
    return {"type": "object", "properties": fields, "required": ["data"]}


def _problem_responses(schema: Any) -> Json:
    """Describe the problem response of each status, and of all others."""
    described: Json = {
        "Problem": {
            "description": "Any other error",
            "content": {MEDIA_TYPE: _content(schema, None)},
        }
    }
    for status, (kind, description) in PROBLEMS.items():
        items: list[ProblemItem] = []
        if status == 422:
            items.append(ProblemItem("input_data.count", "'three' is not of type 'integer'"))
        problem = build_problem(
            status, kind, description.lower(), items, request_id="4f6c1d2e90ab37c5"
        )
        content = _content(schema, msgspec.to_builtins(problem))
        described[f"Problem{status}"] = {
            "description": description,
            "content": {MEDIA_TYPE: content},
        }
    return described
