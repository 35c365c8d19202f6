"""The line from a worker to a cluster's API server, shared by its attempts: paced, patient, and open until the last
errand is done."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from windlass.handlers.container.errors import KubernetesRefused, KubernetesUnavailable, KubernetesUnusable

# For the types only: the client is loaded when a container first needs it.
if TYPE_CHECKING:
    import httpx2

TRIES_MAX = 6
PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 10.0
RETRY_AFTER_SECONDS_MAX = 30.0
REQUEST_SECONDS_MAX = 15.0
# What is left to delete when a worker stops.
ERRANDS_SECONDS_MAX = 10.0
# Requests that nobody waits for any more may get as far as to a line that can be closed.
HANDSHAKE_SECONDS_MAX = 1.0
MESSAGE_CHARS_MAX = 1000

Result = TypeVar("Result")
Count = Callable[[], None]
log = logging.getLogger(__name__)


class ApiResponse(Struct, frozen=True):
    """What the API server said."""

    status: int
    body: bytes

    @property
    def is_good(self) -> bool:
        """Whether it did what it was asked."""
        return 200 <= self.status < 300


class RequestRateLimiter:
    """Spaces requests out: so many at once, then so many a second."""

    def __init__(self, per_second: float, burst: int, now: Callable[[], float]) -> None:
        self._interval = 1.0 / per_second
        self._slack = (burst - 1) * self._interval
        self._now = now
        self._next = now()

    def wait_seconds(self) -> float:
        """Take the next place; how long to wait until it comes."""
        now = self._now()
        place = max(self._next, now - self._slack)
        self._next = place + self._interval
        return max(0.0, place - now)


class ClusterConnection:
    """Requests to one API server. Every request has its place in the pace; those that may get better are repeated."""

    def __init__(self, http: "httpx2.AsyncClient", namespace: str, pace: RequestRateLimiter, chance: Random) -> None:
        self.namespace = namespace
        # What looks after Jobs that nobody follows, for as long as the line is open.
        self.keeping: asyncio.Task[None] | None = None
        self._http = http
        self._pace = pace
        self._chance = chance
        self._errands: set[asyncio.Task[Any]] = set()
        self._requests: set[asyncio.Task[httpx2.Response]] = set()

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        count: Count,
        query: Mapping[str, str | int] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> ApiResponse:
        """One request and its answer; busy servers and broken lines are tried again. KubernetesUnavailable."""
        # The client is loaded only where a container needs it.
        import httpx2
        from lightkube.core.exceptions import ConfigError

        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": content_type}
        request = self._http.build_request(method, path, params=query, content=content, headers=headers)
        said = ""
        for tries in range(TRIES_MAX):
            await self._take_place(count)
            wait = self._chance.uniform(0.5, 1.0) * min(PAUSE_SECONDS_MIN * 2**tries, PAUSE_SECONDS_MAX)
            try:
                response = await asyncio.shield(self._begin(request))
            except (httpx2.TransportError, TimeoutError) as error:
                said = f"{type(error).__name__}: {error}".rstrip(": ")
            except (httpx2.HTTPError, ConfigError) as error:
                raise KubernetesUnusable(f"the cluster cannot be asked: {error}") from None
            else:
                if response.status_code != 429 and response.status_code < 500:
                    return ApiResponse(response.status_code, response.content)
                said = error_message(ApiResponse(response.status_code, response.content))
                wait = max(wait, _retry_after(response.headers.get("retry-after")))
            if tries + 1 < TRIES_MAX:
                await asyncio.sleep(wait)
        raise KubernetesUnavailable(f"no good answer to {method} {path} in {TRIES_MAX} tries: {said}")

    @asynccontextmanager
    async def stream(
        self, path: str, *, count: Count, query: Mapping[str, str | int], read_seconds: float | None
    ) -> AsyncGenerator["httpx2.Response"]:
        """An answer that goes on; not repeated. KubernetesUnavailable when the line breaks."""
        # The client is loaded only where a container needs it.
        import httpx2

        await self._take_place(count)
        timeout = httpx2.Timeout(REQUEST_SECONDS_MAX, read=read_seconds)
        opening = self._begin(self._http.build_request("GET", path, params=query, timeout=timeout), streams=True)
        try:
            response = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._hang_up)
            raise
        except (httpx2.TransportError, TimeoutError) as error:
            raise _broken(error) from None
        try:
            if response.status_code >= 400:
                answer = ApiResponse(response.status_code, await response.aread())
                if answer.status == 429 or answer.status >= 500:
                    raise KubernetesUnavailable(error_message(answer), status=answer.status)
                raise refusal(f"GET {path}", answer)
            yield response
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise _broken(error) from None
        finally:
            await response.aclose()

    def spawn(self, errand: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Have something done even if whoever asked for it is stopped."""
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._done)
        return task

    async def aclose(self) -> None:
        """Finish the errands, as far as they end in time, and hang up."""
        if self.keeping is not None:
            self.keeping.cancel()
            await asyncio.gather(self.keeping, return_exceptions=True)
        if self._errands:
            _, late = await asyncio.wait(self._errands, timeout=ERRANDS_SECONDS_MAX)
            for errand in late:
                errand.cancel()
            if late:
                log.warning("%d requests to the cluster were given up; Jobs end at their deadlines", len(late))
                await asyncio.gather(*late, return_exceptions=True)
        if self._requests:
            await asyncio.wait(self._requests, timeout=HANDSHAKE_SECONDS_MAX)
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        await self._http.aclose()

    def _done(self, errand: "asyncio.Task[Any]") -> None:
        self._errands.discard(errand)
        self._requests.discard(errand)
        if not errand.cancelled():
            # Whoever asked may be gone; an error that nobody takes would be complained about.
            errand.exception()

    def _begin(self, request: "httpx2.Request", *, streams: bool = False) -> "asyncio.Task[httpx2.Response]":
        """Send a request that is not cut short: a handshake broken off would leave its socket open."""
        task = asyncio.create_task(self._send(request, streams))
        self._requests.add(task)
        task.add_done_callback(self._done)
        return task

    async def _send(self, request: "httpx2.Request", streams: bool) -> "httpx2.Response":
        async with asyncio.timeout(REQUEST_SECONDS_MAX * 2 if streams else REQUEST_SECONDS_MAX):
            return await self._http.send(request, stream=streams)

    def _hang_up(self, opening: "asyncio.Task[httpx2.Response]") -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.spawn(opening.result().aclose())

    async def _take_place(self, count: Count) -> None:
        wait = self._pace.wait_seconds()
        if wait > 0:
            await asyncio.sleep(wait)
        count()


def error_message(answer: ApiResponse) -> str:
    """The API server's own words."""
    try:
        message = str(msgspec.json.decode(answer.body, type=dict[str, Any]).get("message") or "")
    except (msgspec.DecodeError, RecursionError):
        message = answer.body[:MESSAGE_CHARS_MAX].decode("utf-8", "replace")
    return f"{answer.status} {message}"[:MESSAGE_CHARS_MAX].strip()


def refusal(what: str, answer: ApiResponse) -> KubernetesRefused:
    """The error of a request that the API server will never grant as it is."""
    hint = ""
    if answer.status in (401, 403):
        hint = " (the worker's account needs the rights that the reference of containers lists)"
    return KubernetesRefused(f"the cluster refused {what}: {error_message(answer)}{hint}", status=answer.status)


def _broken(error: Exception) -> KubernetesUnavailable:
    return KubernetesUnavailable(f"the line broke: {type(error).__name__}: {error}".rstrip(": "))


def _retry_after(header: str | None) -> float:
    # API servers write seconds; a proxy's date is as good as nothing said.
    if header is None or not header.isascii() or not header.isdigit():
        return 0.0
    return min(float(header), RETRY_AFTER_SECONDS_MAX)
