"""Copies a container's log to its attempt while it runs, up to a limit; reconnects and keeps the last lines."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.errors import (
    OUTAGES,
    AccessDenied,
    KubernetesRefused,
    KubernetesUnavailable,
)
from windlass.ports.handler import Context

# A longer line is logged in parts.
LINE_BYTES_MAX = 1024 * 1024
END_CHARS_MAX = 2000
END_LINES_MAX = 20
PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 5.0
# How long reading the rest of the log may take once the container has terminated.
REST_SECONDS_MAX = 10.0
# A log endpoint that sends nothing for this long after the end delays it no further.
REST_SILENCE_SECONDS_MAX = 2.0
# Attempts to read a log that is not found, after the container has terminated.
TRIES_AFTER_END_MAX = 3


class PodLog:
    """The log of one container, read in the background; `finish` waits for the rest."""

    def __init__(
        self, ctx: Context, api: KubernetesApi, pod: str, container: str, bytes_max: int
    ) -> None:
        self.truncated = False
        self._ctx = ctx
        self._api = api
        self._pod = pod
        self._container = container
        self._left = bytes_max
        self._bytes_max = bytes_max
        self._end: deque[str] = deque(maxlen=END_LINES_MAX)
        # The timestamp of the last line logged, as the cluster wrote it: of fixed width, so that strings compare.
        self._last_at = ""
        self._over = asyncio.Event()
        self._following = asyncio.create_task(self._follow())

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        return next((line.strip() for line in reversed(self._end) if line.strip()), "")

    @property
    def end(self) -> str:
        """The last lines, for messages."""
        return "\n".join(self._end).strip()[-END_CHARS_MAX:]

    async def finish(self) -> None:
        """Read the rest of the log of a terminated container."""
        self._over.set()
        try:
            async with asyncio.timeout(REST_SECONDS_MAX):
                await self._wait_while_read()
                if self.truncated:
                    await self._read_end()
        except (TimeoutError, KubernetesUnavailable, KubernetesRefused) as error:
            self._ctx.log(
                f"(the rest of the log could not be read: {str(error) or 'timed out'})", "warning"
            )
        finally:
            await self.stop()

    async def _wait_while_read(self) -> None:
        """Wait until the log was read; raise TimeoutError once nothing arrives for a while."""
        left = None
        while left != self._left:
            left = self._left
            await asyncio.wait([self._following], timeout=REST_SILENCE_SECONDS_MAX)
            if self._following.done():
                return
        raise TimeoutError

    async def stop(self) -> None:
        """Stop reading."""
        self._following.cancel()
        with suppress(asyncio.CancelledError):
            await self._following

    async def _follow(self) -> None:
        pause = PAUSE_SECONDS_MIN
        failures_after_end = 0
        is_denied = False
        while not self.truncated:
            is_over = self._over.is_set()
            try:
                await self._read(follows=not is_over)
                pause = PAUSE_SECONDS_MIN
                if is_over:
                    return
            except (KubernetesRefused, KubernetesUnavailable) as error:
                if not _may_be_readable_later(error) or failures_after_end >= TRIES_AFTER_END_MAX:
                    self._ctx.log(f"(the log cannot be read: {error})", "warning")
                    return
                if isinstance(error, AccessDenied) and not is_denied:
                    self._ctx.log(f"(the log cannot be read at present: {error})", "warning")
                is_denied = isinstance(error, AccessDenied)
            if is_over:
                failures_after_end += 1
                await asyncio.sleep(pause)
            else:
                await self._wait_for_end(pause)
                if self._over.is_set():
                    # The pauses after the end do not continue the longer ones before it.
                    pause = PAUSE_SECONDS_MIN
                    continue
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _wait_for_end(self, seconds_max: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._over.wait()

    async def _read(self, *, follows: bool) -> None:
        query: dict[str, str | int] = {"container": self._container, "timestamps": "true"}
        if follows:
            query["follow"] = "true"
        if self._last_at:
            query["sinceTime"] = _whole_second(self._last_at)
        async with self._api.log(self._pod, query) as parts:
            async for line in _lines(parts):
                self._write(line)
                if self.truncated:
                    return

    async def _read_end(self) -> None:
        query = {
            "container": self._container,
            "tailLines": END_LINES_MAX,
            "limitBytes": LINE_BYTES_MAX,
        }
        async with self._api.log(self._pod, query) as parts:
            async for line in _lines(parts):
                self._end.append(line.decode("utf-8", "backslashreplace"))

    def _write(self, line: bytes) -> None:
        at, _, text = line.decode("utf-8", "backslashreplace").partition(" ")
        if at <= self._last_at:
            return
        self._last_at = at
        self._left -= len(line)
        if self._left < 0:
            self.truncated = True
            self._ctx.log(f"(log truncated: at most {self._bytes_max} bytes are kept)", "warning")
            return
        self._end.append(text)
        self._ctx.log(text)


def _may_be_readable_later(error: KubernetesRefused | KubernetesUnavailable) -> bool:
    # The log of a container that has just started may not exist yet.
    return isinstance(error, OUTAGES) or error.status in (400, 404)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    pending = b""
    async for part in parts:
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            yield line
        if len(pending) > LINE_BYTES_MAX:
            yield pending
            pending = b""
    if pending:
        yield pending


def _whole_second(at: str) -> str:
    """Drop the fraction of a timestamp, which the API does not accept."""
    seconds, point, fraction = at.partition(".")
    if not point:
        return at
    return seconds + fraction.lstrip("0123456789")
