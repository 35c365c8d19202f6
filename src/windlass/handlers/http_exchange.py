"""One HTTP exchange: request, redirects, bounded body, and whether its status is retryable."""

import base64
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter
from typing import Any

import httpx2
import msgspec

from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.core.redaction import public_url
from windlass.handlers.network_guard import GuardedTransport
from windlass.handlers.requests import BasicAuth, BearerAuth, HttpParams
from windlass.ports.handler import Context

PORT_MAX = 65_535
REDIRECTS_MAX = 5
BODY_BYTES_MAX = 16 * 1024 * 1024
BODY_SHOWN_CHARS = 500
HEADERS_KEPT_MAX = 64
HEADER_CHARS_MAX = 1024
RETRY_AFTER_SECONDS_MAX = 86_400.0
RETRYABLE_STATUSES = frozenset({408, 425, 429})
SCHEMES = frozenset({"http", "https"})
# Credentials of the response are not stored with the job.
HEADERS_DROPPED = frozenset(
    {"set-cookie", "set-cookie2", "authorization", "www-authenticate", "authentication-info"}
)
# The only headers sent along on a redirect to another origin; any other could be a credential.
REDIRECT_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent", "host",
                               "content-length", "transfer-encoding", "connection"})  # fmt: skip
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_HEADER_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_METHOD = re.compile(r"[A-Z]{1,20}")
_JSON_TYPE = re.compile(r"^[^;]*[/+]json\b", re.IGNORECASE)


class StatusRetryable(RetryableError):
    """The server responded with a status that may change."""

    type = "http_status"


class StatusFinal(FatalError):
    """The server responded with a status that another attempt does not change."""

    type = "http_status"


class ConnectionFailed(RetryableError):
    """The request got no response."""

    type = "connection_failed"


class BodyInvalid(RetryableError):
    """The body of the response is not what its headers announce."""

    type = "body_invalid"


class ResponseRejected(FatalError):
    """The response is too large or redirects too often."""

    type = "response_rejected"


async def exchange(ctx: Context, params: HttpParams, allow_private: bool) -> Any:
    """Make the request and return the value of the body; set status, headers and duration in `ctx.meta`."""
    client = shared_client(ctx, allow_private)
    began = perf_counter()
    with translate_errors(params):
        response, body = await _send_following_redirects(client, build_request(client, params))
    ctx.meta.update(
        status=response.status_code,
        headers=_stored_headers(response.headers),
        elapsed_seconds=round(perf_counter() - began, 6),
        url=public_url(str(response.url)),
    )
    text = body_text(response, body)
    if not _is_expected(params, response):
        raise status_error(params, response, text)
    return _value(params, response, body, text)


def shared_client(ctx: Context, allow_private: bool) -> httpx2.AsyncClient:
    """Return the guarded client that all attempts of a worker share."""
    return ctx.resource(
        f"http_client private={allow_private}", lambda: guarded_client(allow_private)
    )


@contextmanager
def translate_errors(params: HttpParams) -> Generator[None]:
    """Raise the client's errors as those of the handler."""
    url = public_url(params.url)
    try:
        yield
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise ParamsInvalid(f"request cannot be sent to {url}: {error}") from None
    except httpx2.DecodingError as error:
        raise BodyInvalid(f"{params.method} {url}: {error}") from None
    except httpx2.TransportError as error:
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ConnectionFailed(f"{params.method} {url}: no response ({reason})") from None


@asynccontextmanager
async def opened(
    client: httpx2.AsyncClient, request: httpx2.Request
) -> AsyncGenerator[httpx2.Response]:
    """Send a request; the body of the response can be read inside the block."""
    response = await client.send(request, stream=True)
    try:
        yield response
    finally:
        await response.aclose()


async def send_once(
    client: httpx2.AsyncClient, params: HttpParams
) -> tuple[httpx2.Response, bytes]:
    """Make the request without following redirects; return the response and its body."""
    with translate_errors(params):
        async with opened(client, build_request(client, params)) as response:
            return response, await read_body(response)


async def deliver(client: httpx2.AsyncClient, params: HttpParams) -> None:
    """Make a request of which only the status of the response matters. Redirects fail: they would lose the body."""
    response, body = await send_once(client, params)
    if not response.is_success:
        raise status_error(params, response, body_text(response, body))


