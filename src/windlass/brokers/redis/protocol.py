"""Connections to a Redis server: the driver makes them, and from then on bytes go straight in and out.

The driver's own way of reading and writing takes several times as long as all else that an engine does for a task.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

CONNECT_SECONDS_MAX = 3.0

Argument = str | bytes | int | float
Hear = Callable[[Any], None]

_NOTHING_YET = object()


class Dial:
    """Makes connections to the server of a URL."""

    def __init__(self, url: str) -> None:
        # The driver takes a third of a second to import: only those who use Redis pay for it.
        import hiredis
        from redis.asyncio.connection import Connection, parse_url
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError, ResponseError

        options: dict[str, Any] = dict(parse_url(url))
        self._kind: Any = options.pop("connection_class", Connection)
        # Retries, time limits and health are the link's business: the driver's own would repeat a script unseen, and
        # its read limit would end every quiet subscription. RESP 2 has neither push messages nor maintenance ones.
        self._options = {**options, "protocol": 2, "socket_timeout": None, "retry": Retry(NoBackoff(), 0)}
        self._options["socket_connect_timeout"] = CONNECT_SECONDS_MAX
        self._hiredis: Any = hiredis
        self.refused: type[Exception] = ResponseError
        self.failures: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        parts = urlsplit(url)
        self.place = f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path

    async def connect(self, hear: Hear) -> "Wire":
        """A new connection, whose answers are given to `hear`; one of `failures`."""
        driver = self._kind(**self._options)
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await driver.connect()
        except BaseException:
            await driver.disconnect(nowait=True)
            raise
        kinds = {"protocolError": ConnectionError, "replyError": self.refused, "notEnoughData": _NOTHING_YET}
        return Wire(driver, driver._writer.transport, self._hiredis.Reader(**kinds), self._hiredis.pack_command, hear)


class Wire:
    """One connection. The event loop calls it for what arrives; an error that the server answers is heard like any
    other answer."""

    def __init__(self, driver: Any, transport: Any, reader: Any, pack: Callable[..., bytes], hear: Hear) -> None:
        # Kept, since the driver closes the connection when it is forgotten.
        self._driver = driver
        self._transport = transport
        self._reader = reader
        self._pack = pack
        self._hear = hear
        # Done once the connection is lost.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whether the server takes no more for the moment; `on_room` is called once it does.
        self.is_full = False
        self.on_room: Callable[[], None] | None = None
        transport.set_protocol(self)

    def send(self, commands: Sequence[Sequence[Argument]]) -> None:
        """Write commands; what cannot be delivered shows in `lost`."""
        self._transport.write(b"".join([self._pack(tuple(command)) for command in commands]))

    def cut(self) -> None:
        """End the connection at once; `lost` tells of it."""
        self._transport.abort()

    async def aclose(self) -> None:
        """End the connection, and let the driver forget it."""
        self._transport.abort()
        await self._driver.disconnect(nowait=True)

    # What the event loop calls

    def connection_made(self, transport: object) -> None:
        """It was made before this was there."""

    def data_received(self, data: bytes) -> None:
        """Hear every answer that is complete."""
        reader = self._reader
        try:
            reader.feed(data)
            while (answer := reader.gets()) is not _NOTHING_YET:
                self._hear(answer)
        except ConnectionError:
            # Not the protocol of Redis: nothing that follows can be understood.
            self._transport.abort()

    def eof_received(self) -> bool:
        """The server ends the connection, and so does this side."""
        return False

    def connection_lost(self, failure: Exception | None) -> None:
        """Say so to whoever waits."""
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        """Too much is on its way already."""
        self.is_full = True

    def resume_writing(self) -> None:
        """There is room again."""
        self.is_full = False
        if self.on_room is not None:
            self.on_room()
