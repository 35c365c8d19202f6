"""The connection of a worker to a cluster's API server, shared by its attempts: rate limited and retried."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from windlass.handlers.container.errors import (
    AccessDenied,
    KubernetesRefused,
    KubernetesUnavailable,
    KubernetesUnusable,
    QuotaExceeded,
)

# For the types only: the client is loaded when a container first needs it.
if TYPE_CHECKING:
    import httpx2

TRIES_MAX = 6
PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 10.0
RETRY_AFTER_SECONDS_MAX = 30.0
REQUEST_SECONDS_MAX = 15.0
# How long background requests, such as deletions, may take when a worker stops.
BACKGROUND_SECONDS_MAX = 10.0
# How long abandoned requests may take to establish a connection that can be closed.
HANDSHAKE_SECONDS_MAX = 1.0
MESSAGE_CHARS_MAX = 1000
# How API servers begin the message about a quota; its status is that of a missing permission.
QUOTA_TEXT = "exceeded quota"

Result = TypeVar("Result")
# Called for every request, with the seconds for which it waits for its turn.
Count = Callable[[float], None]
log = logging.getLogger(__name__)


class ApiResponse(Struct, frozen=True):
    """A response of the API server."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300

    @property
    def is_retryable(self) -> bool:
        """Whether the server is overloaded or failing."""
        return self.status == 429 or self.status >= 500

    @property
    def is_denied(self) -> bool:
        """Whether the server does not know the account, or does not allow it this request."""
        return self.status in (401, 403)


class RequestRateLimiter:
    """Spaces requests out: a burst at once, then a fixed number per second."""

    def __init__(self, per_second: float, burst: int, now: Callable[[], float]) -> None:
        self._interval = 1.0 / per_second
        self._slack = (burst - 1) * self._interval
        self._now = now
        self._next = now()

    def reserve(self) -> float:
        """Reserve the next request; return the seconds to wait before it may be sent."""
        now = self._now()
        slot = max(self._next, now - self._slack)
        self._next = slot + self._interval
        return max(0.0, slot - now)


