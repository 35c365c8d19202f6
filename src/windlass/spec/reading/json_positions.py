"""Find the positions of keys and values in well-formed JSON texts."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct

from windlass.spec.reading.findings import Path, Position, Target

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s"{}\[\],:]+)')


class Token(Struct, frozen=True, gc=False):
    """A key or the start of a value, with its path and its offset in the text."""

    path: Path
    is_key: bool
    text: str
    offset: int


class Lines:
    """Converts offsets to lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)


class _Cursor:
    """The path of the current token, maintained from the punctuation before it."""

    def __init__(self) -> None:
        self.path: list[str | int] = []
        self.expects_key = False
        # For each open collection: whether it is an object.
        self._in_object: list[bool] = []

    def open(self, bracket: str) -> None:
        """Enter an object or a list."""
        is_object = bracket == "{"
        self._in_object.append(is_object)
        self.expects_key = is_object
        if not is_object:
            self.path.append(0)

    def close(self) -> None:
        """Leave the innermost collection. An object that expects a key is empty and has no last key on the path."""
        is_object = self._in_object.pop()
        if self.path and not (is_object and self.expects_key):
            self.path.pop()
        self.expects_key = False

    def next_entry(self) -> None:
        """Pass a comma."""
        if self._in_object[-1]:
            self.expects_key = True
            self.path.pop()
        else:
            self.path[-1] = int(self.path[-1]) + 1

    def enter_key(self, key: str) -> None:
        """Read a key; its value follows."""
        self.path.append(key)


def iterate_tokens(text: str) -> Iterator[Token]:
    """Yield the keys and values of a well-formed JSON text in order."""
    cursor = _Cursor()
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == ",":
            cursor.next_entry()
        elif token == ":":
            cursor.expects_key = False
        elif token in "}]":
            cursor.close()
        elif cursor.expects_key:
            cursor.enter_key(json.loads(token))
            yield Token(tuple(cursor.path), is_key=True, text=token, offset=match.start())
        else:
            yield Token(tuple(cursor.path), is_key=False, text=token, offset=match.start())
            if token in "{[":
                cursor.open(token)


def find_in_json(text: str, targets: frozenset[Target]) -> dict[Target, Position]:
    """Return the positions of keys and values in a text that was read before."""
    lines = Lines(text)
    positions: dict[Target, Position] = {}
    for token in iterate_tokens(text):
        target = (token.path, token.is_key)
        if target in targets:
            positions.setdefault(target, lines.position(token.offset))
            if len(positions) == len(targets):
                break
    return positions
