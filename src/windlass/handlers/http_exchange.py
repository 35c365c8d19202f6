"""One HTTP exchange: request, redirects, bounded body, and what its status means for another attempt."""

import base64
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter
from typing import Any

import httpx2
import msgspec

from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.handlers.http import BasicAuth, HttpParams
from windlass.handlers.network_guard import GuardedTransport
from windlass.ports.handler import Context

PORT_MAX = 65_535
REDIRECTS_MAX = 5
BODY_BYTES_MAX = 16 * 1024 * 1024
BODY_SHOWN_CHARS = 500
HEADERS_KEPT_MAX = 64
HEADER_CHARS_MAX = 1024
RETRY_AFTER_SECONDS_MAX = 86_400.0
RETRYABLE = frozenset({408, 425, 429})
SCHEMES = frozenset({"http", "https"})
# What the server says about credentials does not belong into the history of a job.
HEADERS_DROPPED = frozenset({"set-cookie", "set-cookie2", "authorization", "www-authenticate", "authentication-info"})
# Headers that may follow a redirect to another origin; any other could be a credential.
HEADERS_FOLLOWING = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent", "host",
                               "content-length", "transfer-encoding", "connection"})  # fmt: skip
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_HEADER_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_METHOD = re.compile(r"[A-Z]{1,20}")
_JSON_TYPE = re.compile(r"^[^;]*[/+]json\b", re.IGNORECASE)


class StatusRetryable(RetryableError):
    """The server answered with a status that may change."""

    type = "http_status"


class StatusFinal(FatalError):
    """The server answered with a status that another attempt will not change."""

    type = "http_status"


class ConnectionFailed(RetryableError):
    """The request got no answer."""

    type = "connection_failed"


class BodyInvalid(RetryableError):
    """The answer's body is not what its headers promise."""

    type = "body_invalid"


class ResponseRejected(FatalError):
    """The answer is larger, or redirects more often, than is acceptable."""

    type = "response_rejected"


async def exchange(ctx: Context, wanted: HttpParams, allow_private: bool) -> Any:
    """Make the request and return what the body says; `ctx.meta` gets the status, headers and time taken."""
    client = shared_client(ctx, allow_private)
    began = perf_counter()
    with translated(wanted):
        response, body = await _answer(client, request_of(client, wanted))
    ctx.meta.update(
        status=response.status_code,
        headers=_kept(response.headers),
        elapsed_seconds=round(perf_counter() - began, 6),
        url=shown(str(response.url)),
    )
    text = text_of(response, body)
    if not (response.status_code in wanted.expected if wanted.expected else response.is_success):
        raise status_error(wanted, response, text)
    return _value(wanted, response, body, text)


def shared_client(ctx: Context, allow_private: bool) -> httpx2.AsyncClient:
    """The client of all attempts of a worker; every request of it is guarded."""
    return ctx.resource(f"http_client private={allow_private}", lambda: guarded_client(allow_private))


@contextmanager
def translated(wanted: HttpParams) -> Generator[None]:
    """The client's errors as those of the handler: what cannot be sent, what got no answer, what cannot be read."""
    try:
        yield
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise ParamsInvalid(f"the request to {shown(wanted.url)} cannot be sent: {error}") from None
    except httpx2.DecodingError as error:
        raise BodyInvalid(f"{wanted.method} {shown(wanted.url)}: {error}") from None
    except httpx2.TransportError as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ConnectionFailed(f"{wanted.method} {shown(wanted.url)} got no answer ({what})") from None


async def deliver(client: httpx2.AsyncClient, wanted: HttpParams) -> None:
    """Make a request whose answer matters only by its status. A redirect is none: it would lose the body on its way."""
    with translated(wanted):
        response = await client.send(request_of(client, wanted), stream=True)
        try:
            body = await body_of(response)
        finally:
            await response.aclose()
    if not response.is_success:
        raise status_error(wanted, response, text_of(response, body))