def guarded_client(allow_private: bool) -> httpx2.AsyncClient:
    """Return a client that checks the address of every request."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(allow_private, httpx2.create_ssl_context(trust_env=False)),
        trust_env=False,
        follow_redirects=False,
        # The client is shared by all jobs: cookies of one must not be sent with the requests of another.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"user-agent": "windlass", "accept": "application/json, */*;q=0.5"},
    )


def build_request(client: httpx2.AsyncClient, params: HttpParams) -> httpx2.Request:
    """Build the request; raise ParamsInvalid if it cannot be sent."""
    if not _METHOD.fullmatch(params.method):
        raise ParamsInvalid(
            f"invalid method: {params.method!r}; use GET, POST, PUT, PATCH, DELETE or another HTTP method"
        )
    url = _check_url(params.url)
    if params.query:
        url = url.copy_merge_params(params.query)
    headers = _request_headers(params)
    form = content = None
    if isinstance(params.body, dict):
        form = params.body
    else:
        content = params.body
    try:
        return client.build_request(
            params.method,
            url,
            headers=headers,
            json=params.json,
            data=form,
            content=content,
            timeout=params.timeout_seconds,
        )
    except (TypeError, ValueError) as error:
        raise ParamsInvalid(
            f"request cannot be built for {public_url(params.url)}: {error}"
        ) from None


def _check_url(text: str) -> httpx2.URL:
    url = httpx2.URL(text)
    if url.scheme not in SCHEMES or not url.host:
        raise ParamsInvalid(
            f"invalid url: {public_url(text)!r}; it must start with http:// or https://"
        )
    if url.port is not None and not 0 < url.port <= PORT_MAX:
        raise ParamsInvalid(
            f"invalid port in url {public_url(text)!r}: {url.port}; must be 1 to {PORT_MAX}"
        )
    return url


def _request_headers(params: HttpParams) -> dict[str, str]:
    for name, value in params.headers.items():
        if not _HEADER_NAME.fullmatch(name) or _HEADER_FORBIDDEN.search(value):
            raise ParamsInvalid(
                f"invalid header: {name!r}; its name or value contains characters that are not allowed"
            )
    headers = dict(params.headers)
    match params.auth:
        case BasicAuth(username=username, password=password):
            credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
            headers["authorization"] = f"Basic {credentials}"
        case BearerAuth(token=token):
            headers["authorization"] = f"Bearer {token}"
        case None:
            pass
    return headers


async def _send_following_redirects(
    client: httpx2.AsyncClient, request: httpx2.Request
) -> tuple[httpx2.Response, bytes]:
    """Return the last response of a chain of redirects, and its body."""
    for _ in range(REDIRECTS_MAX + 1):
        async with opened(client, request) as response:
            if response.next_request is None:
                return response, await read_body(response)
        request = _redirected(request, response.next_request)
    raise ResponseRejected(f"{public_url(str(request.url))}: more than {REDIRECTS_MAX} redirects")


def _redirected(request: httpx2.Request, following: httpx2.Request) -> httpx2.Request:
    """Return the request of a redirect, without headers that another origin may not see."""
    old, new = request.url, following.url
    if new.scheme not in SCHEMES:
        raise ResponseRejected(
            f"{public_url(str(old))} redirects to {public_url(str(new))}, which is not HTTP"
        )
    if (old.scheme, old.host, old.port) != (new.scheme, new.host, new.port):
        for name in list(following.headers):
            if name.lower() not in REDIRECT_HEADERS:
                del following.headers[name]
    following.extensions = request.extensions
    return following


async def read_body(response: httpx2.Response) -> bytes:
    """Read the whole body; raise ResponseRejected beyond the limit."""
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > BODY_BYTES_MAX:
            raise ResponseRejected(
                f"{public_url(str(response.url))}: the body exceeds {BODY_BYTES_MAX} bytes"
            )
    return bytes(parts)


def _is_expected(params: HttpParams, response: httpx2.Response) -> bool:
    if params.expected_statuses:
        return response.status_code in params.expected_statuses
    return response.is_success


def _value(params: HttpParams, response: httpx2.Response, body: bytes, text: str) -> Any:
    if not _JSON_TYPE.match(response.headers.get("content-type", "")):
        return text
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyInvalid(
            f"{params.method} {public_url(params.url)}: the body is not valid JSON: {error}"
        ) from None


def status_error(
    params: HttpParams, response: httpx2.Response, text: str
) -> RetryableError | FatalError:
    """Return the error of an unexpected status; retryable if another attempt may succeed."""
    status = response.status_code
    message = f"{params.method} {public_url(params.url)} returned {status} {response.reason_phrase}".rstrip()
    if shown := text.strip()[:BODY_SHOWN_CHARS]:
        message += f": {shown}"
    if is_retryable(status):
        return StatusRetryable(message, status=status, retry_after=retry_after(response.headers))
    return StatusFinal(message, status=status)


def is_retryable(status: int) -> bool:
    """Whether another attempt may get a better status."""
    return status in RETRYABLE_STATUSES or status >= 500


def retry_after(headers: httpx2.Headers) -> float | None:
    """Return the seconds that a server asks to wait; a date is relative to the server's own clock."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_SECONDS_MAX)
    until = _parse_date(text)
    if until is None:
        return None
    now = _parse_date(headers.get("date", "")) or datetime.now(UTC)
    return min(max((until - now).total_seconds(), 0.0), RETRY_AFTER_SECONDS_MAX)


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if date.tzinfo is None:
        return date.replace(tzinfo=UTC)
    return date


def _stored_headers(headers: httpx2.Headers) -> dict[str, str]:
    stored: dict[str, str] = {}
    for name, value in headers.items():
        if len(stored) == HEADERS_KEPT_MAX:
            break
        if name.lower() not in HEADERS_DROPPED:
            stored[name.lower()] = value[:HEADER_CHARS_MAX]
    return stored


def body_text(response: httpx2.Response, body: bytes) -> str:
    """Decode the body with the charset of the response."""
    try:
        return body.decode(response.charset_encoding or "utf-8", "replace")
    except LookupError:  # unknown charset
        return body.decode("utf-8", "replace")
