"""Every error in a loop, pagination or a sink is reported with its position and a hint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import DefinitionInvalid, Problem
from windlass.spec import read_definition

HEAD = "workflow_id: w\nnodes:\n"
CLOSED = "workflow_id: w\ninput: {properties: {list: {}}, additionalProperties: false}\nnodes:\n"


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(DefinitionInvalid) as caught:
        read_definition(text)
    return list(caught.value.problems)


def loop(keys: str, rest: str = "") -> str:
    # The keys of the loop begin in column 26 of line 3.
    return f"{HEAD}  a: {{handler: e, loop: {{{keys}}}{rest}}}\n"


def paging(keys: str, rest: str = "") -> str:
    # The keys of the rule begin in column 40 of line 3.
    return f"{HEAD}  a: {{handler: e, retry: {{on_success: {{{keys}}}}}{rest}}}\n"


def sink(keys: str, rest: str = "") -> str:
    # The keys of the sink begin in column 26 of line 3.
    return f"{HEAD}  a: {{handler: e, sink: {{{keys}}}{rest}}}\n"


LIST = 'collection: "{{ input.list }}"'
MORE = 'while: "{{ response.more }}"'

CASES: list[tuple[str, str, int, int, str, str]] = [
    # name, text, line, column, a part of the message, a part of the hint
    ("a loop that is a list", HEAD + "  a: {handler: e, loop: [1]}\n", 3, 25,
     "must be an object: a list", "collection"),
    ("no collection", loop("mode: async"), 3, 25, "missing key: 'collection'", "add collection"),
    ("a collection that is a string", loop("collection: users"), 3, 38,
     "a collection must be a list: 'users'", '"{{ input.users }}"'),
    ("a collection that is a number", loop("collection: 3"), 3, 38,
     "a collection must be a list: 3", "write a list"),
    ("a collection that is an object", loop("collection: {a: 1}"), 3, 38,
     "a collection must be a list: an object", "write a list"),
    ("an empty collection key", loop("collection: null"), 3, 38,
     "a collection must be a list: null", "write a list"),
    ("a collection with text around it", loop('collection: "all {{ input.x }}"'), 3, 38,
     "text around the template makes the collection a string: 'all {{",
     "keep only"),
    ("a collection that is a statement", loop('collection: "{% if x %}[]{% endif %}"'), 3, 38,
     "text around the template makes the collection a string: '{% if x",
     "keep only"),
    ("a collection that does not parse", loop('collection: "{{ input. }}"'), 3, 38, "expected name",
     "docs/reference/templates.md"),
    ("a listed template that does not parse", loop('collection: [1, "{{ a | uper }}"]'), 3, 42, "filter: 'uper'",
     "templates"),
    ("an element with a dash", loop(LIST + ", element: my-user"), 3, 67,
     "invalid element name: 'my-user'", "letters"),
    ("an element that is a number", loop(LIST + ", element: 5"), 3, 67, "invalid element name: 5", "letters"),
    *((f"an element called {word}", loop(f"{LIST}, element: {word}"), 3, 67, f"reserved name: '{word}'",
       "choose another name")
      for word in ("input", "workload", "job", "nodes", "secrets", "error", "attempt", "response", "index", "loop")),
    ("an element that is a template keyword", loop(LIST + ', element: "in"'), 3, 67,
     "reserved name: 'in' has another meaning in templates",
     "choose another"),
    ("an element with a node's name", loop(LIST + ", element: b") + "  b: {handler: e}\n", 3, 67,
     "element has the name of a node: 'b' would hide it in templates", "element: one"),
    ("the usual element beside a node of its name", loop(LIST) + "  item: {handler: e}\n", 3, 25,
     "element has the name of a node: 'item' would hide it in templates", "element: one"),
    ("an unknown mode", loop(LIST + ", mode: parallel"), 3, 64, "unknown value: 'parallel'",
     "use one of"),
    ("a bound on failures without effect", loop(LIST + ", max_failed: 1"), 3, 70,
     "max_failed has no effect: the first failed iteration fails the loop", "on_failure: continue"),
    ("a failure rate above 1", loop(LIST + ", on_failure: continue, max_failure_rate: 1.5"), 3, 98,
     "must be at most 1: 1.5", "write a number from 0"),
    ("no concurrency", loop(LIST + ", concurrency: 0"), 3, 71, "must be at least 1: 0", "write an integer from 1"),
    ("too much concurrency", loop(LIST + ", concurrency: 10001"), 3, 71,
     "must be at most 10000: 10001", "write an integer from 1"),
    ("a concurrency that is text", loop(LIST + ', concurrency: "5"'), 3, 71,
     "must be an integer: '5'", "write an integer from 1"),
    ("concurrency in a sequence", loop(LIST + ", mode: sequential, concurrency: 2"), 3, 89,
     "a sequential loop runs one element at a time: concurrency 2", "mode: async"),
    ("an empty chunk", loop(LIST + ", chunk_size: 0"), 3, 70, "must be at least 1: 0", "write an integer from 1"),
    ("an unknown way to fail", loop(LIST + ", on_failure: ignore"), 3, 70, "unknown value: 'ignore'",
     "use one of"),
    ("a loop with a timeout of zero", loop(LIST + ", timeout_seconds: 0"), 3, 75,
     "must be at least 1ms: 0", "a duration from 1ms"),
    ("a bad duration of a loop", loop(LIST + ", timeout_seconds: long"), 3, 75, "invalid duration: 'long'", "10s"),
    ("another system's key of a loop", loop(LIST + ", batch_size: 5"), 3, 58, "unknown key: 'batch_size'",
     "did you mean 'chunk_size'?"),
    ("a misspelt key of a loop", loop(LIST + ", elemnt: x"), 3, 58,
     "unknown key: 'elemnt'", "did you mean 'element'?"),
    ("a loop key of another system", HEAD + "  a: {handler: e, foreach: [1]}\n", 3, 19, "unknown key: 'foreach'",
     "did you mean 'loop'?"),
    ("a loop on a start node", HEAD + "  a: {type: start, loop: {collection: [1]}}\n", 3, 20,
     "key not allowed on a node of type start: 'loop'",
     "remove it"),
    ("a sink on an end node", HEAD + "  a: {type: end, sink: {tool: file, path: x.csv}}\n", 3, 18,
     "key not allowed on a node of type end: 'sink'",
     "remove it"),
    ("a collection of a later node", loop('collection: "{{ b.output }}"') + "  b: {handler: e}\n", 3, 38,
     "template reads a node that is not upstream: 'b' does not run before", "add 'b' to the dependencies"),
    ("a collection of its own node", loop('collection: "{{ a.output }}"'), 3, 38, "does not run before 'a'",
     "a node has no output before it runs"),
    ("a collection of a node that runs after it",
     loop('collection: "{{ b.output }}"') + "  b: {handler: e, needs: a}\n", 3, 38,
     "'b' does not run before 'a'", "'b' runs after 'a': move the template to a node after 'b'"),
    ("an element outside its loop",
     CLOSED + '  a: {handler: e, loop: {collection: [1], element: one}}\n  b: {handler: e, params: {x: "{{ one }}"}}\n',
     5, 31, "unknown name: 'one' is neither a node nor an input", "declare it"),
    ("an element in its own collection",
     CLOSED + '  a: {handler: e, loop: {collection: "{{ one.list }}", element: one}}\n', 4, 38,
     "unknown name: 'one' is neither a node nor an input", "declare it"),
    ("an index in a collection", CLOSED + '  a: {handler: e, loop: {collection: "{{ list[index] }}"}}\n', 4, 38,
     "name not available here: 'index' is only known in nodes with a loop", "input.index"),
    ("an index without a loop", CLOSED + '  a: {handler: e, params: {x: "{{ index }}"}}\n', 4, 31,
     "name not available here: 'index' is only known in nodes with a loop", "input.index"),
    ("a response in params", CLOSED + '  a: {handler: e, params: {x: "{{ response.x }}"}}\n', 4, 31,
     "name not available here: 'response' is only known in retry.on_success", "input.response"),
    ("a response in a rule for errors",
     CLOSED + '  a: {handler: e, retry: {on_error: {when: "{{ response.x }}"}}}\n', 4, 44,
     "name not available here: 'response' is only known in retry.on_success",
     "input.response"),
    ("an error in a rule for further calls",
     CLOSED + '  a: {handler: e, retry: {on_success: {while: "{{ error.type }}"}}}\n', 4, 47,
     "name not available here: 'error' is only known in retry.on_error.when", "input.error"),
    ("a response in a sink", CLOSED + '  a: {handler: e, sink: {tool: file, path: "{{ response.x }}"}}\n', 4, 44,
     "name not available here: 'response' is only known in retry.on_success", "input.response"),
    ("no while", paging("max_attempts: 3"), 3, 39, "missing key: 'while'", "add while"),
    ("a while without braces", paging("while: response.more"), 3, 47,
     "must be a template, true or false: 'response.more'", "{{"),
    ("a while that does not parse", paging('while: "{{ response. }}"'), 3, 47, "expected name", "templates"),
    ("a next call that is a list", paging(MORE + ", next_call: [1]"), 3, 81, "must be an object: a list", "write {"),
    ("a next call of a later node", paging(MORE + ', next_call: {p: "{{ b.output }}"}') + "  b: {handler: e}\n", 3, 85,
     "template reads a node that is not upstream: 'b' does not run before", "add 'b'"),
    ("an unknown way to collect", paging(MORE + ", collect: merge"), 3, 79,
     "unknown value: 'merge'", "append"),
    ("a merge path with a hole", paging(MORE + ", merge_path: a..b"), 3, 82,
     "invalid path of keys: 'a..b'", "data.items"),
    ("a merge path of another language", paging(MORE + ", merge_path: $.data"), 3, 82,
     "invalid path of keys: '$.data'", "data.items"),
    ("a merge path with brackets", paging(MORE + ', merge_path: "data[*]"'), 3, 82,
     "invalid path of keys: 'data[*]'", "data.items"),
    ("a merge path that is a template", paging(MORE + ', merge_path: "{{ input.x }}"'), 3, 82,
     "invalid path of keys: '{{ input.x }}'", "data.items"),
    ("a merge path that is deep", paging(MORE + f", merge_path: {'.'.join('a' * 33)}"), 3, 82,
     "invalid path of keys:", "up to 32"),
    ("no calls", paging(MORE + ", max_attempts: 0"), 3, 84, "must be at least 1: 0", "write an integer from 1"),
    ("a bad delay", paging(MORE + ", delay: soon"), 3, 77, "invalid duration: 'soon'", "10s"),
    ("another system's key of pages", paging(MORE + ", interval: 5s"), 3, 70, "unknown key: 'interval'", "'delay'"),
    ("a sink that is a string", HEAD + "  a: {handler: e, sink: postgres}\n", 3, 25,
     "must be an object: a string", "tool:"),
    ("a sink without tool", sink("table: t"), 3, 25, "missing key: 'tool'", "postgres, sqlite, file, http"),
    ("an unknown tool", sink("tool: fax"), 3, 32,
     "unknown value: 'fax'", "use one of"),
    ("a misspelt tool", sink("tool: postgress, table: t"), 3, 32, "'postgress'", "did you mean 'postgres'?"),
    ("no table", sink("tool: postgres"), 3, 25, "missing key: 'table'", "add table"),
    ("a table that is code", sink('tool: sqlite, table: "t; drop table t"'), 3, 47,
     "invalid table name: 't; drop table t'",
     "schema.table"),
    ("a table that is too long", sink(f"tool: postgres, table: {'t' * 64}"), 3, 49, "invalid table name:", "63"),
    ("an unknown option", sink("tool: postgres, table: t, conection: c"), 3, 52, "unknown key: 'conection'",
     "did you mean 'connection'?"),
    ("rows under another name", sink("tool: sqlite, table: t, path: data"), 3, 50, "unknown key: 'path'", "'rows'"),
    ("an option of another tool", sink("tool: file, path: x.csv, table: t"), 3, 51,
     "unknown key: 'table'", "known keys"),
    ("rows that are not a path", sink('tool: sqlite, table: t, rows: "a b"'), 3, 56,
     "invalid path of keys: 'a b'", "data.items"),
    ("a connection that is an address", sink('tool: postgres, table: t, connection: "postgresql://u:pw@h/d"'), 3, 64,
     "a connection must be a name from the settings: this is an address", "connection: main_db"),
    ("an unknown mode of a sink", sink("tool: sqlite, table: t, mode: merge"), 3, 56,
     "unknown value: 'merge'",
     "append"),
    ("an upsert without key", sink("tool: sqlite, table: t, mode: upsert"), 3, 56,
     "missing key: mode upsert needs 'key'",
     "add key"),
    ("an upsert into a file", sink("tool: file, path: x, mode: upsert"), 3, 53,
     "unknown value: 'upsert'", "append"),
    ("an empty key", sink("tool: sqlite, table: t, mode: upsert, key: []"), 3, 69,
     "a key must have 1 to 32 columns: 0", "["),
    ("a key twice", sink("tool: sqlite, table: t, key: [a, b, a]"), 3, 62, "duplicate column: 'a'", "remove one"),
    ("a key that is not a name", sink("tool: sqlite, table: t, key: [a, 5]"), 3, 59, "invalid column name: 5",
     "a string"),
    ("a bad column", sink('tool: sqlite, table: t, column: ""'), 3, 58, "invalid column name: ''", "a string"),
    ("a bad schema", sink('tool: postgres, table: t, schema: "a b"'), 3, 60,
     "invalid schema name: 'a b'", "letters"),
    ("two schemas", sink("tool: postgres, table: s.t, schema: s"), 3, 54,
     "conflicting keys: the table already has a schema: 's.t'", "remove 'schema'"),
    ("two databases", sink("tool: sqlite, table: t, connection: c, database: d"), 3, 65,
     "conflicting keys: 'connection' and 'database' both locate the table", "keep one"),
    ("no file", sink("tool: file, format: csv"), 3, 25, "missing key: 'path'", "add path"),
    ("an unknown file extension", sink("tool: file, path: out/x.txt"), 3, 44,
     "unknown file format: 'out/x.txt'", ".jsonl"),
    ("an unknown format", sink("tool: file, path: x, format: xml"), 3, 55,
     "unknown value: 'xml'", "jsonl"),
    ("no address", sink("tool: http, method: POST"), 3, 25, "missing key: 'url'", "add url"),
    ("an address of another kind", sink("tool: http, url: ftp://x.test"), 3, 43,
     "invalid URL: 'ftp://x.test'", "https://"),
    ("a method that sends nothing", sink('tool: http, url: "http://x.test", method: GET'), 3, 68,
     "unknown value: 'GET'", "POST"),
    ("headers that are a list", sink('tool: http, url: "http://x.test", headers: [a]'), 3, 69,
     "must be an object: a list",
     "write {"),
    ("a header that is a number", sink('tool: http, url: "http://x.test", headers: {X-N: 5}'), 3, 75,
     "a header must be a string: 5", "quotes"),
    ("a sink's template that does not parse", sink('tool: sqlite, table: "{{ x. }}"'), 3, 47, "expected name",
     "templates"),
    ("a sink that reads a later node", sink('tool: sqlite, table: "{{ b.output }}"') + "  b: {handler: e}\n", 3, 47,
     "template reads a node that is not upstream: 'b' does not run before", "add 'b'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "fragment", "hint"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_bad_loops_pagination_and_sinks_are_rejected_with_position_and_hint(
    text: str, line: int, column: int, fragment: str, hint: str
) -> None:
    problems = problems_of(text)

    matching = [problem for problem in problems if fragment in problem.message]
    assert matching, [str(problem) for problem in problems]
    assert (matching[0].line, matching[0].column) == (line, column), str(matching[0])
    assert hint in (matching[0].hint or ""), str(matching[0])


def test_every_case_has_its_own_name() -> None:
    assert len({name for name, *_ in CASES}) == len(CASES)


def test_a_password_in_an_address_is_not_shown() -> None:
    problems = problems_of(sink('tool: postgres, table: t, connection: "postgresql://u:pw@h/d"'))

    assert "pw" not in str(problems[0])


def test_the_amount_of_code_in_loops_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.spec.sections.loops.CODE_CHARS_MAX", 50)
    node = (
        '{handler: python, params: {code: "def main(item): return item"}, loop: {collection: [1]}}'
    )

    problems = problems_of(f"{HEAD}  a: {node}\n  b: {node}\n")

    assert [(problem.line, problem.path) for problem in problems] == [(4, "nodes.b.loop")]
    assert 'add item: "{{ item }}" to params' in (problems[0].hint or "")


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ("response.x", "response"),
        ("index + 1", "index"),
        ("error", "error"),
        ("attempt", "attempt"),
    ],
)
def test_a_name_with_limited_scope_causes_a_warning_when_inputs_are_not_declared(
    template: str, place: str
) -> None:
    _, warnings = read_definition(
        f'{HEAD}  a: {{handler: e, params: {{x: "{{{{ {template} }}}}"}}}}\n'
    )

    assert [(warning.line, warning.column) for warning in warnings] == [(3, 31)]
    assert f"name not available here: '{place}' is only known in" in warnings[0].message


def test_a_declared_input_may_have_a_name_with_limited_scope() -> None:
    text = """
