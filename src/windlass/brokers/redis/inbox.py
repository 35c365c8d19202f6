"""The inbox of a shard on Redis, as this process reads it.

A notification contains its messages when they are few ("pushed" messages). They are used if this process has read the
preceding message, which the notification names. In all other cases the stream is fetched from the last position.
"""

import logging
from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec

from windlass.brokers.notifier import Subscription
from windlass.brokers.redis.channel_listener import ChannelListener
from windlass.brokers.redis.connection import RedisConnection
from windlass.core.messages import Message
from windlass.ports.message_codec import decode_message

START = b"0-0"
# Pushed messages that are kept. Beyond that they are fetched when they are wanted.
PUSHED_MAX = 5_000

Entry = tuple[bytes, bytes]
log = logging.getLogger("windlass.brokers")


class InboxPosition:
    """How far an inbox was read, and the pushed messages that come next."""

    __slots__ = ("is_fetch_needed", "is_fetching", "last", "pushed", "pushed_last")

    def __init__(self) -> None:
        # The id of the last message that was returned to the caller.
        self.last = START
        # All pushed messages after `last`, and the id of the last one (or `last`).
        self.pushed: deque[Entry] = deque()
        self.pushed_last = START
        # Whether there may be messages that were not pushed.
        self.is_fetch_needed = True
        self.is_fetching = False

    def push(self, notification: bytes) -> None:
        """Keep the messages of a notification if they are the next ones."""
        try:
            preceding, entries = _parse(notification)
        except ValueError:
            self.require_fetch()
            return
        last = _number(self.pushed_last)
        has_gap = not entries or _number(preceding) > last
        if has_gap or self.is_fetch_needed or self.is_fetching or len(self.pushed) >= PUSHED_MAX:
            self.require_fetch()
            return
        if _number(entries[0][0]) <= last:
            # A fetch that was answered before this notification returned some of them.
            entries = [entry for entry in entries if _number(entry[0]) > last]
        self.pushed.extend(entries)
        if self.pushed:
            self.pushed_last = self.pushed[-1][0]

    def take_pushed(self, limit: int) -> Sequence[Entry]:
        """Return the next pushed messages."""
        taken = list(islice(self.pushed, limit))
        for _ in taken:
            self.pushed.popleft()
        self.last = taken[-1][0]
        return taken

    def begin_fetch(self) -> None:
        """Prepare to fetch everything after `last`, which includes the pushed messages."""
        self.require_fetch()
        self.is_fetch_needed = False
        self.is_fetching = True

    def end_fetch(self, last: bytes | None) -> None:
        """Record that the fetch returned messages up to `last`, or none."""
        self.is_fetching = False
        if last is not None:
            self.last = self.pushed_last = last

    def rewind(self) -> None:
        """Start again at the beginning of the stream."""
        self.last = START
        self.is_fetching = False
        self.require_fetch()

    def require_fetch(self) -> None:
        """Discard the pushed messages; the next read fetches."""
        self.pushed.clear()
        self.pushed_last = self.last
        self.is_fetch_needed = True


class RedisInbox:
    """Receives and acknowledges the messages of one shard."""

    def __init__(
        self, shard: int, prefix: str, connection: RedisConnection, listener: ChannelListener
    ) -> None:
        self._shard = shard
        self._key = f"{prefix}inbox:{shard}"
        self._connection = connection
        self._notifier = listener.notifier
        self._position = InboxPosition()
        # The ids of received messages that are not acknowledged.
        self._received: deque[bytes] = deque()
        self._acknowledged = START
        # The number of the connection that was used last: a new one may lead to a server without our data.
        self._connection_number = 0
        # Counts rewinds: the answer to a fetch that began before one is discarded.
        self._rewinds = 0
        self._subscription: Subscription = listener.subscribe(
            [f"inbox:{shard}"], self._position.push
        )

    def wake(self) -> None:
        """End a wait of this process."""
        self._subscription.wake()

    async def receive(self, limit: int, wait_seconds: float) -> Sequence[Message]:
        """Return the next messages; wait for the first one."""
        return await self._notifier.fetch_when_notified(
            self._subscription, lambda: self._read(limit), limit, wait_seconds
        )

    async def _read(self, limit: int) -> Sequence[Message]:
        position = self._position
        if position.pushed and not position.is_fetch_needed:
            entries = position.take_pushed(limit)
            if position.pushed:
                self._subscription.notify()
        else:
            entries = await self._fetch(limit)
        messages: list[Message] = []
        for entry_id, encoded in entries:
            try:
                messages.append(decode_message(encoded))
            except msgspec.DecodeError:
                # It is removed when a later one is acknowledged.
                log.warning(
                    "skipping an invalid message to shard %d: %r", self._shard, encoded[:200]
                )
            else:
                self._received.append(entry_id)
        return messages

    async def _fetch(self, limit: int) -> Sequence[Entry]:
        rewinds = self._rewinds
        position = self._position
        await self._check_server()
        position.begin_fetch()
        try:
            answer = await self._connection.call(
                "XREAD", "COUNT", limit, "STREAMS", self._key, position.last
            )
        except BaseException:
            position.end_fetch(None)
            raise
        if rewinds != self._rewinds:
            self._subscription.notify()
            return ()
        if not answer:
            position.end_fetch(None)
            return ()
        entries = [(entry_id, encoded) for entry_id, (_, encoded) in answer[0][1]]
        if len(entries) >= limit:
            # Here rather than by the caller, because some of them may be invalid.
            self._subscription.notify()
        position.end_fetch(entries[-1][0])
        return entries

    async def _check_server(self) -> None:
        """On a new connection: acknowledge again, or start over if the server lost its data and its ids are lower."""
        if self._connection_number == self._connection.connections:
            return
        self._connection_number = self._connection.connections
        position = self._position
        known = max(position.last, self._acknowledged, key=_number)
        if known == START:
            return
        if await self._connection.run("is_beyond", [self._shard, known]):
            # Acknowledging what was received before must not remove new messages.
            self._received = deque([START] * len(self._received))
            position.last = self._acknowledged = START
        else:
            self._trim()

    async def acknowledge(self, count: int) -> None:
        """Remove the oldest received messages."""
        last: bytes | None = None
        for _ in range(min(count, len(self._received))):
            last = self._received.popleft()
        if last is not None:
            self._acknowledged = last
            self._trim()

    def _trim(self) -> None:
        """Remove everything up to the last acknowledged message: messages are received in order.

        No need to wait for the answer. A message that is received again changes nothing.
        """
        self._connection.defer("XTRIM", self._key, "MINID", _next_id(self._acknowledged))

    async def rewind(self) -> None:
        """Receive again from the oldest unacknowledged message."""
        self._received.clear()
        self._rewinds += 1
        self._position.rewind()
        self._subscription.notify()


def _parse(notification: bytes) -> tuple[bytes, Sequence[Entry]]:
    """Return the id of the preceding message and the messages. Raises ValueError."""
    head, _, bodies = notification.partition(b"\n")
    preceding, *parts = head.split(b" ")
    entries: list[Entry] = []
    start = 0
    for entry_id, size in zip(parts[::2], parts[1::2], strict=True):
        stop = start + int(size)
        entries.append((entry_id, bodies[start:stop]))
        start = stop
    return preceding, entries


def _next_id(entry_id: bytes) -> bytes:
    time, count = _number(entry_id)
    return b"%d-%d" % (time, count + 1)


def _number(entry_id: bytes) -> tuple[int, int]:
    time, _, count = entry_id.partition(b"-")
    return int(time), int(count)
