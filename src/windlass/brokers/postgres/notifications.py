"""Notifications of the PostgreSQL broker, sent after the transactions they belong to."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from windlass.brokers.notifier import Notifier, Subscription
from windlass.brokers.postgres.connection import (
    RETRY_SECONDS_MAX,
    RETRY_SECONDS_MIN,
    PostgresBrokerConnector,
    PostgresBrokerPool,
)
from windlass.core.errors import BrokerUnavailable
from windlass.ports.broker import ALL_QUEUES

# How often waiters poll: the process that should notify them may have crashed just before.
POLL_SECONDS = 1.0
PING_SECONDS = 5.0
# PostgreSQL serializes the commits of notifying transactions, so each process sends at most this often.
NOTIFY_SECONDS_MIN = 0.002
NOTIFY_CHANNEL = "windlass_broker"
PAYLOAD_BYTES_MAX = 7_000
# Precedes the ids of finished jobs and applied requests.
DONE_PREFIX = "done:"

log = logging.getLogger("windlass.brokers")


class PostgresNotifications:
    """Notifies the waiters of this process and, through the server, those of the others."""

    def __init__(self, connector: PostgresBrokerConnector, pool: PostgresBrokerPool) -> None:
        self.notifier = Notifier(POLL_SECONDS)
        self._connector = connector
        self._pool = pool
        # An ordered set: repeated entries are sent once. Not a Batcher, because no caller waits for the sending.
        self._unsent: dict[str, None] = {}
        self._done_callbacks: list[Callable[[Sequence[str]], None]] = []
        self._sending: asyncio.Task[None] | None = None
        self._listening = asyncio.ensure_future(self._listen())

    def subscribe(self, channels: Sequence[str]) -> Subscription:
        """Return a new subscription to these channels."""
        subscription = Subscription(channels)
        self.notifier.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self.notifier.remove(subscription)

    def notify_queues(self, queues: Iterable[str]) -> None:
        """Notify the workers that serve these queues."""
        channels = [f"work:{queue}" for queue in dict.fromkeys(queues)]
        if channels:
            self._notify([*channels, f"work:{ALL_QUEUES}"])

    def notify_cancelled(self, worker_ids: Iterable[str]) -> None:
        """Notify workers that tasks they hold were cancelled."""
        self._notify([f"cancel:{worker_id}" for worker_id in dict.fromkeys(worker_ids)])

    def notify_shards(self, shards: Iterable[int]) -> None:
        """Notify the owners of these shards."""
        self._notify([f"inbox:{shard}" for shard in dict.fromkeys(shards)])

    def _notify(self, channels: Sequence[str]) -> None:
        for channel in channels:
            self.notifier.notify(channel)
        self._send_soon(channels)

    def notify_done(self, ids: Sequence[str]) -> None:
        """Notify every process that jobs finished or requests were applied."""
        self._send_soon([DONE_PREFIX + done_id for done_id in ids])

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        """Call `callback` with the ids of every such notification."""
        self._done_callbacks.append(callback)

    def _send_soon(self, entries: Sequence[str]) -> None:
        self._unsent.update(dict.fromkeys(entries))
        if entries and self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        try:
            while self._unsent:
                entries, self._unsent = list(self._unsent), {}
                try:
                    await self._pool.fetch("notify", NOTIFY_CHANNEL, _payloads(entries))
                except BrokerUnavailable as failure:
                    # Waiters poll every second.
                    log.warning("a notification was not sent: %s", failure)
                await asyncio.sleep(NOTIFY_SECONDS_MIN)
        finally:
            self._sending = None

    async def _listen(self) -> None:
        pause = RETRY_SECONDS_MIN
        while True:
            try:
                await self._listen_once()
            except self._connector.failures as failure:
                if self.notifier.is_connected:
                    log.warning(
                        "no notifications from PostgreSQL at %s, reconnecting: %s",
                        self._connector.address,
                        failure,
                    )
                    pause = RETRY_SECONDS_MIN
            self.notifier.is_connected = False
            self.notifier.notify_all()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def _listen_once(self) -> None:
        """Receive notifications until the connection fails."""
        connection = await self._connector.connect()
        try:
            await connection.add_listener(NOTIFY_CHANNEL, self._on_notification)
            self.notifier.is_connected = True
            # Notifications sent before this were missed.
            self.notifier.notify_all()
            while True:
                await asyncio.sleep(PING_SECONDS)
                await connection.execute("select 1")
        finally:
            connection.terminate()

    def _on_notification(
        self, connection: object, process: object, channel: object, payload: str
    ) -> None:
        done: list[str] = []
        for entry in payload.split("\n"):
            if entry.startswith(DONE_PREFIX):
                done.append(entry.removeprefix(DONE_PREFIX))
            else:
                self.notifier.notify(entry)
        if done:
            for callback in self._done_callbacks:
                callback(done)

    async def aclose(self) -> None:
        """Stop listening and sending."""
        for task in (self._listening, self._sending):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def _payloads(entries: Sequence[str]) -> list[str]:
    """Join entries into few payloads of limited size."""
    parts: list[list[str]] = []
    room = 0
    for entry in entries:
        size = len(entry.encode()) + 1
        if not parts or size > room:
            parts.append([])
            room = PAYLOAD_BYTES_MAX
        parts[-1].append(entry)
        room -= size
    return ["\n".join(part) for part in parts]