workflow_id: w
input: {properties: {response: {}}}
nodes: {a: {handler: e, params: {x: "{{ response }}"}}}
"""

    assert read_definition(text)[1] == []


@pytest.mark.parametrize("collect", ["replace", "collect"])
def test_a_merge_path_without_effect_causes_a_warning(collect: str) -> None:
    _, warnings = read_definition(paging(f"{MORE}, collect: {collect}, merge_path: data"))

    assert [warning.message for warning in warnings] == [
        f"merge_path has no effect: collect is {collect}"
    ]


def test_a_merge_path_locates_the_rows_of_a_sink() -> None:
    assert (
        read_definition(paging(f"{MORE}, merge_path: data", ", sink: {tool: file, path: x.csv}"))[1]
        == []
    )


WORDS = st.sampled_from(
    [
        "collection",
        "element",
        "mode",
        "concurrency",
        "while",
        "next_call",
        "merge_path",
        "tool",
        "table",
        "key",
        "mode",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 100_001) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "async", "upsert", "postgres", "http", "{{ item }}", "{{", "a.b", "$", "10s", "x" * 200]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.sampled_from(["loop", "sink", "retry", "on_success"]), VALUES)
def test_any_value_is_accepted_or_rejected_with_a_hint(key: str, value: object) -> None:
    node = {"handler": "python", "params": {"code": "def main(item): pass"}}
    node |= {"retry": {key: value}} if key == "on_success" else {key: value}

    problems: list[Problem] = []
    try:
        read_definition({"workflow_id": "w", "nodes": {"a": node}})
    except DefinitionInvalid as refused:
        problems = list(refused.problems)

    assert all(problem.hint and problem.path for problem in problems)
