"""Read JSON strictly: reject duplicate keys, NaN, and numbers that other readers would change.

The standard decoder is fast but does not report positions; a slow second pass finds those of problems.
"""

import json
import re
from typing import NoReturn

from windlass.spec.reading.findings import Findings, OtherFormat, Path, Position, Unreadable
from windlass.spec.reading.json_positions import Lines, Token, iterate_tokens
from windlass.spec.reading.scalars import ScalarInvalid, parse_float, parse_integer

_BAD_CHARACTERS = re.compile("[\x00\ud800-\udfff]")


class _DuplicateKey(Exception):
    """An object has a key twice; the second pass finds its position."""


def read_json(text: str, findings: Findings) -> object:
    """Return the tree of a JSON text. Raise Unreadable, with the reason among the findings, if there is none."""
    try:
        tree: object = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_reject_constant,
            parse_float=parse_float,
            parse_int=_parse_decimal,
        )
    except json.JSONDecodeError as error:
        position = Position(error.lineno, error.colno)
        findings.add(
            (),
            f"invalid JSON: {error.msg}",
            "check the commas, quotes and brackets here",
            position=position,
        )
        raise OtherFormat from None
    except RecursionError:
        findings.add((), "document nested too deeply", "flatten it", position=Position(1, 1))
        raise Unreadable from None
    except (_DuplicateKey, ScalarInvalid):
        _find_problems(text, findings)
        raise Unreadable from None
    # The decoder accepts escapes for characters that cannot be stored. Few texts have such escapes.
    if "\\u" in text:
        _find_problems(text, findings)
    return tree


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _DuplicateKey
    return fields


def _reject_constant(name: str) -> NoReturn:
    raise ScalarInvalid(f"not a JSON number: {name}")


def _parse_decimal(digits: str) -> int:
    return parse_integer(digits, 10)


def _find_problems(text: str, findings: Findings) -> None:
    """Report duplicate keys, and numbers and strings that JSON cannot represent, with their positions."""
    lines = Lines(text)
    keys: dict[Path, Position] = {}
    for token in iterate_tokens(text):
        position = lines.position(token.offset)
        if token.is_key:
            first = keys.setdefault(token.path, position)
            if first is not position:
                findings.add_duplicate_key(token.path, first, position)
        elif token.text[0] not in '"{[tfn':
            _check_number(token, position, findings)
        if (
            token.text[0] == '"'
            and "\\u" in token.text
            and _BAD_CHARACTERS.search(json.loads(token.text))
        ):
            message = "invalid character in string: NUL or half a surrogate pair"
            findings.add(token.path, message, "remove it", position=position)


def _check_number(token: Token, position: Position, findings: Findings) -> None:
    unsigned = token.text.lstrip("-")
    try:
        if unsigned.isdecimal():
            parse_integer(token.text, 10)
        elif unsigned in {"NaN", "Infinity"}:
            _reject_constant(token.text)
        else:
            parse_float(token.text)
    except ScalarInvalid as error:
        findings.add(token.path, str(error), "write it as a string", position=position)
