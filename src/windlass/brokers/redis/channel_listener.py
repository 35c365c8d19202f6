"""Receives the notifications of a Redis server on a connection of its own and passes them to subscriptions."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from windlass.brokers.notifier import Notifier, Subscription
from windlass.brokers.redis.connection import RETRY_SECONDS_MAX, RETRY_SECONDS_MIN
from windlass.brokers.redis.protocol import Argument, RedisConnector, RedisProtocol

# Interval of pings. After two intervals without an answer the connection is closed.
PING_SECONDS = 5.0

log = logging.getLogger("windlass.brokers")


class ChannelListener:
    """Keeps the server's subscriptions equal to the channels of `notifier`."""

    def __init__(self, connector: RedisConnector, prefix: str) -> None:
        # Redis either delivers a notification or closes the connection, so waiters need not poll.
        self.notifier = Notifier(math.inf)
        self._connector = connector
        self._prefix = prefix
        self._protocol: RedisProtocol | None = None
        self._answered_at = 0.0
        self._running: asyncio.Task[None] | None = None
        self._callbacks: dict[str, Callable[[bytes], None]] = {}
        self._unsent: list[Sequence[Argument]] = []
        self._has_work = asyncio.Event()

    def subscribe(
        self, channels: Sequence[str], on_notification: Callable[[bytes], None] | None = None
    ) -> Subscription:
        """Return a new subscription. It is notified once the server has confirmed it.

        `on_notification` gets the payload of the first channel's notifications before the subscription is notified;
        an empty payload when notifications may have been missed.
        """
        subscription = Subscription(channels)
        if on_notification is not None:
            self._callbacks[channels[0]] = on_notification
        self._send("SUBSCRIBE", self.notifier.add(subscription))
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self._send("UNSUBSCRIBE", self.notifier.remove(subscription))

    def _send(self, verb: str, channels: Sequence[str]) -> None:
        # Without a connection there is nothing to send: a new one starts by subscribing to all channels.
        if channels and self._protocol is not None:
            self._unsent.append([verb, *(self._prefix + channel for channel in channels)])
            self._has_work.set()

    async def _run(self) -> None:
        pause = RETRY_SECONDS_MIN
        while True:
            try:
                protocol = await self._connector.connect(self._on_answer)
                try:
                    await self._serve(protocol)
                finally:
                    self._protocol = None
                    await protocol.aclose()
            except self._connector.failures as failure:
                if self.notifier.is_connected:
                    log.warning(
                        "no notifications from Redis at %s, reconnecting: %s",
                        self._connector.address,
                        failure,
                    )
                    pause = RETRY_SECONDS_MIN
            # Waiters poll until the connection is back.
            self.notifier.is_connected = False
            self.notifier.notify_all()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def _serve(self, protocol: RedisProtocol) -> None:
        """Send subscriptions and pings until the connection fails."""
        self._protocol = protocol
        self._unsent.clear()
        self._answered_at = asyncio.get_running_loop().time()
        self._send("SUBSCRIBE", self.notifier.channels)
        protocol.lost.add_done_callback(lambda _: self._has_work.set())
        while not protocol.lost.done():
            await self._write(protocol)
        raise ConnectionError("the connection was lost")

    async def _write(self, protocol: RedisProtocol) -> None:
        if not self._unsent:
            self._has_work.clear()
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await self._has_work.wait()
            except TimeoutError:
                if asyncio.get_running_loop().time() - self._answered_at > 2 * PING_SECONDS:
                    raise ConnectionError("the server does not answer") from None
                self._unsent.append(["PING"])
        unsent, self._unsent = self._unsent, []
        if unsent:
            protocol.send(unsent)

    def _on_answer(self, answer: Any) -> None:
        if isinstance(answer, Exception):
            log.warning("Redis at %s refused a subscription: %s", self._connector.address, answer)
            if self._protocol is not None:
                self._protocol.abort()
            return
        self._answered_at = asyncio.get_running_loop().time()
        if answer[0] == b"message":
            self._on_notification(answer[1], answer[2])
        elif answer[0] == b"subscribe":
            self.notifier.is_connected = True
            # Notifications sent just before the subscription were missed.
            self._on_notification(answer[1], b"")

    def _on_notification(self, name: bytes, payload: bytes) -> None:
        channel = name.decode().removeprefix(self._prefix)
        callback = self._callbacks.get(channel)
        if callback is not None:
            callback(payload)
        self.notifier.notify(channel)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
