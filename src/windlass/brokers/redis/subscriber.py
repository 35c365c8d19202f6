"""Listens to a Redis server's channels on a connection of its own, and rings the ears of this process."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from windlass.brokers.notifier import Notifier, Subscription
from windlass.brokers.redis.connection import RETRY_SECONDS_MAX, RETRY_SECONDS_MIN
from windlass.brokers.redis.protocol import Argument, Dial, Wire

# How often the server is asked whether it is still there; twice as long without a word, and the connection is dropped.
PULSE_SECONDS = 5.0

log = logging.getLogger("windlass.brokers")


class ChannelListener:
    """Keeps the channels of `bells` subscribed while anybody wants to hear them."""

    def __init__(self, dial: Dial, prefix: str) -> None:
        # Redis either tells or ends the connection: nobody needs to look without having heard.
        self.bells = Notifier(math.inf)
        self._dial = dial
        self._prefix = prefix
        self._wire: Wire | None = None
        self._heard_at = 0.0
        self._running: asyncio.Task[None] | None = None
        self._hearing: dict[str, Callable[[bytes], None]] = {}
        self._wanted: list[Sequence[Argument]] = []
        self._news = asyncio.Event()

    def listen(self, channels: Sequence[str], hear: Callable[[bytes], None] | None = None) -> Subscription:
        """A new ear for some channels. It is rung as soon as it can really hear.

        `hear` gets what a notification of the first channel says, before the ear is rung; nothing where one may have
        been missed.
        """
        ear = Subscription(channels)
        if hear is not None:
            self._hearing[channels[0]] = hear
        self._tell("SUBSCRIBE", self.bells.add(ear))
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        return ear

    def forget(self, ear: Subscription) -> None:
        """Nobody waits with this ear any more."""
        self._tell("UNSUBSCRIBE", self.bells.remove(ear))

    def _tell(self, verb: str, channels: Sequence[str]) -> None:
        # Without a connection there is nothing to tell: the next one begins with all channels.
        if channels and self._wire is not None:
            self._wanted.append([verb, *(self._prefix + channel for channel in channels)])
            self._news.set()

    async def _run(self) -> None:
        pause = RETRY_SECONDS_MIN
        while True:
            try:
                wire = await self._dial.connect(self._hear)
                try:
                    await self._serve(wire)
                finally:
                    self._wire = None
                    await wire.aclose()
            except self._dial.failures as failure:
                if not self.bells.are_silent:
                    log.warning("no notifications from Redis at %s (%s): trying again", self._dial.place, failure)
                    pause = RETRY_SECONDS_MIN
            # Whoever waits looks by itself until notifications come again.
            self.bells.are_silent = True
            self.bells.ring_all()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def _serve(self, wire: Wire) -> None:
        """Tell the server what is wanted, until the connection fails."""
        self._wire = wire
        self._wanted.clear()
        self._heard_at = asyncio.get_running_loop().time()
        self._tell("SUBSCRIBE", self.bells.channels)
        wire.lost.add_done_callback(lambda _: self._news.set())
        while not wire.lost.done():
            await self._write(wire)
        raise ConnectionError("the connection was lost")

    async def _write(self, wire: Wire) -> None:
        if not self._wanted:
            self._news.clear()
            try:
                async with asyncio.timeout(PULSE_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                if asyncio.get_running_loop().time() - self._heard_at > 2 * PULSE_SECONDS:
                    raise ConnectionError("the server is silent") from None
                self._wanted.append(["PING"])
        wanted, self._wanted = self._wanted, []
        if wanted:
            wire.send(wanted)

    def _hear(self, told: Any) -> None:
        if isinstance(told, Exception):
            log.warning("Redis at %s refused a subscription: %s", self._dial.place, told)
            if self._wire is not None:
                self._wire.cut()
            return
        self._heard_at = asyncio.get_running_loop().time()
        if told[0] in (b"message", b"subscribe"):
            if told[0] == b"subscribe":
                self.bells.are_silent = False
            channel = told[1].decode().removeprefix(self._prefix)
            hear = self._hearing.get(channel)
            if hear is not None:
                hear(told[2] if told[0] == b"message" else b"")
            # Also when a subscription begins: what was said just before it must be looked for.
            self.bells.ring(channel)

    async def aclose(self) -> None:
        """Stop listening."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
