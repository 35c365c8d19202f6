"""The tests that templates may use after `is`, and the truth of rendered values."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from windlass.core.errors import TemplateFailed
from windlass.core.templates.json_values import (
    Fuel,
    contains,
    equal,
    is_integer,
    is_list,
    is_mapping,
    is_number,
    kind_of,
    less,
)


class Test(Struct, frozen=True):
    """A test after `is`. Without an argument it gets None."""

    apply: Callable[[Fuel, object, object], bool]
    takes_argument: bool = False


def _require_integer(value: object, name: str) -> int:
    if is_integer(value):
        return value
    raise TemplateFailed(f"`is {name}` needs an integer: {kind_of(value)}")


def _is_divisible(fuel: Fuel, value: object, by: object) -> bool:
    divisor = _require_integer(by, "divisibleby")
    if divisor == 0:
        raise TemplateFailed("division by zero: `is divisibleby(0)`; use another number")
    return _require_integer(value, "divisibleby") % divisor == 0


def _require_texts(name: str, value: object, affix: object) -> tuple[str, str]:
    if isinstance(value, str) and isinstance(affix, str):
        return value, affix
    raise TemplateFailed(
        f"`is {name}` needs two strings: {kind_of(value)} and {kind_of(affix)}; use | string"
    )


def _affix_test(
    name: str, check: Callable[[str, str], bool]
) -> Callable[[Fuel, object, object], bool]:
    def apply(fuel: Fuel, value: object, affix: object) -> bool:
        return check(*_require_texts(name, value, affix))

    return apply


_EQUAL = Test(equal, takes_argument=True)
_UNEQUAL = Test(lambda fuel, value, other: not equal(fuel, value, other), takes_argument=True)
_LESS = Test(less, takes_argument=True)
_LESS_EQUAL = Test(lambda fuel, value, other: not less(fuel, other, value), takes_argument=True)
_GREATER = Test(lambda fuel, value, other: less(fuel, other, value), takes_argument=True)
_GREATER_EQUAL = Test(lambda fuel, value, other: not less(fuel, value, other), takes_argument=True)

TESTS: Mapping[str, Test] = {
    "!=": _UNEQUAL,
    "<": _LESS,
    "<=": _LESS_EQUAL,
    "==": _EQUAL,
    ">": _GREATER,
    ">=": _GREATER_EQUAL,
    "boolean": Test(lambda fuel, value, _: isinstance(value, bool)),
    "defined": Test(lambda fuel, value, _: True),
    "divisibleby": Test(_is_divisible, takes_argument=True),
    "endswith": Test(
        _affix_test("endswith", lambda text, affix: text.endswith(affix)), takes_argument=True
    ),
    "eq": _EQUAL,
    "equalto": _EQUAL,
    "even": Test(lambda fuel, value, _: _require_integer(value, "even") % 2 == 0),
    "false": Test(lambda fuel, value, _: value is False),
    "float": Test(lambda fuel, value, _: isinstance(value, float)),
    "ge": _GREATER_EQUAL,
    "greaterthan": _GREATER,
    "gt": _GREATER,
    "in": Test(contains, takes_argument=True),
    "integer": Test(lambda fuel, value, _: is_integer(value)),
    "iterable": Test(
        lambda fuel, value, _: isinstance(value, str) or is_list(value) or is_mapping(value)
    ),
    "le": _LESS_EQUAL,
    "lessthan": _LESS,
    "lt": _LESS,
    "mapping": Test(lambda fuel, value, _: is_mapping(value)),
    "ne": _UNEQUAL,
    "none": Test(lambda fuel, value, _: value is None),
    "number": Test(lambda fuel, value, _: is_number(value)),
    "odd": Test(lambda fuel, value, _: _require_integer(value, "odd") % 2 == 1),
    "sequence": Test(lambda fuel, value, _: is_list(value)),
    "startswith": Test(
        _affix_test("startswith", lambda text, affix: text.startswith(affix)), takes_argument=True
    ),
    "string": Test(lambda fuel, value, _: isinstance(value, str)),
    "true": Test(lambda fuel, value, _: value is True),
    "undefined": Test(lambda fuel, value, _: False),
}


FALSE_WORDS = frozenset({"", "0", "false", "no", "off", "none", "null"})
FALSE_WORD_LENGTH_MAX = 16


def is_true(value: object) -> bool:
    """Return the truth of a rendered value: empty values and the words of FALSE_WORDS, in any case, are false."""
    if isinstance(value, str):
        return len(value) > FALSE_WORD_LENGTH_MAX or value.strip().lower() not in FALSE_WORDS
    return bool(value)
