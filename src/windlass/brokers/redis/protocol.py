"""Connections to a Redis server: the driver opens them, then bytes are written and parsed here directly.

The driver's own reading and writing is avoided because an engine does both for every task.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from windlass.concurrency.futures import resolve

CONNECT_SECONDS_MAX = 3.0

Argument = str | bytes | int | float
OnAnswer = Callable[[Any], None]

_INCOMPLETE = object()


class RedisConnector:
    """Opens connections to the server of a URL."""

    def __init__(self, url: str) -> None:
        # Imported late: the driver takes a third of a second to import.
        import hiredis
        from redis.asyncio.connection import Connection, parse_url
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError, ResponseError

        options: dict[str, Any] = dict(parse_url(url))
        self._connection_class: Any = options.pop("connection_class", Connection)
        # RedisConnection retries and times out. The driver's retries would repeat a script unnoticed, and its read
        # timeout would end an idle subscription. RESP 2 has no push messages.
        self._options = {
            **options,
            "protocol": 2,
            "socket_timeout": None,
            "retry": Retry(NoBackoff(), 0),
        }
        self._options["socket_connect_timeout"] = CONNECT_SECONDS_MAX
        self._hiredis: Any = hiredis
        # What the server answers to a command that it does not execute.
        self.refused: type[Exception] = ResponseError
        self.failures: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        parts = urlsplit(url)
        self.address = f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path

    async def connect(self, on_answer: OnAnswer) -> "RedisProtocol":
        """Open a connection that passes each answer to `on_answer`. Raises one of `failures`."""
        driver = self._connection_class(**self._options)
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await driver.connect()
        except BaseException:
            await driver.disconnect(nowait=True)
            raise
        reader = self._hiredis.Reader(
            protocolError=ConnectionError, replyError=self.refused, notEnoughData=_INCOMPLETE
        )
        return RedisProtocol(driver, reader, self._hiredis.pack_command, on_answer)


class RedisProtocol:
    """The asyncio protocol of one connection. Error answers are passed on like other answers."""

    def __init__(
        self, driver: Any, reader: Any, pack: Callable[..., bytes], on_answer: OnAnswer
    ) -> None:
        # Referenced because the driver closes the connection when it is garbage collected.
        self._driver = driver
        self._transport: Any = driver._writer.transport
        self._reader = reader
        self._pack = pack
        self._on_answer = on_answer
        # Done once the connection is lost.
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whether the write buffer is full; `on_writable` is called when it has room again.
        self.is_full = False
        self.on_writable: Callable[[], None] | None = None
        self._transport.set_protocol(self)

    def send(self, commands: Sequence[Sequence[Argument]]) -> None:
        """Write commands. A failure to deliver them shows in `lost`."""
        self._transport.write(b"".join([self._pack(tuple(command)) for command in commands]))

    def abort(self) -> None:
        """Close the connection at once; `lost` is set."""
        self._transport.abort()

    async def aclose(self) -> None:
        """Close the connection and release the driver's resources."""
        self._transport.abort()
        await self._driver.disconnect(nowait=True)

    # Called by the event loop

    def connection_made(self, transport: object) -> None:
        """Do nothing: the connection was made before this protocol was set."""

    def data_received(self, data: bytes) -> None:
        """Pass on every complete answer."""
        reader = self._reader
        try:
            reader.feed(data)
            while (answer := reader.gets()) is not _INCOMPLETE:
                self._on_answer(answer)
        except ConnectionError:
            # Not the Redis protocol: nothing that follows can be parsed.
            self._transport.abort()

    def eof_received(self) -> bool:
        """Close this side too."""
        return False

    def connection_lost(self, failure: Exception | None) -> None:
        """Set `lost`."""
        resolve(self.lost, None)

    def pause_writing(self) -> None:
        """Stop writing: the buffer is full."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Continue writing."""
        self.is_full = False
        if self.on_writable is not None:
            self.on_writable()
