"""Reads requests: bodies, ids and parameters, strictly and within bounds."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from windlass.api.operations import JSON
from windlass.api.problems import Refusal, invalid
from windlass.core.templates.json_values import nearest

T = TypeVar("T")

ID_PATTERN = "^[A-Za-z0-9_-]{1,128}$"
# Of a run: its workflow and its slot, or its job.
RUN_ID = "^[A-Za-z0-9_-]{1,128}:[A-Za-z0-9_.:-]{1,140}$"
# Of a delivery: its task.
DELIVERY_ID = r"^[A-Za-z0-9_\[\]-]{1,300}$"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_SHOWN_MAX = 80
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Later than this, an instant with an offset may have no date.
YEAR_MAX = 9998
# Unread as text, and enough of it for a number of events or a cursor.
VALUE_CHARS_MAX = 512

Id = Annotated[str, Meta(pattern=ID_PATTERN, max_length=128)]
Flag = Literal["true", "false"]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Cursor = Annotated[str, Meta(min_length=1, max_length=VALUE_CHARS_MAX)]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Duration = Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m)?$", max_length=20)]


def shown(value: str) -> str:
    """A value of the caller's, short and without anything that moves a cursor."""
    return repr(value if len(value) <= _SHOWN_MAX else value[:_SHOWN_MAX] + "…")


def id_of(request: Request, name: str) -> str:
    """An id of the path; Refusal for one that no object can have."""
    value: str = request.path_params[name]
    if _ID.fullmatch(value) is None:
        raise invalid(name, f"{shown(value)} is no id", "ids have 1 to 128 letters, digits, _ and -")
    return value


def text_of_path(request: Request, name: str, pattern: str) -> str:
    """An id of the path that has a form of its own; Refusal for one that no object can have."""
    value: str = request.path_params[name]
    # `$` of a pattern lets a line end pass.
    if re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value) is None:
        raise invalid(name, f"{shown(value)} is no {name}", "take it from a list as it is")
    return value


def number_of(request: Request, name: str) -> int:
    """A number of the path, counted from 1; Refusal for anything else."""
    value: str = request.path_params[name]
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0):
        raise invalid(name, f"{shown(value)} is no number of a version", "versions are numbered from 1")
    return int(value)


def query_of(request: Request, kind: type[T]) -> T:
    """The query parameters; Refusal for one that is unknown, doubled or does not fit."""
    given: dict[str, str] = {}
    known = msgspec.structs.fields(cast("type[Struct]", kind))
    names = [field.encode_name for field in known]
    for name, value in request.query_params.multi_items():
        if name not in names:
            raise _unknown(name, names)
        if name in given:
            raise invalid(name, "the parameter is given twice", "give it once")
        given[name] = value
    return _converted(given, kind)


def no_query(request: Request) -> None:
    """Refuse every query parameter, for routes that know none."""
    if request.scope["query_string"]:
        for name in request.query_params:
            raise _unknown(name, [])


def _unknown(name: str, names: list[str]) -> Refusal:
    like = nearest(name, names)
    hint = f"did you mean '{like}'?" if like else f"known are: {', '.join(names)}" if names else "leave it out"
    return invalid(name[:_SHOWN_MAX], f"there is no parameter {shown(name)}", hint)


def _converted(given: dict[str, str], kind: type[T]) -> T:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`")
        value = f"{shown(given[name])} cannot be used: " if name in given else ""
        raise invalid(name, f"{value}{message.lower()}") from None


async def body_of(request: Request, decoder: "msgspec.json.Decoder[T]", missing: T | None = None) -> T:
    """The body as JSON; Refusal for another content type (415), for what is not JSON (400), for another shape (422)."""
    body = await read_body(request)
    kind = media_type(request)
    if body and kind != JSON:
        raise Refusal(415, "unsupported-media-type", f"the content type {shown(kind)} is not taken here; send {JSON}")
    return missing if not body and missing is not None else decoded(body, decoder)


async def read_body(request: Request) -> bytes:
    """The whole body, once. Its bound is kept where it comes from."""
    message = await request.receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return message.get("body", b"")
    chunks: list[bytes] = []
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await request.receive()
    raise Refusal(400, "bad-request", "the connection ended before the body did")


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A body that was read already, as `body_of`."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        raise invalid(place.rstrip("`").removeprefix("$").removeprefix("."), message) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, "bad-request", f"the body is not JSON: {error}") from None
    except RecursionError:
        raise invalid("", "the body is nested too deeply", "flatten it") from None


def instant_of(text: str, name: str) -> int:
    """Microseconds since the epoch of an ISO instant; 0 for one before it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or found.year > YEAR_MAX:
        hint = "write an ISO 8601 instant with its offset, as 2030-01-31T08:00:00Z"
        raise invalid(name, f"{shown(text)} is no instant", hint)
    return max(0, (found - _EPOCH) // _MICROSECOND)


def seconds_of(value: str, name: str, seconds_max: float) -> float:
    """A wait, as `30s`, `500ms` or a number of seconds, no longer than the bound."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise invalid(name, f"{shown(value)} is no duration", "write 500ms, 30s or 1m")
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if seconds > seconds_max:
        raise invalid(name, f"{value} is too long", f"wait for {seconds_max:.0f}s at most, and ask again")
    return seconds


def media_type(request: Request) -> str:
    """The content type without its parameters, in small letters."""
    return (header_of(request, b"content-type") or "").partition(";")[0].strip().lower()


def header_of(request: Request, name: bytes) -> str | None:
    """A header by its name in small letters, the first of them; the framework would make a mapping of all."""
    for given, value in request.scope["headers"]:
        if given == name:
            return value.decode("latin-1")
    return None
