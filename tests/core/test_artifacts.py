"""Parts of large values: how they are found, and how they get into the params of a task."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.artifact_parts import FIRST_ELEMENTS, part_of
from windlass.core.artifacts import TaskArtifact, fill_params, patch_artifacts
from windlass.core.errors import TemplateFailed
from windlass.core.templates.json_values import Fuel, member, merged

KEYS = st.sampled_from(
    ["a", "b", "value", "", "a.b", "ü", "before_0", 'a"b', "a\\b", "a\nb", "\x7f"]
)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
PATHS = st.lists(KEYS | st.integers(0, 4), max_size=4).map(tuple)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def followed(value: object, path: tuple[str | int, ...]) -> object:
    """Return a part as templates find it."""
    for key in path:
        value = member(Fuel(), value, key, "it")
    return value


@given(VALUES, PATHS)
def test_a_part_is_what_a_template_finds(value: object, path: tuple[str | int, ...]) -> None:
    body = msgspec.json.encode(value)
    try:
        expected = followed(value, path)
    except TemplateFailed:
        with pytest.raises(TemplateFailed):
            part_of(body, path, "it")
    else:
        assert msgspec.json.decode(part_of(body, path, "it")) == expected


@pytest.mark.parametrize("index", [0, FIRST_ELEMENTS - 1, FIRST_ELEMENTS, 999])
def test_any_element_of_a_list_is_found(index: int) -> None:
    assert part_of(msgspec.json.encode(list(range(1_000))), (index,), "it") == str(index).encode()


@pytest.mark.parametrize("body", [b' {"a" : [1, {"b" : 2}] } ', b'{"a":0,"a":[1,{"b":2}]}'])
def test_white_space_and_repeated_keys_are_read_as_json_does(body: bytes) -> None:
    assert part_of(body, ("a", 1, "b"), "it") == b"2"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (("row",), "a.output has no 'row'; available: rows, n; did you mean 'rows'?"),
        (("rows", 2), "a.output.rows has no element 2; it has 2"),
        (("rows", 0, "id"), "a.output.rows[0] is an integer; it has no 'id'"),
        (("rows", "id"), "a.output.rows is a list; it has no 'id', only numbers as [0]"),
        (("n", "x"), "a.output.n is null; it has no 'x'"),
    ],
)
def test_a_missing_part_is_described_as_by_a_template(
    path: tuple[str | int, ...], problem: str
) -> None:
    with pytest.raises(TemplateFailed) as raised:
        part_of(b'{"rows":[1,2],"n":null}', path, "a.output")

    assert str(raised.value) == problem


@pytest.mark.parametrize(
    "body", [b'{"a":1', b'{"b":' + b"[" * 5_000 + b"]" * 5_000 + b',"a":1}', b'{"b":1']
)
def test_a_value_that_is_damaged_or_nested_too_deeply_is_named(body: bytes) -> None:
    with pytest.raises(TemplateFailed, match=r"^a\.output cannot be read: "):
        part_of(body, ("a",), "a.output")


def test_values_are_put_into_their_places() -> None:
    values = [
        (TaskArtifact("k", place=("a", 1)), b'{"x":1}'),
        (TaskArtifact("k", place=("b",), patch=b'{"y":[2]}'), b'{"x":1,"y":[0]}'),
    ]

    filled = fill_params(b'{"a":[0,null],"b":null,"c":null}', values)

    assert msgspec.json.decode(filled) == {"a": [0, {"x": 1}], "b": {"x": 1, "y": [2]}, "c": None}


def test_a_value_may_be_all_params() -> None:
    assert fill_params(b"null", [(TaskArtifact("k"), b'{"x":1}')]) == b'{"x":1}'


@given(OBJECTS, PATHS, VALUES, OBJECTS)
def test_a_patch_of_params_gives_the_same_before_and_after_their_values_are_filled_in(
    params: dict[str, Any], place: tuple[str | int, ...], value: object, patch: dict[str, Any]
) -> None:
    try:
        container: Any = followed(params, place[:-1])
        followed(container, place[-1:])
    except TemplateFailed:
        return
    if isinstance(container, str):
        return
    body = msgspec.json.encode(value)
    if place:
        container[place[-1]] = None
    else:
        params = None  # type: ignore[assignment]
    encoded = msgspec.json.encode(params)
    expected = merged(
        msgspec.json.decode(fill_params(encoded, [(TaskArtifact("k", place=place), body)])), patch
    )

    artifacts = patch_artifacts([TaskArtifact("k", place=place)], patch)
    patched = msgspec.json.encode(merged(params, patch))

    filled = fill_params(patched, [(artifact, body) for artifact in artifacts])
    assert msgspec.json.decode(filled) == expected
