"""Server-sent events: the data of each, cut from bytes that arrive in pieces of any size."""

import re
from collections.abc import Iterator

from windlass.core.errors import RetryableError

EVENT_BYTES_MAX = 1024 * 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CR = 13


class EventTooLarge(RetryableError):
    """One event of a stream has no end."""

    type = "body_invalid"


class EventReader:
    """Reads one stream."""

    def __init__(self) -> None:
        self._rest = bytearray()
        # Where to look for the end of a line: what was looked through before holds none.
        self._look_at = 0
        self._data: list[str] = []
        self._size = 0

    def feed(self, part: bytes) -> Iterator[str]:
        """The data of the events that `part` completes."""
        self._rest += part
        start = 0
        while (end := _LINE_END.search(self._rest, max(start, self._look_at))) is not None:
            # A CR at the very end may be the first half of a CRLF.
            if end.end() == len(self._rest) and self._rest[-1] == _CR:
                break
            line = bytes(self._rest[start : end.start()])
            start = end.end()
            if line:
                self._take(line)
            elif self._data:
                yield self._event()
        del self._rest[:start]
        self._look_at = max(len(self._rest) - 1, 0)
        if len(self._rest) + self._size > EVENT_BYTES_MAX:
            raise EventTooLarge(f"an event of the stream has more than {EVENT_BYTES_MAX} bytes")

    def end(self) -> Iterator[str]:
        """The last event, if its lines are whole and only the empty one after it is missing."""
        if self._data:
            yield self._event()

    def _take(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._size += len(line)

    def _event(self) -> str:
        data, self._data, self._size = "\n".join(self._data), [], 0
        return data
