"""Operations on JSON values with limited cost: each pays for its work before doing it.

None of them reads attributes of Python objects; a value is null, a boolean, a number, a string, a list or a mapping.
"""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import TypeGuard

import msgspec
from msgspec import Raw

from windlass.core.errors import TemplateFailed
from windlass.core.text import shortened

STEPS_MAX = 250_000
TEXT_MAX = 1 << 20
RENDERED_BYTES_MAX = 4 << 20
DEPTH_MAX = 64
INTEGER_MAX = (1 << 63) - 1
RANGE_MAX = 10_000
DIGITS_MAX = 400
CHARACTERS_PER_STEP = 32
# The size up to which an object is weighed without a traversal by level.
FLAT_MAX = 64
NAMES_SHOWN_MAX = 12
NAMES_COMPARED_MAX = 1_000
NAME_SHOWN_MAX = 80
INTEGER_BITS = 63
# An isinstance check against an abstract class takes 0.2 us (timeit); these types need none.
_NO_MAPPINGS = frozenset({str, int, float, bool, list, tuple, type(None)})
_WORDS: Mapping[bool | None, str] = {None: "null", True: "true", False: "false"}
_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    tuple: "a list",
}


class Undefined(TemplateFailed):
    """A name or key is missing. `default` and `is defined` handle this error and no other."""


class Fuel:
    """The remaining work of one rendering. Every operation spends fuel; without any the rendering fails."""

    __slots__ = ("steps",)

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.steps = steps

    def spend(self, steps: int) -> None:
        """Spend fuel before doing work."""
        self.steps -= steps
        if self.steps < 0:
            raise TemplateFailed(
                f"too much work: more than {STEPS_MAX} steps; do large computations in a node, not in a template"
            )

    def spend_text(self, length: int) -> None:
        """Spend fuel before creating a string. Raise TemplateFailed if it would be too long."""
        if length > TEXT_MAX:
            raise TemplateFailed(
                f"text too long: {length} characters, limit {TEXT_MAX}; "
                "pass large values whole, as '{{ name }}' alone"
            )
        self.spend(1 + length // CHARACTERS_PER_STEP)


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the value is a JSON object: a dict, or a lazy mapping of a scope."""
    kind = type(value)
    return kind is dict or (kind not in _NO_MAPPINGS and isinstance(value, Mapping))


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether the value is a JSON array."""
    return isinstance(value, (list, tuple))


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether the value has elements by index: a JSON array or a string."""
    return isinstance(value, (list, tuple, str))


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether the value is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_scalar(value: object) -> TypeGuard[bool | float | None]:
    """Return whether the value is null, a boolean or a number."""
    return isinstance(value, (int, float, NoneType))


def kind_of(value: object) -> str:
    """Return the type of a value in the words of error messages."""
    if is_mapping(value):
        return "an object"
    return _KINDS.get(type(value), "not a JSON value")


def shown(value: object) -> str:
    """Format a value for an error message, shortened."""
    if isinstance(value, str):
        return f"'{shortened(value, NAME_SHOWN_MAX)}'"
    if is_scalar(value):
        return shortened(scalar_text(value), NAME_SHOWN_MAX)
    return kind_of(value)


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most similar to a name; None if none is."""
    if len(name) > NAME_SHOWN_MAX:
        return None
    matches = get_close_matches(name, known[:NAMES_COMPARED_MAX], n=1, cutoff=0.6)
    return next(iter(matches), None)


def available(name: str, known: Sequence[str]) -> str:
    """Return the second part of a message about a missing name: the names that exist."""
    if not known:
        return "it is empty"
    listed = ", ".join(shown(item).strip("'") for item in known[:NAMES_SHOWN_MAX])
    text = f"available: {listed}"
    if len(known) > NAMES_SHOWN_MAX:
        text += f" and {len(known) - NAMES_SHOWN_MAX} more"
    similar = nearest(name, known)
    if similar:
        text += f"; did you mean '{similar}'?"
    return text


def scalar_text(value: bool | float | None) -> str:
    """Format a scalar as JSON."""
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int) and value.bit_length() > DIGITS_MAX:
        return "a huge integer"
    return repr(value)


def text_of(fuel: Fuel, value: object) -> str:
    """Format a value for use inside text: strings as they are, everything else as JSON."""
    if isinstance(value, str):
        return value
    if is_scalar(value):
        return scalar_text(value)
    return encode(fuel, value, TEXT_MAX).decode()


