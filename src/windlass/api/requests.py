"""Strict parsing of requests: paths, query parameters, headers and bodies."""

import re
from typing import Annotated, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from windlass.api.operations import JSON
from windlass.api.problems import HttpProblem, invalid
from windlass.core.durations import DURATION_RULE, format_duration, parse_duration
from windlass.core.fields import ID_PATTERN, ID_RULE, whole
from windlass.core.templates.json_values import nearest, shown
from windlass.core.type_errors import problem_of

T = TypeVar("T")

# A run id is the workflow and the slot, or the workflow and the job.
RUN_ID = whole("[A-Za-z0-9_-]{1,128}:[A-Za-z0-9_.:-]{1,140}")
# A delivery id is a task id.
DELIVERY_ID = whole(r"[A-Za-z0-9_\[\]-]{1,300}")
# Also the ids of Windlass processes, which contain the name of their host.
WORKER_ID = whole(r"[A-Za-z0-9_.@:-]{1,300}")
_ID = re.compile(ID_PATTERN)
_QUOTED_MAX = 80
CURSOR_CHARS_MAX = 512
VERSION_DIGITS_MAX = 9

Flag = Literal["true", "false"]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Cursor = Annotated[str, Meta(min_length=1, max_length=CURSOR_CHARS_MAX)]
Number = Annotated[int, Meta(ge=0, le=2**53)]


def quoted(value: str) -> str:
    """Return a value of the caller for an error message: shortened, with control characters escaped."""
    if len(value) > _QUOTED_MAX:
        value = value[:_QUOTED_MAX] + "…"
    return repr(value)


def path_id(request: Request, name: str) -> str:
    """Return an id in the path; HttpProblem if it is invalid."""
    value: str = request.path_params[name]
    if _ID.match(value) is None:
        raise invalid(name, f"invalid id: {quoted(value)}", ID_RULE)
    return value


def path_text(request: Request, name: str, pattern: str) -> str:
    """Return an id in the path that has a pattern of its own; HttpProblem if it is invalid."""
    value: str = request.path_params[name]
    if re.match(pattern, value) is None:
        raise invalid(name, f"invalid {name}: {quoted(value)}", "copy it from a list")
    return value


def path_version(request: Request, name: str) -> int:
    """Return a version number in the path; HttpProblem if it is invalid."""
    value: str = request.path_params[name]
    is_number = value.isascii() and value.isdigit() and len(value) <= VERSION_DIGITS_MAX
    if not is_number or int(value) < 1:
        raise invalid(name, f"invalid version: {quoted(value)}", "versions are numbered from 1")
    return int(value)


def read_query(request: Request, query_type: type[T]) -> T:
    """Return the query parameters; HttpProblem if one is unknown, repeated or invalid."""
    given: dict[str, str] = {}
    fields = msgspec.structs.fields(cast("type[Struct]", query_type))
    known = [field.encode_name for field in fields]
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise _unknown_parameter(name, known)
        if name in given:
            raise invalid(name, f"repeated parameter: {quoted(name)}", "send it once")
        given[name] = value
    try:
        query = msgspec.convert(given, query_type, strict=False)
    except msgspec.ValidationError as error:
        problem = problem_of(error, query_type)
        shown = quoted(given.get(problem.path, ""))
        raise invalid(
            problem.path, f"invalid value {shown}: {problem.message}", problem.hint
        ) from None
    for field in fields:
        # msgspec reads the text `null` as None where a field accepts it.
        if field.encode_name in given and getattr(query, field.name) is None:
            raise invalid(
                field.encode_name,
                f"invalid value {quoted(given[field.encode_name])}",
                "omit it for all",
            )
    return query


def reject_query(request: Request) -> None:
    """Refuse query parameters on routes that have none; HttpProblem."""
    if request.scope["query_string"]:
        for name in request.query_params:
            raise _unknown_parameter(name, [])


def _unknown_parameter(name: str, known: list[str]) -> HttpProblem:
    suggestion = nearest(name, known)
    if suggestion:
        hint = f"did you mean '{suggestion}'?"
    elif known:
        hint = f"known parameters: {', '.join(known)}"
    else:
        hint = "remove it"
    return invalid(name[:_QUOTED_MAX], f"unknown parameter: {quoted(name)}", hint)


async def read_json(
    request: Request, decoder: "msgspec.json.Decoder[T]", missing: T | None = None
) -> T:
    """Return the body as JSON, or `missing` if it is empty; HttpProblem 415, 400 (not JSON) or 422 (wrong type)."""
    body = await read_body(request)
    given = media_type(request)
    if body and given != JSON:
        raise HttpProblem(
            415, "unsupported-media-type", f"unsupported content type: {quoted(given)}; send {JSON}"
        )
    if not body and missing is not None:
        return missing
    return decode_json(body, decoder)


async def read_body(request: Request) -> bytes:
    """Read the whole body, once. The request guard limits its size."""
    message = await request.receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return message.get("body", b"")
    chunks: list[bytes] = []
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await request.receive()
    raise HttpProblem(400, "bad-request", "connection closed before the end of the body")


def decode_json(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Decode a body; HttpProblem as in `read_json`."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        problem = problem_of(error, decoder.type)
        raise invalid(problem.path, problem.message, problem.hint) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpProblem(400, "bad-request", f"the body is not JSON: {error}") from None
    except RecursionError:
        raise invalid("", "the body is nested too deeply", "flatten it") from None


def read_duration(value: float | str, name: str, seconds_max: float) -> float:
    """Return a duration in seconds; HttpProblem if it is invalid or too long."""
    seconds = parse_duration(value)
    if seconds is None or seconds < 0:
        raise invalid(name, f"invalid duration: {shown(value)}", DURATION_RULE)
    if seconds > seconds_max:
        raise invalid(
            name,
            f"duration too long: {shown(value)}",
            f"use at most {format_duration(seconds_max)}",
        )
    return seconds


def media_type(request: Request) -> str:
    """Return the content type in lower case, without parameters."""
    return (header(request, b"content-type") or "").partition(";")[0].strip().lower()


def header(request: Request, name: bytes) -> str | None:
    """Return the first header of a lower-case name. `Request.headers` would decode all of them first."""
    for given, value in request.scope["headers"]:
        if given == name:
            return value.decode("latin-1")
    return None
