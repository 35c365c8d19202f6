"""The length of a value's JSON is bounded before the value is encoded."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from windlass.core.json_length import is_longer_than

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=9), inner, max_size=20)
    ),
    max_leaves=30,
)


class Point(Struct):
    x: Any


@dataclass
class Pair:
    left: Any


class Digit(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


@given(JSON)
def test_no_value_within_the_limit_counts_as_longer(value: Any) -> None:
    assert not is_longer_than(value, len(msgspec.json.encode(value)))


@pytest.mark.parametrize("part", [Raw(b"1"), Digit.ONE, b"", set[int]()])
def test_no_list_of_other_parts_within_the_limit_counts_as_longer(part: Any) -> None:
    value = [part] * 50

    assert not is_longer_than(value, len(msgspec.json.encode(value)))


def repeated(part: Any) -> list[Any]:
    """Return a small value whose JSON would have a terabyte."""
    return [[part] * 1_000_000] * 1_000


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda text: text,
        lambda text: [text],
        lambda text: {"key": text},
        lambda text: {text: 1},
        lambda text: (text, text),
        Point,
        Pair,
        Text,
        lambda text: text.encode(),
        lambda text: Raw(b'"' + text.encode() + b'"'),
        lambda text: None,
    ],
)
def test_a_part_that_occurs_often_counts_each_time(wrapped: Callable[[str], Any]) -> None:
    gc.collect()

    assert is_longer_than(repeated(wrapped("x" * 1_000)), 1 << 20)


@pytest.mark.parametrize("value", ["x" * 101, {"a": "x" * 101}, {"x" * 101: 1}, [1] * 51])
def test_a_plain_value_over_the_limit_counts_as_longer(value: Any) -> None:
    assert is_longer_than(value, 100)


def test_a_value_that_contains_itself_ends_the_count() -> None:
    value: list[Any] = []
    value.append(value)

    assert not is_longer_than(value, 1 << 30)