class ClusterConnection:
    """Requests to one API server, all rate limited; retryable failures are retried."""

    def __init__(
        self,
        http: "httpx2.AsyncClient",
        namespace: str,
        rate_limiter: RequestRateLimiter,
        random: Random,
    ) -> None:
        self.namespace = namespace
        # Deletes orphaned Jobs as long as the connection is open.
        self.orphan_cleaner: asyncio.Task[None] | None = None
        self._http = http
        self._rate_limiter = rate_limiter
        self._random = random
        self._background: set[asyncio.Task[Any]] = set()
        self._requests: set[asyncio.Task[httpx2.Response]] = set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        count: Count,
        query: Mapping[str, str | int] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> ApiResponse:
        """Send a request, retrying server errors and lost connections; raise KubernetesUnavailable."""
        # The client is loaded only where a container needs it.
        import httpx2
        from lightkube.core.exceptions import ConfigError

        content: bytes | None = None
        headers: dict[str, str] = {}
        if body is not None:
            content = msgspec.json.encode(body)
            headers["content-type"] = content_type
        request = self._http.build_request(
            method, path, params=query, content=content, headers=headers
        )
        failure = ""
        for tries in range(TRIES_MAX):
            await self._wait_for_slot(count)
            pause = self._random.uniform(0.5, 1.0) * min(
                PAUSE_SECONDS_MIN * 2**tries, PAUSE_SECONDS_MAX
            )
            try:
                received = await asyncio.shield(self._begin(request))
            except (httpx2.TransportError, TimeoutError) as error:
                failure = f"{type(error).__name__}: {error}".rstrip(": ")
            except (httpx2.HTTPError, ConfigError) as error:
                raise KubernetesUnusable(
                    f"request to the cluster cannot be sent: {error}"
                ) from None
            else:
                response = ApiResponse(received.status_code, received.content)
                # Denied after a failure: the server is starting, and the failed request may have taken effect.
                if not response.is_retryable and not (failure and response.is_denied):
                    return response
                failure = error_message(response)
                pause = max(pause, _retry_after(received.headers.get("retry-after")))
            if tries + 1 < TRIES_MAX:
                await asyncio.sleep(pause)
        raise KubernetesUnavailable(f"{method} {path} failed {TRIES_MAX} times: {failure}")

    @asynccontextmanager
    async def stream(
        self, path: str, *, count: Count, query: Mapping[str, str | int], read_seconds: float | None
    ) -> AsyncGenerator["httpx2.Response"]:
        """Open a streamed response, without retries; raise KubernetesUnavailable when the connection is lost."""
        # The client is loaded only where a container needs it.
        import httpx2

        await self._wait_for_slot(count)
        timeout = httpx2.Timeout(REQUEST_SECONDS_MAX, read=read_seconds)
        opening = self._begin(
            self._http.build_request("GET", path, params=query, timeout=timeout), is_streamed=True
        )
        try:
            response = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_response)
            raise
        except (httpx2.TransportError, TimeoutError) as error:
            raise _connection_lost(error) from None
        try:
            if response.status_code >= 400:
                failed = ApiResponse(response.status_code, await response.aread())
                if failed.is_retryable:
                    raise KubernetesUnavailable(error_message(failed), status=failed.status)
                raise refusal(f"GET {path}", failed)
            yield response
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise _connection_lost(error) from None
        finally:
            await response.aclose()

    def run_in_background(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Start work that completes even if its caller is cancelled."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    async def aclose(self) -> None:
        """Wait a limited time for background work, then close the connection."""
        if self.orphan_cleaner is not None:
            self.orphan_cleaner.cancel()
            await asyncio.gather(self.orphan_cleaner, return_exceptions=True)
        if self._background:
            _, late = await asyncio.wait(self._background, timeout=BACKGROUND_SECONDS_MAX)
            for task in late:
                task.cancel()
            if late:
                log.warning(
                    "gave up %d requests to the cluster; Jobs end at their deadlines", len(late)
                )
                await asyncio.gather(*late, return_exceptions=True)
        if self._requests:
            await asyncio.wait(self._requests, timeout=HANDSHAKE_SECONDS_MAX)
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        await self._http.aclose()

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._background.discard(task)
        self._requests.discard(task)
        if not task.cancelled():
            # The caller may have been cancelled; marks the error as retrieved, so that asyncio does not log it.
            task.exception()

    def _begin(
        self, request: "httpx2.Request", *, is_streamed: bool = False
    ) -> "asyncio.Task[httpx2.Response]":
        """Send a request that is not cancelled: a cancelled handshake would leave its socket open."""
        task = asyncio.create_task(self._send(request, is_streamed))
        self._requests.add(task)
        task.add_done_callback(self._done)
        return task

    async def _send(self, request: "httpx2.Request", is_streamed: bool) -> "httpx2.Response":
        seconds_max = REQUEST_SECONDS_MAX
        if is_streamed:
            seconds_max *= 2
        async with asyncio.timeout(seconds_max):
            return await self._http.send(request, stream=is_streamed)

    def _close_response(self, opening: "asyncio.Task[httpx2.Response]") -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.run_in_background(opening.result().aclose())

    async def _wait_for_slot(self, count: Count) -> None:
        seconds = self._rate_limiter.reserve()
        count(seconds)
        if seconds > 0:
            await asyncio.sleep(seconds)


def error_message(response: ApiResponse) -> str:
    """Return the status and the message of the API server."""
    try:
        message = str(msgspec.json.decode(response.body, type=dict[str, Any]).get("message") or "")
    except (msgspec.DecodeError, RecursionError):
        message = response.body[:MESSAGE_CHARS_MAX].decode("utf-8", "replace")
    return f"{response.status} {message}"[:MESSAGE_CHARS_MAX].strip()


def refusal(what: str, response: ApiResponse) -> KubernetesRefused | QuotaExceeded:
    """Return the error of a request that the API server rejected."""
    message = f"the cluster rejected {what}: {error_message(response)}"
    if response.status == 403 and QUOTA_TEXT in message:
        return QuotaExceeded(message, status=response.status)
    if response.is_denied:
        hint = "grant the worker's account the permissions listed in the container reference"
        return AccessDenied(f"{message}; {hint}", status=response.status)
    return KubernetesRefused(message, status=response.status)


def _connection_lost(error: Exception) -> KubernetesUnavailable:
    return KubernetesUnavailable(
        f"connection to the cluster lost: {type(error).__name__}: {error}".rstrip(": ")
    )


def _retry_after(header: str | None) -> float:
    # API servers send seconds; a date, which only proxies send, is ignored.
    if header is None or not header.isascii() or not header.isdigit():
        return 0.0
    return min(float(header), RETRY_AFTER_SECONDS_MAX)
