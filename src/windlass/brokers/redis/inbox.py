"""How far this process has read a shard's inbox on Redis.

Few messages come with the notification itself. They are the next ones only if the message before them was read, which
the notification names; else, and whenever in doubt, the inbox is read from where it was read to.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from windlass.brokers.notifier import Subscription

START = b"0-0"
# Messages that came by themselves and wait. Beyond that nobody seems to want them: they are read when somebody does.
TOLD_MAX = 5_000

Entry = tuple[bytes, bytes]


class Inbox:
    """The inbox of one shard, as this process sees it."""

    __slots__ = ("connection", "ear", "gathered", "is_behind", "is_fetching", "last", "reading", "told", "told_last")

    def __init__(self) -> None:
        self.ear = Subscription(())
        # The last message that was handed on.
        self.last = START
        # Which connection to the server it was read over, counted.
        self.connection = 0
        # The ids of messages that were gathered and not acknowledged.
        self.gathered: deque[bytes] = deque()
        # Counts rewinds: an answer that was under way meanwhile is not used.
        self.reading = 0
        # Messages that came with notifications, all those after `last`; and the last of them, or `last`.
        self.told: deque[Entry] = deque()
        self.told_last = START
        # Whether the inbox must be read: there may be messages that did not come by themselves.
        self.is_behind = True
        self.is_fetching = False

    def hear(self, notification: bytes) -> None:
        """Take the messages of a notification, if they are the next ones."""
        try:
            before, entries = _read(notification)
        except ValueError:
            self._fall_behind()
            return
        is_next = bool(entries) and _number(before) <= _number(self.told_last)
        if self.is_behind or self.is_fetching or not is_next or len(self.told) >= TOLD_MAX:
            self._fall_behind()
            return
        last = _number(self.told_last)
        if _number(entries[0][0]) <= last:
            # A fetch that was answered before this came brought some of them already.
            entries = [entry for entry in entries if _number(entry[0]) > last]
        self.told.extend(entries)
        if self.told:
            self.told_last = self.told[-1][0]

    def take_told(self, limit: int) -> Sequence[Entry]:
        """Hand on messages that came by themselves."""
        taken = list(islice(self.told, limit))
        for _ in taken:
            self.told.popleft()
        self.last = taken[-1][0]
        if self.told:
            self.ear.ring()
        return taken

    def begin_fetch(self) -> None:
        """All after `last` is asked for: what came by itself is in the answer."""
        self._fall_behind()
        self.is_behind = False
        self.is_fetching = True

    def end_fetch(self, last: bytes | None) -> None:
        """The answer is there, and reaches so far."""
        self.is_fetching = False
        if last is not None:
            self.last = self.told_last = last

    def rewind(self) -> None:
        """Begin again with what was not acknowledged."""
        self.last = START
        self.gathered.clear()
        self.reading += 1
        self._fall_behind()
        self.is_fetching = False
        self.ear.ring()

    def _fall_behind(self) -> None:
        self.told.clear()
        self.told_last = self.last
        self.is_behind = True


def _read(notification: bytes) -> tuple[bytes, Sequence[Entry]]:
    """The id of the message before, and the messages; ValueError."""
    head, _, bodies = notification.partition(b"\n")
    before, *parts = head.split(b" ")
    entries: list[Entry] = []
    start = 0
    for place, size in zip(parts[::2], parts[1::2], strict=True):
        stop = start + int(size)
        entries.append((place, bodies[start:stop]))
        start = stop
    return before, entries


def after(place: bytes) -> bytes:
    """The first id after one."""
    time, count = _number(place)
    return b"%d-%d" % (time, count + 1)


def _number(place: bytes) -> tuple[int, int]:
    time, _, count = place.partition(b"-")
    return int(time), int(count)
