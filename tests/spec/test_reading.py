"""What texts mean as trees: YAML 1.2's scalars, strict JSON, and the fast reader that agrees with the full one."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.spec import read_definition
from windlass.spec.reading import plain_yaml
from windlass.spec.reading.document import read_document
from windlass.spec.reading.findings import Findings, Unreadable
from windlass.spec.reading.json_reader import find_in_json, read_json
from windlass.spec.reading.plain_yaml import read_plain_yaml
from windlass.spec.reading.yaml_events import find_in_yaml, read_yaml


def tree_of(text: str) -> object:
    found = Findings()
    document = read_document(text, None, found)
    assert not found.refused
    return document.tree


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("no", "no"), ("on", "on"), ("yes", "yes"), ("off", "off"), ("y", "y"), ("1:30", "1:30"), ("1_000", "1_000"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("12", 12), ("-7", -7), ("+7", 7),
        ("007", 7), ("0o17", 15), ("0x1F", 31), ("0b11", "0b11"), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0),
        ("1.", 1.0),
        ("2001-12-14", "2001-12-14"), ("1.2.3", "1.2.3"), ("'12'", "12"), ('"true"', "true"), ("'no'", "no"),
        ("!", ""), ("9007199254740992", 9007199254740992), ("a b", "a b"), ("[a, 1]", ["a", 1]), ("{a: 1}", {"a": 1}),
        ("|\n  x\n  y", "x\ny\n"),
        ("'it''s'", "it's"), ('"\\u00e9"', "é"), ("<<", "<<"), ("Nah", "Nah"), ("tru", "tru"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_yaml_1_2(scalar: str, value: object) -> None:
    assert tree_of(f"key: {scalar}\n") == {"key": value}


def test_words_that_are_no_booleans_any_more_can_be_keys() -> None:
    assert tree_of("on: 1\nno: 2\n'<<': 3\n'1': 4\n") == {"on": 1, "no": 2, "<<": 3, "1": 4}


def test_aliases_stand_for_their_values() -> None:
    assert tree_of("a: &x [1, &y 2]\nb: *x\nc: *y\n") == {"a": [1, 2], "b": [1, 2], "c": 2}


def test_json_within_braces_and_flow_yaml_are_told_apart() -> None:
    assert tree_of('{"a": "\\/x"}') == {"a": "/x"}
    assert tree_of("{a: b}") == {"a": "b"}


def test_a_byte_order_mark_is_no_matter() -> None:
    assert read_definition("\ufeffworkflow_id: w\nnodes: {a: {handler: e}}\n".encode())[0].workflow_id == "w"


LEAVES = st.sampled_from(
    [None, True, 0, -12, 3.5, "", "a", "x y", "it's", "no", "12", "{{ a.b }}", "é", "a: b", "- x", "#c"]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b_c", "d-e", "on", "f"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), TREES, max_size=3))
def test_what_is_written_as_yaml_is_read_back(tree: dict[str, object]) -> None:
    assert tree_of(yaml.safe_dump(tree, allow_unicode=True)) == tree


TOKENS = st.sampled_from(
    ["a", "b", "cc:", "- ", "a: ", "b: 1", "c: [x, y]", "- a: 1", "- - x", 'x: {k: v, j: "z"}', "  ", "    ", "\n",
     "\n  ", "u: [a, [b, {c: 1}], ]", "v: {a: [x, y], b: {c: {}}}", "w: [a b]", "x2: {a: b c}", "y: [a]]", "- x",
     "true: 1", "d: true", "e: 'it'", "f: 007", "g: -5", "h: a b", "i: a #c", "# c", "j: -", "k: - x", "l:",
     "m:\n- 1", "n: [a, 'b']", "o: {}", "p: []", "q: {a: 1", "...", "---", "r: 1.5", "s: a/b.c", "t: {a: 1, a: 2}",
     "z: {a: 'b'}", "z1: {no: 1}", "z2: {null: 1}", "z3: {a: b}c"]
)  # fmt: skip
TEXTS = st.lists(st.tuples(TOKENS, st.sampled_from(["", "\n", "\n", "\n  "])).map("".join), max_size=8).map("".join)


@settings(max_examples=1000)
@given(TEXTS)
def test_the_fast_reader_agrees_with_the_full_one_or_gives_up(text: str) -> None:
    padded = text + "\n" + "#" * plain_yaml.TEXT_LEAST
    fast = read_plain_yaml(padded)
    if fast is None:
        return
    found = Findings()
    full = read_yaml(text, found)

    assert not found.refused
    assert fast == (full or {})


PIECES = st.sampled_from(
    ["a", "b-c", "d/e.f", "no", "true", "True", "~", "null", "NaN", "1", "-5", "-0", "007", "1.5", "1_0", "0x1", "+1",
     "-Infinity", "1234567890123456", "k" * 200, ": ", ":", ", ", ",", "[", "]", "[", "]", "{", "}", "{", "}", "{a: ",
     "[[", "]]", " ", '"', "'", '"x"', "'y'", "'it \"s\"'", '"it \'s"', "\\", '"\\ud800"', '"\\x41"', "#", " # ", "- ",
     "&x ", "*x", "!", "|", "[" * 20, "]" * 20, "%", "@", "`", "?", "? ", "<<", "é"]
)  # fmt: skip
VALUES = st.lists(PIECES, min_size=1, max_size=6).map("".join)


@settings(max_examples=1000)
@given(st.lists(VALUES, min_size=1, max_size=4), st.booleans())
def test_what_stands_after_keys_and_dashes_is_read_as_the_full_reader_does(values: list[str], listed: bool) -> None:
    lines = [f"- {value}" if listed else f"k{place}: {value}" for place, value in enumerate(values)]
    text = "\n".join(["all:", *lines] if listed else lines)
    fast = read_plain_yaml(text + "\n" + "#" * plain_yaml.TEXT_LEAST)
    if fast is None:
        return
    found = Findings()

    assert fast == read_yaml(text, found)
    assert not found.refused


def test_the_fast_reader_takes_what_programs_write() -> None:
    nodes = {
        f"n{number}": {"handler": "echo", "dependencies": [f"n{number - 1}"], "params": {"x": "{{ a }}"}}
        for number in range(3000)
    }
    tree = {"workflow_id": "w", "nodes": nodes}

    assert read_plain_yaml(yaml.safe_dump(tree)) == tree
    assert (
        read_plain_yaml(yaml.safe_dump({"steps": [{"step": name, **node} for name, node in nodes.items()]})) is not None
    )


@given(st.dictionaries(st.sampled_from(["a", "b"]), TREES, max_size=2), st.sampled_from([None, 1]))
def test_every_value_of_a_json_text_has_a_place(tree: dict[str, object], indent: int | None) -> None:
    text = json.dumps(tree, indent=indent)
    wanted = frozenset((path, False) for path in paths_of(tree))

    places = find_in_json(text, wanted)

    assert places.keys() == wanted
    assert places == find_in_yaml(text, wanted)


def paths_of(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inside: list[tuple[str | int, ...]] = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            inside += paths_of(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            inside += paths_of(inner, (*path, place))
    return inside


@settings(max_examples=500)
@given(st.text(max_size=60) | TEXTS)
def test_no_text_raises_anything_but_findings(text: str) -> None:
    for read in (read_yaml, read_json):
        found = Findings()
        try:
            read(text, found)
        except Unreadable:
            assert found.refused
