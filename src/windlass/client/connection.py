"""The HTTP connection that all resources of a client share."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from windlass import wire
from windlass.client.errors import ANY, ErrorTypes, error_from
from windlass.client.streams import ReconnectBackoff, parse_events
from windlass.core.errors import ApiError, ResponseLost, ServerUnreachable

API = "/api/v1"
JSON, YAML = "application/json", "application/yaml"
CONNECT_SECONDS_MAX = 5.0
# A live stream sends an event or a comment every 15 seconds.
STREAM_IDLE_SECONDS_MAX = 45.0
CONNECTIONS_MAX = 100

T = TypeVar("T")


class ApiConnection:
    """Sends requests to one server and decodes its responses."""

    def __init__(
        self,
        url: str,
        answer_seconds_max: float,
        away_seconds_max: float,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.answer_seconds_max = answer_seconds_max
        self._away_seconds_max = away_seconds_max
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            timeout=_timeout(answer_seconds_max),
            limits=httpx2.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
            ),
            # Certificates take 80 ms to load and only https needs them.
            verify=self.url.startswith("https://"),
            # A proxy for the internet is usually none for a local server.
            trust_env=False,
            transport=transport,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def backoff(self) -> ReconnectBackoff:
        """Return a backoff that ends when the server was away for too long."""
        return ReconnectBackoff(self._away_seconds_max)

    async def call(
        self,
        method: str,
        path: str,
        view: type[T],
        errors: ErrorTypes = ANY,
        *,
        params: Mapping[str, str] | None = None,
        body: Struct | None = None,
        seconds_max: float | None = None,
    ) -> T:
        """Send a request and decode the response; an error response raises."""
        response = await self.send(
            method, path, errors, params=params, body=body, seconds_max=seconds_max
        )
        return decode(response, view)

    async def send(
        self,
        method: str,
        path: str,
        errors: ErrorTypes = ANY,
        *,
        params: Mapping[str, str] | None = None,
        body: Struct | None = None,
        content: str | bytes | None = None,
        media_type: str = JSON,
        seconds_max: float | None = None,
    ) -> httpx2.Response:
        """Send a request and return a successful response; an error response raises."""
        if body is not None:
            content = msgspec.json.encode(body)
        response = await self.exchange(
            method,
            API + path,
            params=params,
            content=content,
            media_type=media_type,
            seconds_max=seconds_max,
        )
        if not response.is_success:
            raise error_from(response, errors)
        return response

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: str | bytes | None = None,
        media_type: str = JSON,
        seconds_max: float | None = None,
    ) -> httpx2.Response:
        """Send a request to a path of the server and return any response; ServerUnreachable, ResponseLost."""
        headers: dict[str, str] = {}
        if content is not None:
            headers["content-type"] = media_type
        timeout = _timeout(seconds_max or self.answer_seconds_max)
        try:
            return await self._http.request(
                method,
                path,
                params=dict(params or {}),
                content=content,
                headers=headers,
                timeout=timeout,
            )
        except httpx2.TransportError as error:
            raise self._connection_error(error) from error

    async def pages(
        self,
        page_type: type[wire.Page[T]],
        path: str,
        params: Mapping[str, str] | None = None,
        errors: ErrorTypes = ANY,
        *,
        cursor: str = "cursor",
    ) -> AsyncIterator[T]:
        """Yield the items of all pages of a list; `cursor` is the query parameter that takes `next_cursor`."""
        query = dict(params or {})
        while True:
            page = await self.call("GET", path, page_type, errors, params=query)
            for item in page.items:
                yield item
            if page.next_cursor is None or not page.items:
                return
            query[cursor] = page.next_cursor

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], after: int, errors: ErrorTypes
    ) -> AsyncGenerator[AsyncIterator[tuple[int, bytes]]]:
        """Open an event stream after the event of a number; yields numbers and data."""
        headers = {"accept": "text/event-stream"}
        if after:
            headers["last-event-id"] = str(after)
        timeout = _timeout(STREAM_IDLE_SECONDS_MAX)
        request = self._http.stream(
            "GET", API + path, params=dict(params), headers=headers, timeout=timeout
        )
        try:
            async with request as response:
                if not response.is_success:
                    await response.aread()
                    raise error_from(response, errors)
                yield parse_events(response.aiter_bytes())
        except httpx2.TransportError as error:
            raise self._connection_error(error) from error

    def _connection_error(self, error: httpx2.TransportError) -> ServerUnreachable:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return ServerUnreachable(
                f"no server answers at {self.url}: start one with `windlass dev`, or name another with --server or "
                "WINDLASS_SERVER"
            )
        reason = str(error) or type(error).__name__
        return ResponseLost(
            f"connection to {self.url} lost before the response arrived ({reason}): the request may have taken effect; "
            "check, or send it again with the same idempotency key"
        )


def decode(response: httpx2.Response, view: type[T]) -> T:
    """Decode the body of a response; ApiError if it is not of the expected type."""
    try:
        return msgspec.json.decode(response.content, type=view)
    except msgspec.MsgspecError as error:
        raise ApiError(
            f"unexpected response from {response.url} ({error}); check that it is a Windlass server of this version",
            status=response.status_code,
        ) from error


def query(**params: object) -> dict[str, str]:
    """Return the parameters that are set, as text."""
    return {name: str(value) for name, value in params.items() if value is not None}


def segment(name: str) -> str:
    """Quote a name as one path segment."""
    return quote(name, safe="")


def _timeout(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(seconds, connect=CONNECT_SECONDS_MAX)
