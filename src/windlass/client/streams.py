"""What a client needs to follow a stream to its end: events out of bytes, and patience with servers that go away."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

from windlass.core.errors import ApiError, WindlassError

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 2.0
STREAMED_BYTES_MAX = 64 << 20


class Patience:
    """Pauses between attempts to reach a server, longer each time, until it has been away for too long."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self.renew()

    def renew(self) -> None:
        """The server is there."""
        self._since = monotonic()
        self._pause = PAUSE_SECONDS_MIN

    async def pause(self, error: WindlassError) -> None:
        """Wait before the next attempt; raises the error once there was none for too long."""
        if monotonic() - self._since + self._pause > self._seconds_max:
            raise error
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)


async def messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[int, bytes]]:
    """Server-sent events as their number and their data; comments and what came without a number are left out."""
    rest = bytearray()
    number: int | None = None
    data: list[bytes] = []
    async for chunk in chunks:
        rest += chunk
        if len(rest) > STREAMED_BYTES_MAX:
            raise ApiError(f"the server sent an event of more than {STREAMED_BYTES_MAX} bytes", status=200)
        if b"\n" not in chunk:
            continue
        # By bytes: a text would also be split where JSON holds U+2028 and its like.
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"id" and value.isdigit():
                number = int(value)
            elif name == b"data":
                data.append(value)
            elif not name and not value and number is not None and data:
                yield number, b"\n".join(data)
                number, data = None, []
