"""The inbox of a shard on PostgreSQL, as this process reads it."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from windlass.brokers.postgres.connection import PostgresBrokerPool
from windlass.brokers.postgres.notifications import PostgresNotifications
from windlass.core.messages import Message
from windlass.ports.message_codec import decode_message

# Longer than any statement of the broker: below a number that was read so long ago, no message is still uncommitted.
LATE_SECONDS_MAX = 30.0

log = logging.getLogger("windlass.brokers")


class PostgresInbox:
    """Receives and acknowledges the messages of one shard."""

    def __init__(
        self, shard: int, pool: PostgresBrokerPool, notifications: PostgresNotifications
    ) -> None:
        self._shard = shard
        self._pool = pool
        self._notifier = notifications.notifier
        self._subscription = notifications.subscribe([f"inbox:{shard}"])
        # The numbers of received messages that are not acknowledged, oldest first.
        self._received: deque[int] = deque()
        self._invalid: set[int] = set()
        # Messages up to this number are not searched for any more.
        self._lower_bound = 0
        # The highest number at several earlier times, to raise the lower bound.
        self._marks: deque[tuple[float, int]] = deque()
        # Counts rewinds: the answer to a query that began before one is discarded.
        self._rewinds = 0

    def wake(self) -> None:
        """End a wait of this process."""
        self._subscription.wake()

    async def receive(self, limit: int, wait_seconds: float) -> Sequence[Message]:
        """Return the next messages; wait for the first one."""
        return await self._notifier.fetch_when_notified(
            self._subscription, lambda: self._read(limit), limit, wait_seconds
        )

    async def _read(self, limit: int) -> Sequence[Message]:
        rewinds, at = self._rewinds, asyncio.get_running_loop().time()
        known = [*self._received, *self._invalid]
        rows = await self._pool.fetch("receive", self._shard, self._lower_bound, known, limit)
        if rewinds != self._rewinds:
            self._subscription.notify()
            return ()
        messages: list[Message] = []
        for number, encoded in rows:
            try:
                messages.append(decode_message(encoded))
            except msgspec.DecodeError:
                log.warning(
                    "skipping an invalid message to shard %d: %r", self._shard, encoded[:200]
                )
                self._invalid.add(number)
            else:
                self._received.append(number)
        if rows:
            self._raise_lower_bound(at, rows[-1][0])
        if len(rows) >= limit:
            # Here rather than by the caller, because some of them may be invalid.
            self._subscription.notify()
        return messages

    def _raise_lower_bound(self, at: float, number: int) -> None:
        """Record the number that was read now, and raise the lower bound to one that was read long ago."""
        if not self._marks or at > self._marks[-1][0] + 1.0:
            self._marks.append((at, number))
        while self._marks and self._marks[0][0] < at - LATE_SECONDS_MAX:
            self._lower_bound = max(self._lower_bound, self._marks.popleft()[1])

    async def acknowledge(self, count: int) -> None:
        """Remove the oldest received messages, and the invalid ones."""
        numbers = [self._received.popleft() for _ in range(min(count, len(self._received)))]
        if numbers:
            numbers += self._invalid
            self._invalid.clear()
            await self._pool.fetch("acknowledge", self._shard, numbers)

    async def rewind(self) -> None:
        """Receive again from the oldest unacknowledged message."""
        self._received.clear()
        self._invalid.clear()
        self._marks.clear()
        self._lower_bound = 0
        self._rewinds += 1
        self._subscription.notify()
