"""Read YAML: values with a fast library where that is safe, everything else with the strict reader.

The library expands aliases without a limit, overflows the stack on deep blocks and keeps the last of duplicate keys, so
it only gets texts without such constructs, and libyaml's count of events must confirm its result.
"""

import re
from collections.abc import Sequence
from typing import Any

import yaml
import yaml12

from windlass.spec.reading.findings import Findings
from windlass.spec.reading.scalars import INTEGER_MAX
from windlass.spec.reading.yaml_events import DEPTH_MAX, KEY_LENGTH_MAX, read_strictly

# Each pattern starts with a literal or a character class, which is found fast. One alternation of all of them takes 1.4
# times as long (timeit, a document of 5,000 nodes: 7.0 and 9.5 ms).
_NEEDS_STRICT_READER = (
    # Deeply nested blocks.
    re.compile(r"\n[-?: ]{64}"),
    # Aliases and anchors.
    re.compile(r"\*(?<=[\s\[{,:]\*)[^\s*]"),
    re.compile(r"&(?<=[\s\[{,:]&)[^\s&]"),
    # Explicit keys: libyaml also reads the question mark of `{?a}` as their indicator.
    re.compile(r"\?(?<=[\s\[{,:]\?)"),
    # Tags that select types, and directives.
    re.compile(r"![!<]"),
    re.compile(r"\n%"),
    # Hexadecimal and octal integers over 64 bits, which the library reads as strings.
    re.compile(r"0[ox][0-9a-fA-F]{16}"),
    # Characters that the parsers treat differently: control characters, tabs, and line breaks other than \n.
    re.compile(r"[^\n -~\xa1-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"),
)
# The library reads larger decimal integers as floats.
_FLOAT_MAX = float(1 << 63)
# The parsers differ in block scalars at the end of a text, unless it ends with a complete line of content.
_CONTENT_LINE = re.compile(r"[^|>\n]*[^|>\s]\n")
# The start and end of the stream and of the document.
_OUTER_EVENTS = 4


class NeedsStrictReader(Exception):
    """The fast library cannot be used for a text, or its result for it cannot be trusted."""


def read_yaml(text: str, findings: Findings) -> object:
    """Return the tree of a document. Raise Unreadable, with the reason among the findings, if there is none."""
    try:
        return read_values(text)
    except NeedsStrictReader:
        return read_strictly(text, findings)


def read_values(text: str) -> object:
    """Return the tree of a document, read by the fast library. Raise NeedsStrictReader if it may differ."""
    with_line_start = "\n" + text
    if any(pattern.search(with_line_start) for pattern in _NEEDS_STRICT_READER):
        raise NeedsStrictReader
    last_line = text.rfind("\n", 0, -1) + 1
    if ("|" in text or ">" in text) and not _CONTENT_LINE.fullmatch(text, last_line):
        raise NeedsStrictReader
    try:
        documents: Sequence[object] = yaml12.parse_yaml(text, multi=True)
    except ValueError:
        raise NeedsStrictReader from None
    # The parsers differ in block scalars that are a whole document.
    if len(documents) != 1 or type(documents[0]) is not dict:
        raise NeedsStrictReader
    tree = documents[0]
    # A key that is lost as a duplicate, with its value, is missing from the tree.
    if _count_tree_events(tree) + _OUTER_EVENTS != _count_events(text):
        raise NeedsStrictReader
    return tree


def _count_events(text: str) -> int:
    # PyYAML without its C extension cannot count.
    loader: Any = getattr(yaml, "CSafeLoader", None)
    if loader is None:
        raise NeedsStrictReader
    try:
        return loader(text).raw_parse()
    except yaml.YAMLError:
        raise NeedsStrictReader from None


def _count_tree_events(tree: object) -> int:
    """Return the number of YAML events of a tree. Raise NeedsStrictReader for values that need the strict reader."""
    events = 0
    level: list[Any] = [tree]
    for _ in range(DEPTH_MAX + 1):
        inner: list[Any] = []
        events += len(level)
        for value in level:
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is str:
                if "\0" in value:
                    raise NeedsStrictReader
            elif kind is dict:
                _check_keys(value)
                events += len(value) + 1
                inner.extend(value.values())
            elif kind is list:
                events += 1
                inner.extend(value)
            else:
                _check_scalar(value)
        if not inner:
            return events
        level = inner
    raise NeedsStrictReader


def _check_keys(fields: dict[Any, object]) -> None:
    try:
        all_keys = "".join(fields)
    except TypeError:
        raise NeedsStrictReader from None
    if "\0" in all_keys or "<<" in fields:
        raise NeedsStrictReader
    if len(all_keys) > KEY_LENGTH_MAX and max(map(len, fields)) > KEY_LENGTH_MAX:
        raise NeedsStrictReader


def _check_scalar(value: object) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int) and abs(value) <= INTEGER_MAX:
        return
    if isinstance(value, float) and abs(value) < _FLOAT_MAX:
        return
    # A number that JSON cannot represent, or a value with a tag.
    raise NeedsStrictReader
