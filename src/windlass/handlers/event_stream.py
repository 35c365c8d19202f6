"""Server-sent events: the data of each event, parsed from bytes that arrive in parts of any size."""

import re
from collections.abc import Iterator

from windlass.core.errors import RetryableError

EVENT_BYTES_MAX = 1024 * 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CR = 13


class EventTooLarge(RetryableError):
    """An event of the stream exceeds the limit."""

    type = "body_invalid"


class EventReader:
    """Parses one stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        # Where to search for the end of a line: everything before was searched already.
        self._search_from = 0
        self._data: list[str] = []
        self._size = 0

    def feed(self, part: bytes) -> Iterator[str]:
        """Yield the data of the events that `part` completes."""
        self._buffer += part
        start = 0
        while (end := _LINE_END.search(self._buffer, max(start, self._search_from))) is not None:
            # A CR at the very end may be the first half of a CRLF.
            if end.end() == len(self._buffer) and self._buffer[-1] == _CR:
                break
            line = bytes(self._buffer[start : end.start()])
            start = end.end()
            if line:
                self._add_line(line)
            elif self._data:
                yield self._complete_event()
        del self._buffer[:start]
        self._search_from = max(len(self._buffer) - 1, 0)
        if len(self._buffer) + self._size > EVENT_BYTES_MAX:
            raise EventTooLarge(f"event of the stream too large: more than {EVENT_BYTES_MAX} bytes")

    def end(self) -> Iterator[str]:
        """Yield the last event if its lines are complete and only the empty line after it is missing."""
        if self._data:
            yield self._complete_event()

    def _add_line(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._size += len(line)

    def _complete_event(self) -> str:
        data = "\n".join(self._data)
        self._data = []
        self._size = 0
        return data
