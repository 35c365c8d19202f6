"""Inputs of jobs: defaults and validation."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from windlass.core.errors import InputInvalid
from windlass.spec import check_input

SCHEMA = Raw(
    msgspec.json.encode(
        {
            "type": "object",
            "properties": {
                "url": {"type": "string", "pattern": "^(a+)+$"},
                "size": {"type": "integer", "default": 100},
                "nested": {
                    "type": "object",
                    "default": {},
                    "properties": {"deep": {"default": True}},
                },
                "rows": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"default": 1}}},
                },
            },
            "required": ["url"],
        }
    )
)


def checked(value: object, schema: Raw | None = SCHEMA) -> Any:
    return msgspec.json.decode(check_input(schema, value))


def test_defaults_are_filled_in_at_every_depth() -> None:
    assert checked({"url": "aa", "rows": [{}, {"n": 2}]}) == {
        "url": "aa",
        "size": 100,
        "nested": {"deep": True},
        "rows": [{"n": 1}, {"n": 2}],
    }


def test_the_given_input_is_not_changed() -> None:
    given: dict[str, object] = {"url": "a", "nested": {}}

    checked(given)

    assert given == {"url": "a", "nested": {}}


def test_all_problems_are_reported_with_their_paths() -> None:
    with pytest.raises(InputInvalid) as caught:
        checked({"size": "big", "rows": [1]})

    assert sorted(problem.path for problem in caught.value.problems) == ["", "rows[0]", "size"]
    assert "url" in str(caught.value)


@pytest.mark.parametrize("value", [None, [], "x", 5, True])
def test_an_input_that_is_not_an_object_is_refused(value: object) -> None:
    with pytest.raises(InputInvalid, match="the input must be a JSON object"):
        checked(value)


def test_without_a_schema_any_object_is_accepted() -> None:
    assert checked({"any": [1, None]}, None) == {"any": [1, None]}


def test_a_large_input_is_refused() -> None:
    with pytest.raises(InputInvalid, match="input too large: more than 1048576 bytes"):
        checked({"url": "a" * 1_100_000}, None)


def test_an_input_that_repeats_a_large_part_is_refused_before_it_is_encoded() -> None:
    # Its JSON would have a terabyte.
    with pytest.raises(InputInvalid, match="input too large: more than 1048576 bytes"):
        check_input(None, {"rows": [["x" * 1_000_000] * 1_000] * 1_000})


def test_a_large_default_of_many_elements_is_refused_before_it_is_encoded() -> None:
    row = {"type": "object", "properties": {"text": {"default": "x" * 200_000}}}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}

    with pytest.raises(InputInvalid, match="input too large: more than 1048576 bytes"):
        check_input(Raw(msgspec.json.encode(schema)), {"rows": [{}] * 300_000})


def test_a_deep_input_is_refused() -> None:
    value: dict[str, object] = {}
    for _ in range(70):
        value = {"x": value}

    with pytest.raises(InputInvalid, match="nested deeper than 64"):
        checked(value, None)


@pytest.mark.parametrize("value", [{"x": object()}, {"x": "\ud800"}, {"x": 1j}])
def test_an_input_that_is_not_json_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(InputInvalid, match="not JSON"):
        checked(value, None)


def test_a_pattern_with_nested_repeats_does_not_backtrack() -> None:
    with pytest.raises(InputInvalid):
        checked({"url": "a" * 50_000 + "!"})


def test_an_integer_beyond_64_bits_is_refused() -> None:
    with pytest.raises(InputInvalid, match="64 bits"):
        check_input(None, {"deep": [{"n": 1 << 63}]})
