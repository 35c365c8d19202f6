"""Parsing of server-sent events, and the backoff between attempts to reconnect."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

from windlass.core.errors import ApiError, WindlassError

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 2.0
STREAMED_BYTES_MAX = 64 << 20


class ReconnectBackoff:
    """Exponential pauses between attempts to reach a server, until it was away for too long."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self.reset()

    def reset(self) -> None:
        """Start over: the server has answered."""
        self._since = monotonic()
        self._pause = PAUSE_SECONDS_MIN

    async def pause(self, error: WindlassError) -> None:
        """Wait before the next attempt; raise `error` if the server was away for too long."""
        if monotonic() - self._since + self._pause > self._seconds_max:
            raise error
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)


class EventParser:
    """Splits the bytes of a stream into server-sent events; comments and events without an id are dropped."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._number: int | None = None
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[tuple[int, bytes]]:
        """Return the number and the data of each event that the chunk completes; ApiError if one is too large."""
        self._rest += chunk
        if len(self._rest) > STREAMED_BYTES_MAX:
            raise ApiError(
                f"the server sent an event of more than {STREAMED_BYTES_MAX} bytes", status=200
            )
        if b"\n" not in chunk:
            return []
        # Split bytes, not text: `str.splitlines` would also split at U+2028 inside JSON.
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        events: list[tuple[int, bytes]] = []
        for line in lines:
            event = self._line(line.rstrip(b"\r"))
            if event is not None:
                events.append(event)
        return events

    def _line(self, line: bytes) -> tuple[int, bytes] | None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and value.isdigit():
            self._number = int(value)
        elif name == b"data":
            self._data.append(value)
        elif not line and self._number is not None and self._data:
            event = (self._number, b"\n".join(self._data))
            self._number, self._data = None, []
            return event
        return None


async def parse_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the number and the data of each server-sent event."""
    parser = EventParser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event
