"""The checks that every request passes before its route: size, host, origin, content type; headers and access log."""

import logging
import re
import time
from collections.abc import MutableMapping
from random import Random
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.operations import JSON, YAML, Endpoint
from windlass.api.problems import HttpProblem, problem_details, problem_response
from windlass.api.state import ApiState

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PATH_LOGGED_MAX = 200
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
# Security headers that pages of the web UI set themselves.
_OVERRIDABLE = frozenset({b"content-security-policy", b"cache-control"})
_CHECKED = frozenset(
    {
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"x-request-id",
    }
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_MEDIA_TYPES = frozenset({JSON.encode(), *(name.encode() for name in YAML)})

access = logging.getLogger("windlass.access")

Headers = dict[bytes, bytes]


class RequestGuard:
    """Checks requests, adds security headers to responses and writes the access log."""

    def __init__(self, app: ASGIApp, state: ApiState, document_paths: frozenset[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in state.allowed_hosts)
        self._last_host: bytes | None = None
        self._body_bytes_max = state.body_bytes_max
        self._document_bytes_max = state.document_bytes_max
        self._document_paths = document_paths
        self._chance: Random = state.chance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0
        headers = _checked_headers(scope)
        request_id = self._request_id(headers)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, request_id)
            await send(message)

        bytes_max = self._body_bytes_max
        if scope["path"] in self._document_paths:
            bytes_max = self._document_bytes_max
        try:
            try:
                self._check(scope, headers, bytes_max)
            except HttpProblem as problem:
                response = problem_response(problem_details(problem, request_id))
                await response(scope, receive, send_with_headers)
            else:
                await self._app(scope, _limited(receive, bytes_max), send_with_headers)
        finally:
            if access.isEnabledFor(logging.INFO):
                _log(scope, status, time.perf_counter() - started, request_id)

    def _request_id(self, headers: Headers) -> str:
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._chance.getrandbits(64):016x}"

    def _check(self, scope: Scope, headers: Headers, bytes_max: int) -> None:
        """Check a request before its body is read; HttpProblem."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise HttpProblem(
                400, "bad-request", "content-length is not a number; send the size of the body"
            )
        if int(length) > bytes_max:
            raise body_too_large(bytes_max)
        host = headers.get(b"host", b"")
        if host != self._last_host:
            self._check_host(host)
        if scope["method"] not in SAFE_METHODS:
            _check_origin(headers, host)
            _check_media_type(headers, has_body=int(length) > 0 or b"transfer-encoding" in headers)

    def _check_host(self, given: bytes) -> None:
        host = given.decode("latin-1").lower()
        if _host_name(host) not in self._hosts and "*" not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            raise HttpProblem(
                421, "forbidden-host", f"unknown host: {host!r}; use one of {allowed}"
            )
        # Most requests name the same host as the one before.
        self._last_host = given


def body_too_large(bytes_max: int) -> HttpProblem:
    """Return the problem of a body over its limit."""
    return HttpProblem(413, "too-large", f"body larger than {bytes_max} bytes; send less")


def _checked_headers(scope: Scope) -> Headers:
    """Return the headers to check; values of a repeated header are joined, so that the checks refuse them."""
    found: Headers = {}
    for name, value in scope["headers"]:
        if name not in _CHECKED:
            continue
        if name in found:
            found[name] += b"," + value
        else:
            found[name] = value
    return found


def _host_name(host: str) -> str:
    """Return a host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _check_origin(headers: Headers, host: bytes) -> None:
    """Refuse requests that a browser sends for a page of another site; other programs send neither header."""
    origin = headers.get(b"origin")
    if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
        raise _forbidden_origin(origin)
    site = headers.get(b"sec-fetch-site", b"none")
    if site not in (b"none", b"same-origin"):
        raise _forbidden_origin(origin or site)


def _forbidden_origin(origin: bytes) -> HttpProblem:
    detail = (
        f"cross-site request from {origin.decode('latin-1')!r}; send it from a page of this server"
    )
    return HttpProblem(403, "forbidden-origin", detail)


def _check_media_type(headers: Headers, *, has_body: bool) -> None:
    given = headers.get(b"content-type", b"")
    if given in _MEDIA_TYPES or not has_body:
        return
    media_type = given.partition(b";")[0].strip().lower()
    if media_type not in _MEDIA_TYPES:
        detail = f"unsupported content type: {media_type.decode('latin-1')!r}; send {JSON}, or {YAML[0]} for a workflow"
        raise HttpProblem(415, "unsupported-media-type", detail)


def _limited(receive: Receive, bytes_max: int) -> Receive:
    """Return a body stream that raises beyond the limit, whatever length was declared."""
    received = 0

    async def receive_limited() -> MutableMapping[str, Any]:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > bytes_max:
                raise body_too_large(bytes_max)
        return message

    return receive_limited


def _add_headers(message: Message, request_id: str) -> None:
    """Add the request id and the security headers, except those that the response sets itself."""
    given = message.get("headers", ())
    added = SECURITY_HEADERS
    names = {name for name, _ in given}
    if not _OVERRIDABLE.isdisjoint(names):
        added = tuple(header for header in SECURITY_HEADERS if header[0] not in names)
    message["headers"] = [*given, *added, (b"x-request-id", request_id.encode())]


def _log(scope: Scope, status: int, seconds: float, request_id: str) -> None:
    """Write one JSON line with the route's path template, or with the escaped path if no route matched."""
    endpoint: object = scope.get("endpoint")
    line: dict[str, object] = {
        "method": _escaped(scope["method"]),
        "route": None,
        "status": status,
        "duration_ms": round(seconds * 1000, 3),
        "request_id": request_id,
    }
    if isinstance(endpoint, Endpoint):
        line["route"] = endpoint.path
    else:
        line["path"] = _escaped(scope["path"])
    access.info(msgspec.json.encode(line).decode())


def _escaped(text: str) -> str:
    return ascii(text[:PATH_LOGGED_MAX])[1:-1]
