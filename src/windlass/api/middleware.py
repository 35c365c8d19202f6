"""What every request goes through before its route: bounds, ids, hosts, origins, types, headers and the access log."""

import logging
import re
import time
from collections.abc import MutableMapping
from random import Random
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.operations import JSON, YAML, Endpoint
from windlass.api.problems import Refusal, problem_of, problem_response
from windlass.api.state import ApiState

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PATH_LOGGED_MAX = 200
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
_OWN = frozenset({b"content-security-policy", b"cache-control"})
_READ = frozenset(
    {b"host", b"origin", b"sec-fetch-site", b"content-type", b"content-length", b"transfer-encoding", b"x-request-id"}
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TYPES = frozenset({JSON.encode(), *(name.encode() for name in YAML)})

access = logging.getLogger("windlass.access")


class RequestGuard:
    """One ASGI layer for all of them: a layer for each would cost a request more than its route."""

    def __init__(self, app: ASGIApp, state: ApiState, documents: frozenset[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in state.allowed_hosts)
        self._served_host: bytes | None = None
        self._body_bytes_max = state.body_bytes_max
        self._document_bytes_max = state.document_bytes_max
        # Paths whose bodies may be as large as a document.
        self._documents = documents
        self._chance: Random = state.chance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0
        headers = _headers(scope)
        request_id = self._request_id(headers)
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, request_id)
            await send(message)

        try:
            bytes_max = self._document_bytes_max if scope["path"] in self._documents else self._body_bytes_max
            try:
                self._check(scope, headers, bytes_max)
            except Refusal as refusal:
                await problem_response(problem_of(refusal, request_id))(scope, receive, answer)
            else:
                await self._app(scope, _counted(receive, bytes_max), answer)
        finally:
            if access.isEnabledFor(logging.INFO):
                _log(scope, status, time.perf_counter() - began, request_id)

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._chance.getrandbits(64):016x}"

    def _check(self, scope: Scope, headers: dict[bytes, bytes], bytes_max: int) -> None:
        """Refuse what is not read any further. Nothing of the body has been read."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise Refusal(400, "bad-request", "the content length is not a number")
        if int(length) > bytes_max:
            raise too_large(bytes_max)
        host = headers.get(b"host", b"")
        if host != self._served_host:
            self._check_host(host)
        if scope["method"] not in SAFE_METHODS:
            if b"origin" in headers or b"sec-fetch-site" in headers:
                _check_origin(headers, host)
            if headers.get(b"content-type") in _TYPES:
                return
            if (length.strip(b"0") or b"transfer-encoding" in headers) and _type(headers) not in _TYPES:
                shown = _type(headers).decode("latin-1")
                raise Refusal(
                    415, "unsupported-media-type", f"the content type {shown!r} is not taken; send {JSON}, or {YAML[0]}"
                )

    def _check_host(self, given: bytes) -> None:
        host = given.decode("latin-1").lower()
        if _name(host) not in self._hosts and "*" not in self._hosts:
            served = ", ".join(sorted(self._hosts))
            raise Refusal(421, "forbidden-host", f"the host {host!r} is not served here, only: {served}")
        # Most requests name the same one as the request before.
        self._served_host = given


def too_large(bytes_max: int) -> Refusal:
    """A body over its bound."""
    return Refusal(413, "too-large", f"the body has more than {bytes_max} bytes, the most that is taken here")


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """The headers that decide; one that comes twice is refused by what it then holds."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _READ:
            found[name] = found[name] + b"," + value if name in found else value
    return found


def _name(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _type(headers: dict[bytes, bytes]) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _check_origin(headers: dict[bytes, bytes], host: bytes) -> None:
    """A browser tells where a request comes from. Programs that tell nothing are no other site's page."""
    site = headers.get(b"sec-fetch-site", b"none")
    origin = headers.get(b"origin")
    own = origin is None or origin.lower().partition(b"://")[2] == host.lower()
    if not own or site not in (b"none", b"same-origin"):
        shown = (origin or site).decode("latin-1")
        raise Refusal(403, "forbidden-origin", f"a page of {shown!r} may not change anything here")


def _counted(receive: Receive, bytes_max: int) -> Receive:
    """The body's stream, which refuses to go on past the bound, whatever length was promised."""
    read = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        if message["type"] == "http.request":
            read += len(message.get("body", b""))
            if read > bytes_max:
                raise too_large(bytes_max)
        return message

    return counted


def _add_headers(message: Message, request_id: str) -> None:
    """What every answer says, unless it says so itself: pages have a policy of their own."""
    given = message.get("headers", ())
    added = SECURITY_HEADERS
    if not _OWN.isdisjoint([name for name, _ in given]):
        names = {name for name, _ in given}
        added = tuple(header for header in SECURITY_HEADERS if header[0] not in names)
    message["headers"] = [*given, *added, (b"x-request-id", request_id.encode())]


def _log(scope: Scope, status: int, seconds: float, request_id: str) -> None:
    """One line of JSON. Routes are told by their templates; what no route took, by its path, escaped."""
    endpoint: object = scope.get("endpoint")
    told: dict[str, object] = {
        "method": _escaped(scope["method"]),
        "route": endpoint.path if isinstance(endpoint, Endpoint) else None,
        "status": status,
        "duration_ms": round(seconds * 1000, 3),
        "request_id": request_id,
    }
    if not isinstance(endpoint, Endpoint):
        told["path"] = _escaped(scope["path"])
    access.info(msgspec.json.encode(told).decode())


def _escaped(text: str) -> str:
    return ascii(text[:PATH_LOGGED_MAX])[1:-1]
