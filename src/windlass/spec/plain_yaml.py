"""A fast reader for the plainest YAML: nested `key: value` and `- value` lines, as programs write large workflows.

It reads such documents four times faster than the full reader does. Whatever it does not recognise for certain makes
it give up, and the full reader decides.
"""

import re

from windlass.spec.scalars import WORDS

DEPTH_MAX = 16
# Below this size the full reader takes no noticeable time.
TEXT_LEAST = 100_000

_UNUSUAL = re.compile(r"[^\n -~]")
# Spaces, then a key, or a dash, or both.
_LINE = re.compile(
    r"( *)(?=-|[A-Za-z_][A-Za-z0-9_-]{0,127}:(?: |$))(- +)?(?:([A-Za-z_][A-Za-z0-9_-]{0,127}):(?: +|$))?"
)
_PLAIN = r"[A-Za-z_][A-Za-z0-9_/.-]*|0|-?[1-9][0-9]{0,14}"
_QUOTED = r"\"[^\"\\]*\"|'[^']*'"
_SCALAR = re.compile(f"{_PLAIN}|{_QUOTED}")
_SCALAR_INSIDE = re.compile(rf"({_PLAIN}|{_QUOTED})(?= *[,\]}}])")
_KEY_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,127}): +")
_PAIR = re.compile(rf"\{{ *([A-Za-z_][A-Za-z0-9_-]{{0,127}}): +({_PLAIN}|{_QUOTED}) *\}}")
_OPENED = re.compile(r"[\[{] *")
# A comma must be followed by another value: what a last comma means is left to the full reader.
_SEPARATOR = re.compile(r" *(?:, *(?=[^\]} ])|(?=[\]}]))")
_NUMBER_FIRST = frozenset("-0123456789")


_Open = dict[str, object] | list[object]


class _NotPlain(Exception):
    """The document uses more of YAML than is read here."""


def read_plain_yaml(text: str) -> dict[str, object] | None:
    """The tree of a plain document, or None when the full reader must look at it."""
    if len(text) < TEXT_LEAST or _UNUSUAL.search(text):
        return None
    try:
        return _read(text)
    except _NotPlain:
        return None


def _read(text: str) -> dict[str, object]:
    root: dict[str, object] = {}
    # The open collections with their indentation; the innermost is kept in variables.
    stack: list[tuple[_Open, int]] = []
    here: _Open = root
    indent = 0
    waiting: str | None = None
    names: dict[str, str] = {}
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is None:
            if not line or line.isspace() or line.lstrip()[0] == "#":
                continue
            raise _NotPlain
        depth = match.end(1)
        dash, name = match.group(2, 3)
        if waiting is not None:
            if depth > indent or (dash and depth == indent):
                # The key's value begins here: a list when there is a dash, else a mapping.
                inner: _Open = [] if dash else {}
                here[waiting] = inner  # pyright: ignore[reportArgumentType, reportCallIssue]
                stack.append((here, indent))
                here, indent = inner, depth
            waiting = None
        while depth < indent or (depth == indent and not dash and isinstance(here, list)):
            here, indent = stack.pop()
        if depth != indent or (isinstance(here, list)) != bool(dash):
            raise _NotPlain
        if isinstance(here, list):
            if name is None:
                here.append(_value(line[match.end() :].rstrip(" "), names))
                continue
            element: dict[str, object] = {}
            here.append(element)
            stack.append((here, indent))
            here, indent = element, match.start(3)
        if name is None or len(stack) > DEPTH_MAX:
            raise _NotPlain
        key = names.setdefault(name, name)
        if key in here or key in WORDS:
            raise _NotPlain
        value = line[match.end() :].rstrip(" ")
        if value:
            here[key] = _value(value, names)  # pyright: ignore[reportArgumentType, reportCallIssue]
        else:
            # Its place among the keys, until the next line shows what it holds.
            here[key] = None  # pyright: ignore[reportArgumentType, reportCallIssue]
            waiting = key
    return root


def _value(text: str, names: dict[str, str]) -> object:
    """What stands after a key or a dash."""
    known = names.get(text)
    if known is not None:
        return known
    first = text[:1]
    if first == "[" and (known := names.get(text[1:-1])) is not None and text[-1] == "]":
        return [known]
    if first == "{" and (pair := _PAIR.fullmatch(text)) is not None and pair[1] not in WORDS:
        return {names.setdefault(pair[1], pair[1]): _scalar(pair[2], names)}
    if first == "{" or first == "[":
        value, end = _flow(text, 0, names, 0)
        if end == len(text):
            return value
    elif _SCALAR.fullmatch(text):
        return _scalar(text, names)
    raise _NotPlain


def _flow(text: str, at: int, names: dict[str, str], depth: int) -> tuple[object, int]:
    """A value in braces or brackets, or a scalar inside one, and where it ends."""
    if depth > DEPTH_MAX:
        raise _NotPlain
    first = text[at : at + 1]
    if first != "{" and first != "[":
        match = _SCALAR_INSIDE.match(text, at)
        if match is None:
            raise _NotPlain
        return _scalar(match[1], names), match.end()
    elements: list[object] = []
    pairs: dict[str, object] = {}
    closing = "}" if first == "{" else "]"
    at = _OPENED.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess]
    while text[at : at + 1] != closing:
        key = None
        if first == "{":
            match = _KEY_INSIDE.match(text, at)
            if match is None or match[1] in pairs or match[1] in WORDS:
                raise _NotPlain
            key = names.setdefault(match[1], match[1])
            at = match.end()
        value, at = _flow(text, at, names, depth + 1)
        if key is None:
            elements.append(value)
        else:
            pairs[key] = value
        match = _SEPARATOR.match(text, at)
        if match is None:
            raise _NotPlain
        at = match.end()
    return (pairs if first == "{" else elements), at + 1


def _scalar(text: str, names: dict[str, str]) -> object:
    first = text[0]
    if first == '"' or first == "'":
        return text[1:-1]
    if first in _NUMBER_FIRST:
        return int(text)
    return WORDS[text] if text in WORDS else names.setdefault(text, text)
