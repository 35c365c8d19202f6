"""Values of plain YAML scalars: the core schema of YAML 1.2, in which `no`, `on`, `1:30` and `1_000` are strings."""

import math
import re

INTEGER_MAX = 1 << 53
DIGITS_MAX = 40
# Only scalars that start with one of these characters can be numbers.
NUMBER_FIRST = frozenset("0123456789+-.")

_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
WORDS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "null": None,
    "Null": None,
    "NULL": None,
    "~": None,
    "": None,
}


class ScalarInvalid(Exception):
    """A plain scalar is a number that JSON cannot represent exactly."""


def parse_scalar(text: str) -> str | bool | int | float | None:
    """Return the value of a plain scalar. Raise ScalarInvalid for numbers that JSON cannot represent."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMBER_FIRST:
        return text
    if _INTEGER.fullmatch(text):
        return parse_integer(text, 10)
    if _OCTAL.fullmatch(text):
        return parse_integer(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return parse_integer(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return parse_float(text)
    if _NOT_FINITE.fullmatch(text):
        raise ScalarInvalid(f"not a JSON number: {text}")
    return text


def parse_integer(digits: str, radix: int) -> int:
    """Return an integer that every JSON reader represents exactly."""
    value = INTEGER_MAX + 1
    if len(digits) <= DIGITS_MAX:
        value = int(digits, radix)
    if abs(value) > INTEGER_MAX:
        raise ScalarInvalid(
            f"integer out of range: {digits[:DIGITS_MAX]} is beyond 2^53, where JSON numbers lose digits"
        )
    return value


def parse_float(text: str) -> float:
    """Return a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ScalarInvalid(f"number out of range: {text[:DIGITS_MAX]}")
    return value