def guarded_client(allow_private: bool) -> httpx2.AsyncClient:
    """A client that checks the address of every request."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(allow_private, httpx2.create_ssl_context(trust_env=False)),
        trust_env=False,
        follow_redirects=False,
        # The client is shared by all jobs: what one server sets must not travel with the requests of others.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"user-agent": "windlass", "accept": "application/json, */*;q=0.5"},
    )


def request_of(client: httpx2.AsyncClient, wanted: HttpParams) -> httpx2.Request:
    """The request that the author described; ParamsInvalid when there is none such."""
    if not _METHOD.fullmatch(wanted.method):
        raise ParamsInvalid(f"method {wanted.method!r} is none: use GET, POST, PUT, PATCH, DELETE or the like")
    url = httpx2.URL(wanted.url)
    if url.scheme not in SCHEMES or not url.host:
        raise ParamsInvalid(f"url {shown(wanted.url)!r} cannot be requested: it must start with http:// or https://")
    if url.port is not None and not 0 < url.port <= PORT_MAX:
        raise ParamsInvalid(f"url {shown(wanted.url)!r} has the port {url.port}: {PORT_MAX} is the greatest")
    for name, value in wanted.headers.items():
        if not _HEADER_NAME.fullmatch(name) or _HEADER_FORBIDDEN.search(value):
            raise ParamsInvalid(f"header {name!r} cannot be sent: its name or value has characters that no header has")
    headers = dict(wanted.headers)
    match wanted.auth:
        case BasicAuth(username=username, password=password):
            headers["authorization"] = f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
        case None:
            pass
        case bearer:
            headers["authorization"] = f"Bearer {bearer.token}"
    form, content = (wanted.body, None) if isinstance(wanted.body, dict) else (None, wanted.body)
    try:
        return client.build_request(
            wanted.method,
            url.copy_merge_params(wanted.params) if wanted.params else url,
            headers=headers,
            json=wanted.json,
            data=form,
            content=content,
            timeout=wanted.timeout_seconds,
        )
    except (TypeError, ValueError) as error:
        raise ParamsInvalid(f"the request to {shown(wanted.url)} cannot be built: {error}") from None


async def _answer(client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[httpx2.Response, bytes]:
    """The last response of a chain of redirects, and its body."""
    for _ in range(REDIRECTS_MAX + 1):
        response = await client.send(request, stream=True)
        try:
            if response.next_request is None:
                return response, await body_of(response)
        finally:
            await response.aclose()
        request = _followed(request, response.next_request)
    raise ResponseRejected(f"{shown(str(request.url))}: more than {REDIRECTS_MAX} redirects")


def _followed(request: httpx2.Request, following: httpx2.Request) -> httpx2.Request:
    if following.url.scheme not in SCHEMES:
        raise ResponseRejected(f"{shown(str(request.url))} redirects to {shown(str(following.url))}, which is not HTTP")
    was, now = request.url, following.url
    if (was.scheme, was.host, was.port) != (now.scheme, now.host, now.port):
        for name in [name for name in following.headers if name.lower() not in HEADERS_FOLLOWING]:
            del following.headers[name]
    following.extensions = request.extensions
    return following


async def body_of(response: httpx2.Response) -> bytes:
    """The whole body, up to a bound."""
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > BODY_BYTES_MAX:
            raise ResponseRejected(f"{shown(str(response.url))}: the body exceeds {BODY_BYTES_MAX} bytes")
    return bytes(parts)


def _value(wanted: HttpParams, response: httpx2.Response, body: bytes, text: str) -> Any:
    if not _JSON_TYPE.match(response.headers.get("content-type", "")):
        return text
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyInvalid(f"{wanted.method} {shown(wanted.url)}: the body is no JSON: {error}") from None


def status_error(wanted: HttpParams, response: httpx2.Response, text: str) -> RetryableError | FatalError:
    """What an answer other than the hoped for means: whether another attempt may get a better one."""
    status = response.status_code
    said = text.strip()[:BODY_SHOWN_CHARS]
    message = f"{wanted.method} {shown(wanted.url)} answered {status} {response.reason_phrase}".rstrip()
    message += f": {said}" if said else ""
    if status in RETRYABLE or status >= 500:
        return StatusRetryable(message, status=status, retry_after=retry_after(response.headers))
    return StatusFinal(message, status=status)


def retry_after(headers: httpx2.Headers) -> float | None:
    """The seconds that a server asks to wait: a number, or a date, which is measured by the server's own clock."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_SECONDS_MAX)
    until = _date(text)
    if until is None:
        return None
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return min(max((until - now).total_seconds(), 0.0), RETRY_AFTER_SECONDS_MAX)


def _date(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _kept(headers: httpx2.Headers) -> dict[str, str]:
    kept = [(name.lower(), value[:HEADER_CHARS_MAX]) for name, value in headers.items()]
    return dict([(name, value) for name, value in kept if name not in HEADERS_DROPPED][:HEADERS_KEPT_MAX])


def text_of(response: httpx2.Response, body: bytes) -> str:
    """The body as text, in whatever charset it claims."""
    try:
        return body.decode(response.charset_encoding or "utf-8", "replace")
    except LookupError:  # a charset that nobody knows
        return body.decode("utf-8", "replace")


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password, query."""
    plain = re.sub(r"//[^/@?#]*@", "//", url)
    return re.split(r"[?#]", plain, maxsplit=1)[0][:BODY_SHOWN_CHARS]
