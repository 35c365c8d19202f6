"""A fast reader for the plainest YAML: nested `key: value` and `- value` lines, as programs write large workflows.

The lines give the outline; what stands after keys and dashes is rewritten as JSON, many values at a time. Whatever is
not recognised for certain makes it give up, and the full reader, ten times slower, decides.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, NoReturn, cast

from msgspec import Struct

from windlass.spec.reading.scalars import WORDS
from windlass.spec.reading.trees import depth_over

DEPTH_MAX = 16
DIGITS_MAX = 15
# Below this size the full reader takes no noticeable time.
TEXT_LEAST = 100_000
# How much is taken apart at once: the parts of a text need ten times its space.
CHUNK_CHARS = 1 << 16
CHUNK_VALUES = 1_000

_USUAL = bytes(range(ord(" "), ord("~") + 1)) + b"\n"
# Spaces, then a dash, or a key, or both, then the rest of the line.
_LINE = re.compile(r"( *+)(- ++)?+(?:([A-Za-z_][A-Za-z0-9_-]{0,127}+):(?: ++|(?=\n)))?+(.*+)\n")
_QUOTED = re.compile(r"(\"[^\"\\\n]*+\"|'[^'\n]*+')")
# A word that is a value, or a key of at most 128 characters. The first look behind keeps a long word that is neither
# from being tried again at each of its characters.
_WORD = re.compile(r"([A-Za-z_](?<![A-Za-z0-9_/.-].)[A-Za-z0-9_/.-]*+(?:(?=: )(?<![A-Za-z0-9_/.-]{129})|(?= *[,\]}])))")
# Stands for a string in quotes while the words around it get theirs.
_TAKEN_OUT = "\x01"
_QUOTED_KEY = re.compile(_TAKEN_OUT + " *:")
# Stands before each value in the JSON; it is not ASCII, so no document that is read here holds one.
_MARK = "é"
_WORDS_IN_JSON = {word: json.dumps(value) for word, value in WORDS.items()}

_Line = tuple[str, str, str, str]
_Open = dict[str, object] | list[object]


class _NotPlain(Exception):
    """The document uses more of YAML than is read here."""


class _Waiting(Struct, gc=False):
    """Values that are still text, and where they belong."""

    texts: list[str]
    holders: list[_Open]
    keys: list[str | int]


def read_plain_yaml(text: str) -> dict[str, object] | None:
    """The tree of a plain document, or None when the full reader must look at it."""
    if len(text) < TEXT_LEAST or not text.isascii() or text.encode().translate(None, _USUAL):
        return None
    waiting = _Waiting([], [], [])
    try:
        root = _outline(text, waiting)
        texts = waiting.texts
        values = [_values(texts[at : at + CHUNK_VALUES]) for at in range(0, len(texts), CHUNK_VALUES)]
    except (_NotPlain, RecursionError, json.JSONDecodeError):
        return None
    for holder, key, value in zip(waiting.holders, waiting.keys, chain.from_iterable(values), strict=True):
        holder[key] = value  # pyright: ignore[reportArgumentType, reportCallIssue]
    return root


def _lines(text: str) -> Iterator[list[_Line]]:
    begin = 0
    while begin < len(text):
        end = text.find("\n", min(begin + CHUNK_CHARS, len(text) - 1)) + 1
        yield _LINE.findall(text, begin, end)
        begin = end


def _outline(text: str, waiting: _Waiting) -> dict[str, object]:
    """The collections that lines open. The loop is flat because it runs half a million times for large workflows."""
    root: dict[str, object] = {}
    # The open collections with their indentation; the innermost is kept in variables.
    stack: list[tuple[_Open, int]] = []
    here: Any = root
    indent = 0
    opening: str | None = None
    names: dict[str, str] = {}
    words: dict[str, object] = dict(WORDS)
    texts, holders, keys = waiting.texts, waiting.holders, waiting.keys
    for spaces, dash, name, value in chain.from_iterable(_lines(text + "\n")):
        if not name and (not dash or not value):
            if dash or (value and value[0] != "#"):
                raise _NotPlain
            continue
        depth = len(spaces)
        if opening is not None:
            if depth > indent or (dash and depth == indent):
                # The key's value begins here: a list when there is a dash, else a mapping.
                stack.append((here, indent))
                here[opening] = here = [] if dash else {}
                indent = depth
            opening = None
        while depth < indent or (depth == indent and not dash and type(here) is list):
            here, indent = stack.pop()
        if depth != indent or (type(here) is list) is not (dash != ""):
            raise _NotPlain
        key: Any = name
        if dash:
            key = len(here)
            here.append({} if name else None)
            if name:
                stack.append((here, indent))
                here, indent = here[key], depth + len(dash)
        if name:
            key = names.setdefault(name, name)
            if key in here or key in WORDS or len(stack) > DEPTH_MAX:
                raise _NotPlain
            if not value:
                # Its place among the keys, until the next line shows what it holds.
                here[key] = None
                opening = key
                continue
        if value in words:
            here[key] = words[value]
        elif value.isidentifier():
            here[key] = words[value] = names.setdefault(value, value)
        elif value[0] == "[" and value[-1] == "]" and (known := names.get(value[1:-1])) is not None:
            here[key] = [known]
        else:
            here[key] = None
            texts.append(value)
            holders.append(here)
            keys.append(key)
    return root


def _values(texts: list[str]) -> list[object]:
    """What the texts mean: with quotes around its words, such a value is JSON."""
    parts = cast("list[str]", _QUOTED.split("\n".join(texts)))
    outside = _TAKEN_OUT.join(parts[::2])
    if '"' in outside or "\\" in outside or _QUOTED_KEY.search(outside):
        raise _NotPlain
    pieces = cast("list[str]", _WORD.split(outside.replace("\n", f',"{_MARK}",')))
    words = pieces[1::2]
    if WORDS.keys().isdisjoint(words):
        quoted = '"'.join(pieces)
    else:
        pieces[1::2] = [_WORDS_IN_JSON.get(word) or f'"{word}"' for word in words]
        quoted = "".join(pieces)
    parts[::2] = quoted.split(_TAKEN_OUT)
    parts[1::2] = [part if part[0] == '"' else _in_double_quotes(part) for part in parts[1::2]]
    read: list[object] = _json.decode(f'["{_MARK}",{"".join(parts)}]')
    # A value that is not whole, or more than one, would have moved a mark.
    if len(read) != 2 * len(texts) or read[::2] != [_MARK] * len(texts):
        raise _NotPlain
    values = read[1::2]
    # One that opens few collections is not deep.
    if any(text.count("[") + text.count("{") > DEPTH_MAX for text in texts) and depth_over(values, DEPTH_MAX):
        raise _NotPlain
    return values


def _in_double_quotes(text: str) -> str:
    """A string in single quotes as JSON writes it."""
    return '"' + text[1:-1].replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _NotPlain
    return made


def _whole(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise _NotPlain
    return int(digits)


def _refused(text: str) -> NoReturn:
    raise _NotPlain


_json = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_whole, parse_float=_refused, parse_constant=_refused)
