"""Carries a container's log to its attempt while it runs, across broken lines, up to a bound; keeps its end."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.errors import KubernetesRefused, KubernetesUnavailable
from windlass.ports.handler import Context

# A longer line is told in parts.
LINE_BYTES_MAX = 1024 * 1024
END_CHARS_MAX = 2000
END_LINES_MAX = 20
PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 5.0
# How long the rest of a log may take once its container has ended.
REST_SECONDS_MAX = 10.0
# Tries to read a log that nobody has, after the end.
TRIES_AFTER_END_MAX = 3


class PodLog:
    """The log of one container. `follow` runs beside the container, `finish` waits for the rest."""

    def __init__(self, ctx: Context, api: KubernetesApi, pod: str, container: str, bytes_max: int) -> None:
        self.truncated = False
        self._ctx = ctx
        self._api = api
        self._pod = pod
        self._container = container
        self._left = bytes_max
        self._bytes_max = bytes_max
        self._end: deque[str] = deque(maxlen=END_LINES_MAX)
        # The instant of the last line told, as the cluster wrote it: of fixed width, so that texts compare.
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
        """The container has ended: wait for what is left of its log."""
        self._over.set()
        try:
            async with asyncio.timeout(REST_SECONDS_MAX):
                await asyncio.shield(self._following)
                if self.truncated:
                    await self._read_end()
        except (TimeoutError, KubernetesUnavailable, KubernetesRefused) as error:
            self._ctx.log(f"(the rest of the log could not be read: {error or 'it took too long'})", "warning")
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Read no further."""
        self._following.cancel()
        with suppress(asyncio.CancelledError):
            await self._following

    async def _follow(self) -> None:
        pause, tries = PAUSE_SECONDS_MIN, 0
        while not self.truncated:
            was_over = self._over.is_set()
            try:
                await self._read(follows=not was_over)
                pause = PAUSE_SECONDS_MIN
                if was_over:
                    return
            except KubernetesRefused as error:
                # A container that has just begun may be unknown to the log for a moment.
                if error.status not in (400, 404) or (was_over and tries >= TRIES_AFTER_END_MAX):
                    self._ctx.log(f"(the log cannot be read: {error})", "warning")
                    return
            except KubernetesUnavailable as error:
                if was_over and tries >= TRIES_AFTER_END_MAX:
                    self._ctx.log(f"(the log cannot be read: {error})", "warning")
                    return
            tries += was_over
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await (asyncio.sleep(pause) if was_over else self._over.wait())
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _read(self, *, follows: bool) -> None:
        query: dict[str, str | int] = {"container": self._container, "timestamps": "true"}
        if follows:
            query["follow"] = "true"
        if self._last_at:
            query["sinceTime"] = _whole_second(self._last_at)
        async with self._api.log(self._pod, query) as parts:
            async for line in _lines(parts):
                self._tell(line)
                if self.truncated:
                    return

    async def _read_end(self) -> None:
        query = {"container": self._container, "tailLines": END_LINES_MAX, "limitBytes": LINE_BYTES_MAX}
        async with self._api.log(self._pod, query) as parts:
            async for line in _lines(parts):
                self._end.append(line.decode("utf-8", "backslashreplace"))

    def _tell(self, line: bytes) -> None:
        at, _, text = line.decode("utf-8", "backslashreplace").partition(" ")
        if at <= self._last_at:
            return
        self._last_at = at
        self._left -= len(line)
        if self._left < 0:
            self.truncated = True
            self._ctx.log(f"(the log ends here: {self._bytes_max} bytes is the most that is kept)", "warning")
            return
        self._end.append(text)
        self._ctx.log(text)


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
    """The second in which an instant lies: the API reads no fractions there."""
    seconds, point, fraction = at.partition(".")
    return seconds + fraction.lstrip("0123456789") if point else at
