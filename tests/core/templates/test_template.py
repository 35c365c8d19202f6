"""Rendering templates: types, names, missing names, filters, statements, and rejected constructs."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from windlass.core.errors import TemplateFailed, TemplateInvalid
from windlass.core.templates.template import Passing, Reference, compile_template, is_true


class Names:
    """A scope made of a plain mapping."""

    passing = Passing.NOTHING

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def reference(self, name: str, path: tuple[str | int, ...]) -> None:
        return None

    def lookup(self, name: str) -> object:
        return self.values[name]

    def names(self) -> Sequence[str]:
        return list(self.values)


VALUES: Mapping[str, object] = {
    "input": {
        "url": "http://api",
        "size": 3,
        "items": ["a", "b"],
        "flag": False,
        "nothing": None,
        "ratio": 0.5,
    },
    "fetch": {
        "output": {"total": 7, "rows": [{"id": 1, "tag": "x"}, {"id": 2, "tag": "y"}, {"id": 3}]},
        "status": "completed",
    },
    "nodes": {"my-node": {"output": 5}},
}


def rendered(source: object, values: Mapping[str, object] = VALUES) -> Any:
    return msgspec.json.decode(compile_template(source).render(Names(values)))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ fetch.output.total }}", 7),
        ("{{- fetch.output.total -}}", 7),
        (" {{- fetch.output.total -}}\n", 7),
        ("{# a comment #}{{ fetch.output.total }}", 7),
        ("{{ fetch['output'][\"rows\"][0].id }}", 1),
        ("{{ fetch.output.rows[-1].id }}", 3),
        ("{{ nodes['my-node'].output }}", 5),
        ("{{ input.items }}", ["a", "b"]),
        ("{{ input.items[0] }}", "a"),
        ("{{ input.nothing }}", None),
        ("{{ input.flag }}", False),
        ("{{ fetch.output.rows[1:] | length }}", 2),
        ("{{ 'abc'[1:] }}", "bc"),
        ("{{ input.size + 1 }}", 4),
        ("{{ input.size / 2 }}", 1.5),
        ("{{ input.size // 2 }}", 1),
        ("{{ 2 ** 10 % 1000 }}", 24),
        ("{{ -input.size }}", -3),
        ("{{ 'a' * 3 }}", "aaa"),
        ("{{ [1] + [2] }}", [1, 2]),
        ("{{ {'a': input.size, 'b': [1, none]} }}", {"a": 3, "b": [1, None]}),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ 1 < 2 <= 2 }}", True),
        ("{{ 'b' in input.items }}", True),
        ("{{ 'url' in input }}", True),
        ("{{ 'z' not in input.items }}", True),
        ("{{ input.flag or 'other' }}", "other"),
        ("{{ not input.flag and true }}", True),
        ("{{ 'big' if input.size > 2 else 'small' }}", "big"),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ input.size ~ '-' ~ true ~ none }}", "3-truenull"),
        ("{{ true }}", True),
        ("{{ 'text' }}", "text"),
    ],
)
def test_a_template_alone_keeps_the_type_of_its_value(source: str, expected: object) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ input.url }}/users", "http://api/users"),
        ("{{ input.size }}{{ input.size }}", "33"),
        ("n={{ input.nothing }} f={{ input.flag }} r={{ input.ratio }}", "n=null f=false r=0.5"),
        ("all: {{ fetch.output.rows[:1] }}", 'all: [{"id":1,"tag":"x"}]'),
        ("{% if input.flag %}yes{% elif input.size == 3 %}three{% else %}no{% endif %}", "three"),
        (
            "{% for r in fetch.output.rows %}{{ loop.index }}:{{ r.id }};{% endfor %}",
            "1:1;2:2;3:3;",
        ),
        ("{% for r in [1, 2] %}{{ r }}{{ '' if loop.last else ',' }}{% endfor %}", "1,2"),
        ("{% for k, v in {'a': 1} | items %}{{ k }}={{ v }}{% endfor %}", "a=1"),
        ("{% for x in range(5) if x is odd %}{{ x }}{% else %}none{% endfor %}", "13"),
        ("{% for x in [] %}{{ x }}{% else %}none{% endfor %}", "none"),
        ("{% set x = input.size * 2 %}{{ x }}!", "6!"),
        ("{% raw %}{{ not a template }}{% endraw %}", "{{ not a template }}"),
        ("a {# a comment #}{{ input.size }}", "a 3"),
        ("${#array[@]} has no template", "${#array[@]} has no template"),
    ],
)
def test_templates_in_text_render_text(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize("expression", ["input.size", "input['size']", "input.size | abs"])
@pytest.mark.parametrize("around", ["%s ", " %s", "%s\n", "\n%s", "\t%s\n\n", "%s\u00a0", "%s\r\n"])
def test_white_space_around_a_template_is_text(expression: str, around: str) -> None:
    assert rendered(around % f"{{{{ {expression} }}}}") == around % "3"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a\r\nb: {{ input.size }}\r\n", "a\r\nb: 3\r\n"),
        ("\r{{ input.size }}\r", "\r3\r"),
        ("{{ 'x\r\ny' }}!", "x\r\ny!"),
        ("{{ input\r\n.size }}\r\n", "3\r\n"),
        ("{{ {'x\ry': 1}['x\ry'] }}\r", "1\r"),
        ("{{ '\\x1c\\x1d' }}\r\x1e", "\x1c\x1d\r\x1e"),
        ("a\r\n{{- input.size -}}\r\n b", "a3b"),
        ("{% raw %}\r\n{{ x }}{% endraw %}\r\n", "\r\n{{ x }}\r\n"),
    ],
)
def test_carriage_returns_in_text_are_kept(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("input.missing | default('x')", "x"),
        ("missing.at.any.depth | default(1)", 1),
        ("input.nothing.deeper | d(2)", 2),
        ("'' | default('empty', true)", "empty"),
        ("input.items | count", 2),
        ("'aB' | upper ~ ('aB' | lower) ~ ('ab cd' | title) ~ ('ab' | capitalize)", "ABabAb CdAb"),
        ("' x ' | trim", "x"),
        ("'a-b-c' | replace('-', '+', 1)", "a+b-c"),
        ("input.items | join(', ')", "a, b"),
        ("fetch.output.rows | join('/', attribute='id')", "1/2/3"),
        ("'a,b' | split(',')", ["a", "b"]),
        ("input.items | first ~ (input.items | last)", "ab"),
        ("[1, 2.5] | sum", 3.5),
        ("fetch.output.rows | sum(attribute='id')", 6),
        ("[3, 1, 2] | min ~ ([3, 1, 2] | max)", "13"),
        ("(fetch.output.rows | max(attribute='id')).id", 3),
        ("[3, 1, 2] | sort", [1, 2, 3]),
        ("['b', 'a'] | sort(reverse=true)", ["b", "a"]),
        ("(fetch.output.rows | sort(reverse=true, attribute='id') | first).id", 3),
        ("[1, 2, 1, '1'] | unique", [1, 2, "1"]),
        ("[1, 2] | reverse", [2, 1]),
        ("'ab' | reverse", "ba"),
        ("2.567 | round(1)", 2.6),
        ("2.1 | round(0, 'ceil') | int", 3),
        ("-3 | abs", 3),
        ("'12' | int + ('x' | int(default=5))", 17),
        ("'1.5' | float", 1.5),
        ("5 | string", "5"),
        ("'no' | bool", False),
        ("'ab' | list", ["a", "b"]),
        ("{'a': 1} | keys", ["a"]),
        ("{'a': 1} | values", [1]),
        ("[['a', 1]] | dict", {"a": 1}),
        ("range(5) | batch(2)", [[0, 1], [2, 3], [4]]),
        ("fetch.output.rows | map(attribute='id')", [1, 2, 3]),
        ("fetch.output.rows | map(attribute='tag', default='-')", ["x", "y", "-"]),
        ("['a'] | map('upper')", ["A"]),
        ("[0, 1, 2] | select | list", [1, 2]),
        ("[0, 1, 2] | reject('odd')", [0, 2]),
        ("fetch.output.rows | selectattr('tag', '==', 'y') | map(attribute='id')", [2]),
        ("fetch.output.rows | rejectattr('tag', 'defined') | map(attribute='id')", [3]),
        ("{'a': [1]} | tojson", '{"a":[1]}'),
        ("'[1, 2]' | fromjson", [1, 2]),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("'abcdef' | truncate(4)", "a..."),
        ("input.missing is defined", False),
        ("input.nothing is none", True),
        ("input.nope.deeper is undefined", True),
        ("1 is number and '' is string and {} is mapping and [] is sequence", True),
        ("4 is even and 3 is odd and 4 is divisibleby(2)", True),
        ("'abc' is startswith('a')", True),
        ("2 is in([1, 2])", True),
        ("true is true and false is false", True),
    ],
)
def test_filters_and_tests(expression: str, expected: object) -> None:
    assert rendered("{{ " + expression + " }}") == expected


def test_a_key_called_items_is_a_key() -> None:
    assert rendered("{{ d.items }}{{ d.keys }}", {"d": {"items": 1, "keys": 2}}) == "12"


def test_values_are_rendered_anywhere_but_in_keys() -> None:
    source = {"{{ key }}": ["{{ input.size }}", {"deep": "v{{ input.size }}"}], "plain": 1}

    assert rendered(source) == {"{{ key }}": [3, {"deep": "v3"}], "plain": 1}


def test_a_value_without_templates_is_encoded_once() -> None:
    template = compile_template({"a": [1, "x"]})

    assert template.static is not None
    assert bytes(template.static) == b'{"a":[1,"x"]}'
    assert template.references == ()


def test_references_are_the_names_that_a_template_reads() -> None:
    source = [
        "{{ a.output.x[0].y }}",
        "{{ b['k'] + c.d[1] }}",
        "{% for x in e.f %}{{ x.g }}{% endfor %}",
        "{{ h[i] }}",
    ]

    template = compile_template(source)

    assert template.references == (
        Reference("a", ("output", "x", 0, "y")),
        Reference("b", ("k",)),
        Reference("c", ("d", 1)),
        Reference("e", ("f",)),
        Reference("h", ()),
        Reference("i", ()),
    )


def test_equal_sources_share_one_compiled_template() -> None:
    assert compile_template("{{ a.b + 1 }}") is compile_template("{{ a.b + 1 }}")


def test_a_variable_of_one_string_is_unknown_in_the_next() -> None:
    with pytest.raises(TemplateFailed, match="undefined name: 'x'"):
        rendered(["{% set x = 1 %}{{ x }}", "{{ x }}"])


@pytest.mark.parametrize(
    ("source", "fragments"),
    [
        (
            "{{ fech.output }}",
            ["{{ fech.output }}", "undefined name: 'fech'", "did you mean 'fetch'?"],
        ),
        (
            "{{ fetch.output.totl }}",
            ["fetch.output has no 'totl'", "available: total, rows", "did you mean 'total'?"],
        ),
        ("{{ fetch.output.total.x }}", ["fetch.output.total is an integer", "has no 'x'"]),
        ("{{ input.nothing.x }}", ["input.nothing is null"]),
        ("{{ input.items[9] }}", ["input.items has no element 9; it has 2"]),
        ("{{ input.items.x }}", ["input.items is a list"]),
        ("{{ 1 + 'a' }}", ["cannot add: an integer and a string", "use ~"]),
        ("{{ 1 / 0 }}", ["division by zero: 1"]),
        ("{{ 'x' | int }}", ["not an integer: 'x'", "int(default=0)"]),
        ("{{ 1 < 'a' }}", ["cannot compare: an integer and a string"]),
        ("{{ '%s' % 1 }}", ["% does not format strings"]),
        ("{{ [1, 'a'] | sort }}", ["cannot sort: an integer and a string"]),
        ("{% for x in 5 %}{% endfor %}", ["`for` needs a list: an integer"]),
    ],
)
def test_a_failure_names_the_expression_and_the_available_values(
    source: str, fragments: list[str]
) -> None:
    with pytest.raises(TemplateFailed) as caught:
        rendered(source)

    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        ("{{", "unexpected"),
        ("{{ a b }}", "expected token '}}'"),
        ("{{ a | nofilter }}", "unknown filter: 'nofilter'"),
        ("{{ a | uper }}", "did you mean 'upper'?"),
        ("{{ a is nothing }}", "unknown test: 'nothing'"),
        ("{{ a.items() }}", "write | items"),
        ("{{ a.get('x') }}", "| default"),
        ("{{ f(1) }}", "only range"),
        ("{{ a | replace('x') }}", "missing argument of | replace: 'new'"),
        ("{{ a | upper(1) }}", "too many arguments: | upper takes at most 0"),
        ("{{ a | join(sep=',') }}", "its arguments: separator"),
        ("{{ a if b }}", "needs an `else`"),
        ("{% macro m() %}{% endmacro %}", "macros are not available"),
        ("{% include 'x' %}", "`include` is not available"),
        ("{% import 'x' as y %}", "`import` is not available"),
        ("{% from 'x' import y %}", "`import` is not available"),
        ("{% extends 'x' %}", "`extends` is not available"),
        ("{% block b %}{% endblock %}", "blocks are not available"),
        ("{% filter upper %}x{% endfilter %}", "use {{ x | filter }}"),
        ("{% with a = 1 %}{% endwith %}", "use {% set x"),
        ("{% call f() %}{% endcall %}", "call blocks are not available"),
        ("{% set x %}y{% endset %}", "`set` blocks are not available"),
        ("{% set ns.x = 1 %}", "only plain names can be set"),
        ("{% for x in y recursive %}{% endfor %}", "recursive loops"),
        ("{% autoescape true %}{% endautoescape %}", "`autoescape` is not available"),
        ("{% do x %}", "unknown tag 'do'"),
        ("{% if %}{% endif %}", "Expected an expression"),
        ("line\n{{ a | nofilter }}", "line 2: "),
        ("{{ '\\ud800' }}", "surrogate"),
        ("{{ 1e999 }}", "number out of range"),
        ("{{ 99999999999999999999 }}", "over 64 bits"),
    ],
)
def test_a_construct_that_is_not_allowed_is_rejected_with_a_hint(
    source: str, fragment: str
) -> None:
    with pytest.raises(TemplateInvalid) as caught:
        compile_template(source)

    assert fragment in str(caught.value)
    assert source.partition("\n")[0][:20] in str(caught.value)


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        (True, True), (False, False), (None, False), (0, False), (1, True), (0.0, False), ("", False), ("0", False),
        ("false", False), ("False", False), (" NO ", False), ("off", False), ("none", False), ("null", False),
        ("yes", True), ("true", True), ("anything", True), ([], False), ([0], True), ({}, False), ({"a": 0}, True),
    ],
)  # fmt: skip
def test_truthiness_of_rendered_values(value: object, truth: bool) -> None:
    assert is_true(value) is truth
