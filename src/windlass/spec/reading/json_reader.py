"""Reads JSON strictly: no key twice, no NaN, no number that other readers would change.

The standard decoder is fast but tells no places; a slow second pass finds those that problems need.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NoReturn

from msgspec import Struct

from windlass.spec.reading.findings import Findings, OtherFormat, Path, Place, Unreadable
from windlass.spec.reading.scalars import ScalarInvalid, integer, real

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s"{}\[\],:]+)')
_BAD_CHARACTERS = re.compile("[\x00\ud800-\udfff]")


class _Duplicate(Exception):
    """A key was given twice; where, only the second pass can tell."""


class _Token(Struct, frozen=True, gc=False):
    """A key or the beginning of a value, with its path and its place in the text."""

    path: Path
    is_key: bool
    text: str
    offset: int


def read_json(text: str, findings: Findings) -> object:
    """The plain tree of a JSON text; Unreadable when it cannot be used, with the reason among the findings."""
    try:
        tree: object = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=real, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        place = Place(error.lineno, error.colno)
        findings.add((), f"this is not JSON: {error.msg}", "look at the commas, quotes and brackets here", place=place)
        raise OtherFormat from None
    except RecursionError:
        findings.add((), "the document is nested too deep", "flatten it", place=Place(1, 1))
        raise Unreadable from None
    except (_Duplicate, ScalarInvalid):
        _explain(text, findings)
        raise Unreadable from None
    # The decoder accepts escapes for characters that cannot be stored; texts with escapes are rare.
    if "\\u" in text:
        _explain(text, findings)
    return tree


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Duplicate
    return made


def _constant(name: str) -> NoReturn:
    raise ScalarInvalid(f"{name} is no number that JSON knows")


def _integer(digits: str) -> int:
    return integer(digits, 10)


class _Lines:
    """Turns offsets into lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, offset: int) -> Place:
        line = bisect_right(self._starts, offset)
        return Place(line, offset - self._starts[line - 1] + 1)


def _tokens(text: str) -> Iterator[_Token]:
    """The keys and values of a well-formed JSON text, in order."""
    path: list[str | int] = []
    # For each open collection: whether it is an object.
    open_objects: list[bool] = []
    expects_key = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == ",":
            if open_objects[-1]:
                expects_key = True
                path.pop()
            else:
                path[-1] = int(path[-1]) + 1
        elif token == ":":
            expects_key = False
        elif token in "}]":
            if path and (not open_objects[-1] or not expects_key):
                path.pop()
            open_objects.pop()
            expects_key = False
        elif expects_key:
            path.append(json.loads(token))
            yield _Token(tuple(path), True, token, match.start())
        else:
            yield _Token(tuple(path), False, token, match.start())
            if token == "{":
                open_objects.append(True)
                expects_key = True
            elif token == "[":
                open_objects.append(False)
                path.append(0)


def _explain(text: str, findings: Findings) -> None:
    """Find what the fast decoder could not place: keys given twice, numbers and strings that JSON should not hold."""
    lines = _Lines(text)
    keys: dict[Path, int] = {}
    for token in _tokens(text):
        place = lines.place(token.offset)
        if token.is_key:
            if token.path in keys:
                first = lines.place(keys[token.path])
                message = (
                    f"the key '{token.path[-1]}' is given twice, first in line {first.line}, column {first.column}"
                )
                findings.add(token.path, message, "remove one of the two", place=place)
            keys.setdefault(token.path, token.offset)
        elif token.text[0] not in '"{[tfn':
            try:
                _number(token.text)
            except ScalarInvalid as error:
                findings.add(token.path, str(error), "write it as a string", place=place)
        if token.text[0] == '"' and "\\u" in token.text and _BAD_CHARACTERS.search(json.loads(token.text)):
            message = "the string has a NUL character or half a surrogate pair"
            findings.add(token.path, message, "remove it: it cannot be stored", place=place)


def _number(text: str) -> None:
    if text.lstrip("-").isdecimal():
        integer(text, 10)
    elif text.lstrip("-") in {"NaN", "Infinity"}:
        raise ScalarInvalid(f"{text} is no number that JSON knows")
    else:
        real(text)


def find_in_json(text: str, wanted: frozenset[tuple[Path, bool]]) -> dict[tuple[Path, bool], Place]:
    """The places of keys (True) and values (False) in a text that was read before."""
    lines = _Lines(text)
    places: dict[tuple[Path, bool], Place] = {}
    for token in _tokens(text):
        if (token.path, token.is_key) in wanted:
            places.setdefault((token.path, token.is_key), lines.place(token.offset))
            if len(places) == len(wanted):
                break
    return places
