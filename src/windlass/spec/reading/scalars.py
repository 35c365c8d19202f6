"""What plain YAML scalars mean: the core schema of YAML 1.2, where `no`, `on`, `1:30` and `1_000` are strings."""

import math
import re

INTEGER_MAX = 1 << 53
DIGITS_MAX = 40
# Only what begins like this can be a number.
NUMBER_FIRST = frozenset("0123456789+-.")

_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNREAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
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
    """A plain scalar that is a number JSON cannot hold exactly."""


def resolve(text: str) -> str | bool | int | float | None:
    """The value of a plain scalar; ScalarInvalid for numbers that JSON cannot hold."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMBER_FIRST:
        return text
    if _INTEGER.fullmatch(text):
        return integer(text, 10)
    if _OCTAL.fullmatch(text):
        return integer(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return integer(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return real(text)
    if _UNREAL.fullmatch(text):
        raise ScalarInvalid(f"{text} is no number that JSON knows")
    return text


def integer(digits: str, radix: int) -> int:
    """An integer that every JSON reader understands the same."""
    value = int(digits, radix) if len(digits) <= DIGITS_MAX else INTEGER_MAX + 1
    if abs(value) > INTEGER_MAX:
        raise ScalarInvalid(f"the number {digits[:DIGITS_MAX]} is beyond 2^53, where JSON numbers lose digits")
    return value


def real(text: str) -> float:
    """A finite number."""
    value = float(text) if len(text) <= DIGITS_MAX * 10 else math.inf
    if not math.isfinite(value):
        raise ScalarInvalid(f"the number {text[:DIGITS_MAX]} is too large")
    return value
