"""Trees of texts: YAML 1.2 scalars, strict JSON, and the fast YAML reader that agrees with the strict one."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.spec import read_definition
from windlass.spec.reading.document import read_document
from windlass.spec.reading.findings import Findings, Unreadable
from windlass.spec.reading.json_positions import find_in_json
from windlass.spec.reading.json_reader import read_json
from windlass.spec.reading.yaml_events import read_strictly
from windlass.spec.reading.yaml_positions import find_in_yaml
from windlass.spec.reading.yaml_reader import NeedsStrictReader, read_values, read_yaml


def tree_of(text: str) -> object:
    found = Findings()
    document = read_document(text, None, found)
    assert not found.has_errors
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


def test_words_that_are_not_booleans_in_yaml_1_2_can_be_keys() -> None:
    assert tree_of("on: 1\nno: 2\n'<<': 3\n'1': 4\n") == {"on": 1, "no": 2, "<<": 3, "1": 4}


def test_an_alias_has_the_value_of_its_anchor() -> None:
    assert tree_of("a: &x [1, &y 2]\nb: *x\nc: *y\n") == {"a": [1, 2], "b": [1, 2], "c": 2}


def test_json_and_flow_yaml_are_distinguished() -> None:
    assert tree_of('{"a": "\\/x"}') == {"a": "/x"}
    assert tree_of("{a: b}") == {"a": "b"}


def test_a_byte_order_mark_is_ignored() -> None:
    assert (
        read_definition("\ufeffworkflow_id: w\nnodes: {a: {handler: e}}\n".encode())[0].workflow_id
        == "w"
    )


LEAVES = st.sampled_from(
    [
        None,
        True,
        0,
        -12,
        3.5,
        "",
        "a",
        "x y",
        "it's",
        "no",
        "12",
        "{{ a.b }}",
        "é",
        "a: b",
        "- x",
        "#c",
    ]
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
def test_written_yaml_is_read_back(tree: dict[str, object]) -> None:
    assert tree_of(yaml.safe_dump(tree, allow_unicode=True)) == tree


TOKENS = st.sampled_from(
    ["a", "b", "cc:", "- ", "a: ", "b: 1", "c: [x, y]", "- a: 1", "- - x", 'x: {k: v, j: "z"}', "  ", "    ", "\n",
     "\n  ", "u: [a, [b, {c: 1}], ]", "v: {a: [x, y], b: {c: {}}}", "w: [a b]", "x2: {a: b c}", "y: [a]]", "- x",
     "true: 1", "d: true", "e: 'it'", "f: 007", "g: -5", "h: a b", "i: a #c", "# c", "j: -", "k: - x", "l:",
     "m:\n- 1", "n: [a, 'b']", "o: {}", "p: []", "q: {a: 1", "...", "---", "r: 1.5", "s: a/b.c", "t: {a: 1, a: 2}",
     "z: {a: 'b'}", "z1: {no: 1}", "z2: {null: 1}", "z3: {a: b}c"]
)  # fmt: skip
TEXTS = st.lists(
    st.tuples(TOKENS, st.sampled_from(["", "\n", "\n", "\n  "])).map("".join), max_size=8
).map("".join)


def check_agreement(text: str) -> None:
    """Compare both readers. `repr` distinguishes 1, 1.0 and True and shows the order of keys."""
    try:
        fast = read_values(text)
    except NeedsStrictReader:
        return
    found = Findings()
    strict = read_strictly(text, found)

    assert not found.has_errors
    assert repr(fast) == repr(strict)


@settings(max_examples=1000)
@given(TEXTS)
def test_the_fast_reader_agrees_with_the_strict_one_on_structure(text: str) -> None:
    check_agreement(text)


PIECES = st.sampled_from(
    ["a", "b-c", "d/e.f", "no", "true", "True", "~", "null", "NaN", "1", "-5", "-0", "007", "1.5", "1_0", "0x1", "+1",
     "-Infinity", "1234567890123456", "k" * 200, ": ", ":", ", ", ",", "[", "]", "[", "]", "{", "}", "{", "}", "{a: ",
     "[[", "]]", " ", '"', "'", '"x"', "'y'", "'it \"s\"'", '"it \'s"', "\\", '"\\ud800"', '"\\x41"', "#", " # ", "- ",
     "&x ", "*x", "!", "|", "[" * 20, "]" * 20, "%", "@", "`", "?", "? ", "<<", "é"]
)  # fmt: skip
VALUES = st.lists(PIECES, min_size=1, max_size=6).map("".join)


@settings(max_examples=1000)
@given(st.lists(VALUES, min_size=1, max_size=4), st.booleans())
def test_the_fast_reader_agrees_with_the_strict_one_on_values(
    values: list[str], is_list: bool
) -> None:
    if is_list:
        check_agreement("\n".join(["all:", *(f"- {value}" for value in values)]))
    else:
        check_agreement("\n".join(f"k{index}: {value}" for index, value in enumerate(values)))


@settings(max_examples=500)
@given(st.text(max_size=60) | st.text("ab:-?[]{},'\"\\#&*!|>%@` \t\n\r01.e", max_size=40))
def test_the_fast_reader_agrees_with_the_strict_one_on_any_text(text: str) -> None:
    check_agreement(text)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), TREES, max_size=3),
    st.booleans(),
    st.sampled_from([20, 200]),
)
def test_the_fast_reader_reads_generated_yaml(
    tree: dict[str, object], is_flow: bool, width: int
) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True, default_flow_style=is_flow, width=width)

    assert read_values(text) == tree
    check_agreement(text)


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2", "{b, b: 1}", "a: &x 1\nb: *x", "a: !!str 1", "a: !x 1", "<<: {a: 1}", "1: a", "? [a]\n: 1",
     "{?a}", "a: &http://x", "|\n#a\n", "a: |\n",
     "a: 1\n---\nb: 2", "a: 9007199254740993", "a: 1e999", "a: .inf", 'a: "\\0"', "a:\tb", "- " * 100 + "a",
     f"{'x' * 300}: 1", "[" * 100 + "]" * 100],
)  # fmt: skip
def test_the_strict_reader_reads_documents_that_the_fast_one_cannot_check(text: str) -> None:
    with pytest.raises(NeedsStrictReader):
        read_values(text)


@given(st.dictionaries(st.sampled_from(["a", "b"]), TREES, max_size=2), st.sampled_from([None, 1]))
def test_every_value_of_a_json_text_has_a_position(
    tree: dict[str, object], indent: int | None
) -> None:
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
def test_no_text_raises_anything_but_unreadable(text: str) -> None:
    for read in (read_yaml, read_strictly, read_json):
        found = Findings()
        try:
            read(text, found)
        except Unreadable:
            assert found.has_errors