def weigh(fuel: Fuel, value: object, limit: int) -> int:
    """Return a lower bound for the length of the value's JSON. Raise TemplateFailed once it is over the limit.

    A value that contains another one several times counts it each time, as its JSON would.
    """
    if is_mapping(value) and (flat := _flat_weight(value)) is not None and flat <= limit:
        fuel.spend(1 + len(value) + flat // CHARACTERS_PER_STEP)
        return flat
    total = 0
    level: list[object] = [value]
    for _depth in range(DEPTH_MAX + 1):
        if not level:
            fuel.spend(total // CHARACTERS_PER_STEP)
            return total
        fuel.spend(len(level))
        following: list[object] = []
        for item in level:
            if isinstance(item, str):
                total += len(item)
            elif is_list(item):
                total += 2 * len(item)
                following.extend(item)
            elif is_mapping(item):
                total += 5 * len(item)
                for key, inner in item.items():
                    total += len(key)
                    following.append(inner)
            if total > limit:
                raise TemplateFailed(
                    f"value too large: more than {limit} bytes of JSON; pass less, or a reference"
                )
        level = following
    raise TemplateFailed(f"value nested deeper than {DEPTH_MAX} levels; flatten it")


def _flat_weight(value: Mapping[str, object]) -> int | None:
    """Return the weight of a small object of scalars, as most params are; None for any other."""
    if len(value) > FLAT_MAX:
        return None
    total = 5 * len(value)
    for key, inner in value.items():
        if isinstance(inner, str):
            total += len(inner)
        elif inner is not None and not isinstance(inner, (int, float)):
            return None
        total += len(key)
    return total


def _plain(value: object) -> object:
    """Convert the lazy mappings of scopes for msgspec."""
    if is_mapping(value):
        return dict(value)
    raise TemplateFailed(f"not a JSON value: {type(value).__name__}; only JSON can be rendered")


def encode(fuel: Fuel, value: object, limit: int) -> bytes:
    """Encode a value as JSON, after weighing it."""
    weigh(fuel, value, limit)
    return encode_trusted(value, limit)


def encode_trusted(value: object, limit: int) -> bytes:
    """Encode a value that is known not to repeat large parts."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=_plain)
    except (
        UnicodeEncodeError,
        RecursionError,
        ValueError,
        TypeError,
        msgspec.MsgspecError,
    ) as error:
        raise TemplateFailed(f"value cannot be encoded as JSON: {error}") from None
    if len(encoded) > limit:
        raise TemplateFailed(
            f"value too large: {len(encoded)} bytes of JSON, limit {limit}; pass less"
        )
    return encoded


def decode(fuel: Fuel, text: str) -> object:
    """Decode a JSON text. The cost depends on its length, because `[[],[]…` needs far more memory than its text."""
    fuel.spend(1 + len(text) // 4)
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise TemplateFailed(f"invalid JSON: {shown(text)}: {error}") from None
    weigh(fuel, value, TEXT_MAX)
    return value


def raw(value: object) -> Raw:
    """Encode a small value from trusted code."""
    return Raw(msgspec.json.encode(value))


def bounded(value: object) -> int | float:
    """Return a result of arithmetic. Raise TemplateFailed if it is over 64 bits or not finite."""
    if isinstance(value, int) and abs(value) <= INTEGER_MAX:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise TemplateFailed("number out of range: over 64 bits or not finite; use smaller numbers")


def add(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `+`: of two numbers, two strings or two lists."""
    if is_number(left) and is_number(right):
        return bounded(left + right)
    if isinstance(left, str) and isinstance(right, str):
        fuel.spend_text(len(left) + len(right))
        return left + right
    if is_list(left) and is_list(right):
        fuel.spend(len(left) + len(right))
        return [*left, *right]
    raise TemplateFailed(
        f"cannot add: {kind_of(left)} and {kind_of(right)}; use ~ to join them as text"
    )


def subtract(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `-` of two numbers."""
    x, y = numbers(fuel, "-", left, right)
    return bounded(x - y)


def multiply(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `*`: of two numbers, or a repeated string."""
    if isinstance(left, str) and is_integer(right):
        fuel.spend_text(len(left) * max(right, 0))
        return left * right
    x, y = numbers(fuel, "*", left, right)
    return bounded(x * y)


def numbers(fuel: Fuel, sign: str, left: object, right: object) -> tuple[int | float, int | float]:
    """Return both operands as numbers within 64 bits."""
    if not is_number(left) or not is_number(right):
        raise TemplateFailed(
            f"{sign} needs two numbers: {kind_of(left)} and {kind_of(right)}; convert with | int"
        )
    fuel.spend(1)
    return bounded(left), bounded(right)


def _dividend_and_divisor(
    fuel: Fuel, sign: str, left: object, right: object
) -> tuple[int | float, int | float]:
    x, y = numbers(fuel, sign, left, right)
    if y == 0:
        raise TemplateFailed(f"division by zero: {x}; test for it with `if`")
    return x, y


def divide(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `/` of two numbers."""
    x, y = _dividend_and_divisor(fuel, "/", left, right)
    return bounded(x / y)


def floor_divide(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `//` of two numbers."""
    x, y = _dividend_and_divisor(fuel, "//", left, right)
    return bounded(x // y)


def modulo(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `%` of two numbers; it does not format strings."""
    if isinstance(left, str):
        raise TemplateFailed("% does not format strings; join the parts with ~")
    x, y = _dividend_and_divisor(fuel, "%", left, right)
    return bounded(x % y)


def power(fuel: Fuel, left: object, right: object) -> object:
    """Evaluate `**`. Raise TemplateFailed before computing a result over 64 bits."""
    x, y = numbers(fuel, "**", left, right)
    if isinstance(x, int) and isinstance(y, int) and y >= 0 and x.bit_length() * y > INTEGER_BITS:
        raise TemplateFailed(
            f"number out of range: {x} ** {y} is over 64 bits; use smaller numbers"
        )
    if x == 0 and y < 0:
        raise TemplateFailed("division by zero: zero to a negative power; test for it with `if`")
    try:
        return bounded(x**y)
    except OverflowError:
        raise TemplateFailed(f"number out of range: {x} ** {y}; use smaller numbers") from None


def negate(fuel: Fuel, value: object) -> object:
    """Evaluate `-` before a number."""
    return subtract(fuel, 0, value)


def equal(fuel: Fuel, left: object, right: object) -> bool:
    """Evaluate `==`. Nested values are weighed first, because comparing shared structures can take exponential time."""
    if isinstance(left, str) and isinstance(right, str):
        fuel.spend(1 + min(len(left), len(right)) // CHARACTERS_PER_STEP)
        return left == right
    # A tuple is a list and a lazy mapping is an object; Python considers them different.
    if is_list(left) and is_list(right):
        left, right = list(left), list(right)
    elif is_mapping(left) and is_mapping(right):
        left, right = dict(left), dict(right)
    else:
        return is_scalar(left) and is_scalar(right) and left == right
    weigh(fuel, left, RENDERED_BYTES_MAX)
    weigh(fuel, right, RENDERED_BYTES_MAX)
    return left == right


def less(fuel: Fuel, left: object, right: object) -> bool:
    """Evaluate `<` of two numbers or two strings."""
    if is_number(left) and is_number(right):
        return left < right
    if isinstance(left, str) and isinstance(right, str):
        fuel.spend(1 + min(len(left), len(right)) // CHARACTERS_PER_STEP)
        return left < right
    raise TemplateFailed(
        f"cannot compare: {kind_of(left)} and {kind_of(right)}; compare numbers or strings"
    )


def contains(fuel: Fuel, item: object, container: object) -> bool:
    """Evaluate `in`: a key of an object, an element of a list, a part of a string."""
    if isinstance(container, str):
        if not isinstance(item, str):
            raise TemplateFailed(
                f"a string can only contain strings: {kind_of(item)}; convert it with | string"
            )
        fuel.spend(1 + (len(container) + len(item)) // CHARACTERS_PER_STEP)
        return item in container
    if is_list(container):
        fuel.spend(len(container))
        return any(equal(fuel, item, element) for element in container)
    if is_mapping(container):
        return isinstance(item, str) and item in container
    raise TemplateFailed(
        f"`in` needs a list, an object or a string: {kind_of(container)}; convert it with | list"
    )


def ordered(fuel: Fuel, values: Sequence[object]) -> list[int | float] | list[str]:
    """Return values that can be sorted: all numbers, or all strings."""
    fuel.spend(2 * len(values))
    found_numbers = [value for value in values if is_number(value)]
    if len(found_numbers) == len(values):
        return found_numbers
    strings = [value for value in values if isinstance(value, str)]
    if len(strings) == len(values):
        fuel.spend(sum(map(len, strings)) // CHARACTERS_PER_STEP)
        return strings
    odd = next((value for value in values if type(value) is not type(values[0])), values[0])
    raise TemplateFailed(
        f"cannot sort: {kind_of(values[0])} and {kind_of(odd)} in one list; use one type"
    )


def member(fuel: Fuel, value: object, key: object, label: str) -> object:
    """Evaluate `value.key` or `value[key]`: a key of an object or an index, never a Python attribute."""
    fuel.spend(1)
    if is_mapping(value):
        if not isinstance(key, str):
            raise Undefined(f"a key of {label} must be a string: {kind_of(key)}; use | string")
        try:
            return value[key]
        except KeyError:
            raise Undefined(f"{label} has no {shown(key)}; {available(key, list(value))}") from None
    if not is_sequence(value):
        raise Undefined(f"{label} is {kind_of(value)}; it has no {shown(key)}")
    if not is_integer(key):
        raise Undefined(f"{label} is {kind_of(value)}; it has no {shown(key)}, only numbers as [0]")
    try:
        return value[key]
    except IndexError:
        raise Undefined(f"{label} has no element {key}; it has {len(value)}") from None


def merged(value: object, patch: object) -> object:
    """Merge a patch into a value: objects key by key, to any depth; anything else is replaced."""
    if not is_mapping(value) or not is_mapping(patch):
        return patch
    made = dict(value)
    for key, inner in patch.items():
        # A patch merged into anything but an object is the patch.
        made[key] = merged(made.get(key), inner)
    return made
