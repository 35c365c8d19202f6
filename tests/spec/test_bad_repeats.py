"""Every way a loop, a rule for further calls or a sink can be wrong is told with its place and the way out."""

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


def looping(loop: str, rest: str = "") -> str:
    # The loop's own keys begin in column 26 of line 3.
    return f"{HEAD}  a: {{handler: e, loop: {{{loop}}}{rest}}}\n"


def paging(rule: str, rest: str = "") -> str:
    # The rule's keys begin in column 40 of line 3.
    return f"{HEAD}  a: {{handler: e, retry: {{on_success: {{{rule}}}}}{rest}}}\n"


def sinking(sink: str, rest: str = "") -> str:
    # The sink's keys begin in column 26 of line 3.
    return f"{HEAD}  a: {{handler: e, sink: {{{sink}}}{rest}}}\n"


LIST = 'collection: "{{ input.list }}"'
MORE = 'while: "{{ response.more }}"'

CASES: list[tuple[str, str, int, int, str, str]] = [
    # name, text, line, column, a part of the message, a part of the hint
    ("a loop that is a list", HEAD + "  a: {handler: e, loop: [1]}\n", 3, 25, "an object, not a list", "collection"),
    ("no collection", looping("mode: async"), 3, 25, "'collection' is missing", "add collection"),
    ("a collection that is a word", looping("collection: users"), 3, 38, "a list, not 'users'", '"{{ input.users }}"'),
    ("a collection that is a number", looping("collection: 3"), 3, 38, "a list, not an integer", "write a list"),
    ("a collection that is an object", looping("collection: {a: 1}"), 3, 38, "not an object", "write a list"),
    ("an empty collection key", looping("collection: null"), 3, 38, "a list, not null", "write a list"),
    ("a collection with text around it", looping('collection: "all {{ input.x }}"'), 3, 38, "text and no list",
     "keep only"),
    ("a collection that is a statement", looping('collection: "{% if x %}[]{% endif %}"'), 3, 38, "text and no list",
     "keep only"),
    ("a collection that does not parse", looping('collection: "{{ input. }}"'), 3, 38, "expected name",
     "docs/reference/templates.md"),
    ("a listed template that does not parse", looping('collection: [1, "{{ a | uper }}"]'), 3, 42, "no filter 'uper'",
     "templates"),
    ("an element with a dash", looping(LIST + ", element: my-user"), 3, 67, "no name for an element", "letters"),
    ("an element that is a number", looping(LIST + ", element: 5"), 3, 67, "5 is no name", "letters"),
    *((f"an element called {word}", looping(f"{LIST}, element: {word}"), 3, 67, f"cannot be called '{word}'",
       "choose another name")
      for word in ("input", "workload", "job", "nodes", "secrets", "error", "attempt", "response", "index", "loop")),
    ("an element that is a word of templates", looping(LIST + ', element: "in"'), 3, 67, "cannot be called 'in'",
     "choose another"),
    ("an element with a node's name", looping(LIST + ", element: b") + "  b: {handler: e}\n", 3, 67,
     "'b' has the name of a node", "element: one"),
    ("the usual element beside a node of its name", looping(LIST) + "  item: {handler: e}\n", 3, 25,
     "'item' has the name of a node", "element: one"),
    ("an unknown mode", looping(LIST + ", mode: parallel"), 3, 64, "'parallel' is not one of async, sequential",
     "use one of"),
    ("no concurrency", looping(LIST + ", concurrency: 0"), 3, 71, "from 1 to 10000, not 0", "such a number"),
    ("too much concurrency", looping(LIST + ", concurrency: 10001"), 3, 71, "not 10001", "such a number"),
    ("a concurrency that is text", looping(LIST + ', concurrency: "5"'), 3, 71, "not '5'", "such a number"),
    ("concurrency in a sequence", looping(LIST + ", mode: sequential, concurrency: 2"), 3, 89,
     "one element at a time, not 2", "mode: async"),
    ("an empty chunk", looping(LIST + ", chunk_size: 0"), 3, 70, "from 1 to 100000", "such a number"),
    ("an unknown way to fail", looping(LIST + ", on_failure: ignore"), 3, 70, "'ignore' is not one of fail, continue",
     "use one of"),
    ("a loop that may take no time", looping(LIST + ", timeout_seconds: 0"), 3, 75, "not between", "this range"),
    ("a bad duration of a loop", looping(LIST + ", timeout_seconds: long"), 3, 75, "'long' is no duration", "10s"),
    ("another system's key of a loop", looping(LIST + ", batch_size: 5"), 3, 58, "no key 'batch_size'",
     "did you mean 'chunk_size'?"),
    ("a misspelt key of a loop", looping(LIST + ", elemnt: x"), 3, 58, "no key 'elemnt'", "did you mean 'element'?"),
    ("another system's word for a loop", HEAD + "  a: {handler: e, foreach: [1]}\n", 3, 19, "no key 'foreach'",
     "did you mean 'loop'?"),
    ("a loop on a start node", HEAD + "  a: {type: start, loop: {collection: [1]}}\n", 3, 20, "it has no 'loop'",
     "remove it"),
    ("a sink on an end node", HEAD + "  a: {type: end, sink: {tool: file, path: x.csv}}\n", 3, 18, "it has no 'sink'",
     "remove it"),
    ("a collection of a later node", looping('collection: "{{ b.output }}"') + "  b: {handler: e}\n", 3, 38,
     "reads 'b', which does not run before 'a'", "add 'b' to the dependencies"),
    ("a collection of its own node", looping('collection: "{{ a.output }}"'), 3, 38, "does not run before 'a'", "add"),
    ("an element outside its loop",
     CLOSED + '  a: {handler: e, loop: {collection: [1], element: one}}\n  b: {handler: e, params: {x: "{{ one }}"}}\n',
     5, 31, "'one', which is neither a node nor an input", "declare it"),
    ("an element in its own collection",
     CLOSED + '  a: {handler: e, loop: {collection: "{{ one.list }}", element: one}}\n', 4, 38,
     "'one', which is neither", "declare it"),
    ("an index in a collection", CLOSED + '  a: {handler: e, loop: {collection: "{{ list[index] }}"}}\n', 4, 38,
     "'index', which is known only in nodes with a loop", "input.index"),
    ("an index without a loop", CLOSED + '  a: {handler: e, params: {x: "{{ index }}"}}\n', 4, 31,
     "known only in nodes with a loop", "input.index"),
    ("a response in params", CLOSED + '  a: {handler: e, params: {x: "{{ response.x }}"}}\n', 4, 31,
     "known only in retry.on_success", "input.response"),
    ("a response in a rule for errors",
     CLOSED + '  a: {handler: e, retry: {on_error: {when: "{{ response.x }}"}}}\n', 4, 44, "known only in",
     "input.response"),
    ("an error in a rule for further calls",
     CLOSED + '  a: {handler: e, retry: {on_success: {while: "{{ error.type }}"}}}\n', 4, 47,
     "known only in retry.on_error.when", "input.error"),
    ("a response in a sink", CLOSED + '  a: {handler: e, sink: {tool: file, path: "{{ response.x }}"}}\n', 4, 44,
     "known only in", "input.response"),
    ("no while", paging("max_attempts: 3"), 3, 39, "'while' is missing", "add while"),
    ("a while without braces", paging("while: response.more"), 3, 47, "a condition is a template", "{{"),
    ("a while that does not parse", paging('while: "{{ response. }}"'), 3, 47, "expected name", "templates"),
    ("a next call that is a list", paging(MORE + ", next_call: [1]"), 3, 81, "a next_call is an object", "write {"),
    ("a next call of a later node", paging(MORE + ', next_call: {p: "{{ b.output }}"}') + "  b: {handler: e}\n", 3, 85,
     "reads 'b'", "add 'b'"),
    ("an unknown way to collect", paging(MORE + ", collect: merge"), 3, 79, "'merge' is not one of", "append"),
    ("a merge path with a hole", paging(MORE + ", merge_path: a..b"), 3, 82, "no path of keys", "data.items"),
    ("a merge path of another language", paging(MORE + ", merge_path: $.data"), 3, 82, "no path of keys", "data.items"),
    ("a merge path with brackets", paging(MORE + ', merge_path: "data[*]"'), 3, 82, "no path of keys", "data.items"),
    ("a merge path that is a template", paging(MORE + ', merge_path: "{{ input.x }}"'), 3, 82, "no path", "data.items"),
    ("a merge path that is deep", paging(MORE + f", merge_path: {'.'.join('a' * 33)}"), 3, 82, "no path", "up to 32"),
    ("no calls", paging(MORE + ", max_attempts: 0"), 3, 84, "from 1 to 1000000", "such a number"),
    ("a bad delay", paging(MORE + ", delay: soon"), 3, 77, "'soon' is no duration", "10s"),
    ("another system's key of pages", paging(MORE + ", interval: 5s"), 3, 70, "no key 'interval'", "'delay'"),
    ("a sink that is a word", HEAD + "  a: {handler: e, sink: postgres}\n", 3, 25, "an object, not a string", "tool:"),
    ("a sink without tool", sinking("table: t"), 3, 25, "'tool' is missing", "postgres, sqlite, file, http"),
    ("an unknown tool", sinking("tool: fax"), 3, 32, "'fax' is not one of", "use one of"),
    ("a misspelt tool", sinking("tool: postgress, table: t"), 3, 32, "'postgress'", "did you mean 'postgres'?"),
    ("no table", sinking("tool: postgres"), 3, 25, "'table' is missing", "add table"),
    ("a table that is code", sinking('tool: sqlite, table: "t; drop table t"'), 3, 47, "no name of a table",
     "schema.table"),
    ("a table that is too long", sinking(f"tool: postgres, table: {'t' * 64}"), 3, 49, "no name of a table", "63"),
    ("an unknown option", sinking("tool: postgres, table: t, conection: c"), 3, 52, "no key 'conection'",
     "did you mean 'connection'?"),
    ("rows under another name", sinking("tool: sqlite, table: t, path: data"), 3, 50, "no key 'path'", "'rows'"),
    ("an option of another tool", sinking("tool: file, path: x.csv, table: t"), 3, 51, "no key 'table'", "known keys"),
    ("rows that are no path", sinking('tool: sqlite, table: t, rows: "a b"'), 3, 56, "no path of keys", "data.items"),
    ("a connection that is an address", sinking('tool: postgres, table: t, connection: "postgresql://u:pw@h/d"'), 3, 64,
     "a name of the settings", "connection: main_db"),
    ("an unknown mode of a sink", sinking("tool: sqlite, table: t, mode: merge"), 3, 56, "'merge' is not one of",
     "append"),
    ("an upsert without key", sinking("tool: sqlite, table: t, mode: upsert"), 3, 56, "upsert needs a 'key'",
     "add key"),
    ("an upsert into a file", sinking("tool: file, path: x, mode: upsert"), 3, 53, "'upsert' is not one of", "append"),
    ("an empty key", sinking("tool: sqlite, table: t, mode: upsert, key: []"), 3, 69, "1 to 32 columns, not 0", "["),
    ("a key twice", sinking("tool: sqlite, table: t, key: [a, b, a]"), 3, 62, "'a' is in the key twice", "remove one"),
    ("a key that is no name", sinking("tool: sqlite, table: t, key: [a, 5]"), 3, 59, "5 is no name of a column",
     "a string"),
    ("a bad column", sinking('tool: sqlite, table: t, column: ""'), 3, 58, "no name of a column", "a string"),
    ("a bad schema", sinking('tool: postgres, table: t, schema: "a b"'), 3, 60, "no name of a schema", "letters"),
    ("two schemas", sinking("tool: postgres, table: s.t, schema: s"), 3, 54, "has a schema already", "remove 'schema'"),
    ("two databases", sinking("tool: sqlite, table: t, connection: c, database: d"), 3, 65, "both say", "keep one"),
    ("no file", sinking("tool: file, format: csv"), 3, 25, "'path' is missing", "add path"),
    ("an ending that tells no format", sinking("tool: file, path: out/x.txt"), 3, 44, "tells no format", ".jsonl"),
    ("an unknown format", sinking("tool: file, path: x, format: xml"), 3, 55, "'xml' is not one of", "jsonl"),
    ("no address", sinking("tool: http, method: POST"), 3, 25, "'url' is missing", "add url"),
    ("an address of another kind", sinking("tool: http, url: ftp://x.test"), 3, 43, "no http address", "https://"),
    ("a method that sends nothing", sinking('tool: http, url: "http://x.test", method: GET'), 3, 68,
     "'GET' is not one of", "POST"),
    ("headers that are a list", sinking('tool: http, url: "http://x.test", headers: [a]'), 3, 69, "an object, not",
     "write {"),
    ("a header that is a number", sinking('tool: http, url: "http://x.test", headers: {X-N: 5}'), 3, 75,
     "a text, not 5", "quotes"),
    ("a sink's template that does not parse", sinking('tool: sqlite, table: "{{ x. }}"'), 3, 47, "expected name",
     "templates"),
    ("a sink that reads a later node", sinking('tool: sqlite, table: "{{ b.output }}"') + "  b: {handler: e}\n", 3, 47,
     "reads 'b', which does not run before 'a'", "add 'b'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "fragment", "way_out"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_bad_loop_page_or_sink_is_refused_with_place_and_hint(
    text: str, line: int, column: int, fragment: str, way_out: str
) -> None:
    problems = problems_of(text)

    matching = [problem for problem in problems if fragment in problem.message]
    assert matching, [str(problem) for problem in problems]
    assert (matching[0].line, matching[0].column) == (line, column), str(matching[0])
    assert way_out in (matching[0].hint or ""), str(matching[0])


def test_every_bad_case_is_one_of_its_own() -> None:
    assert len({name for name, *_ in CASES}) == len(CASES)


def test_the_password_of_an_address_is_not_told() -> None:
    problems = problems_of(sinking('tool: postgres, table: t, connection: "postgresql://u:pw@h/d"'))

    assert "pw" not in str(problems[0])


def test_code_in_loops_has_a_bound_to_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.spec.sections.loops.CODE_CHARS_MAX", 50)
    node = '{handler: python, params: {code: "def main(item): return item"}, loop: {collection: [1]}}'

    problems = problems_of(f"{HEAD}  a: {node}\n  b: {node}\n")

    assert [(problem.line, problem.path) for problem in problems] == [(4, "nodes.b.loop")]
    assert "give it in params: item:" in (problems[0].hint or "")


@pytest.mark.parametrize(
    ("template", "place"),
    [("response.x", "response"), ("index + 1", "index"), ("error", "error"), ("attempt", "attempt")],
)
def test_a_name_that_only_some_templates_know_gets_a_warning_where_any_input_may_come(
    template: str, place: str
) -> None:
    _, warnings = read_definition(f'{HEAD}  a: {{handler: e, params: {{x: "{{{{ {template} }}}}"}}}}\n')

    assert [(warning.line, warning.column) for warning in warnings] == [(3, 31)]
    assert f"reads '{place}', which is known only in" in warnings[0].message


def test_a_declared_input_may_have_such_a_name() -> None:
    text = (
        'workflow_id: w\ninput: {properties: {response: {}}}\nnodes: {a: {handler: e, params: {x: "{{ response }}"}}}\n'
    )

    assert read_definition(text)[1] == []


@pytest.mark.parametrize("collect", ["replace", "collect"])
def test_a_merge_path_that_merges_nothing_gets_a_warning(collect: str) -> None:
    _, warnings = read_definition(paging(f"{MORE}, collect: {collect}, merge_path: data"))

    assert [warning.message for warning in warnings] == [
        f"merge_path is not used: with collect: {collect} nothing is merged"
    ]


def test_a_merge_path_says_where_a_sinks_rows_are() -> None:
    assert read_definition(paging(f"{MORE}, merge_path: data", ", sink: {tool: file, path: x.csv}"))[1] == []


WORDS = st.sampled_from(
    ["collection", "element", "mode", "concurrency", "while", "next_call", "merge_path", "tool", "table", "key", "mode"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 100_001) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "async", "upsert", "postgres", "http", "{{ item }}", "{{", "a.b", "$", "10s", "x" * 200]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.sampled_from(["loop", "sink", "retry", "on_success"]), VALUES)
def test_whatever_stands_there_is_read_or_refused_with_a_way_out(key: str, value: object) -> None:
    node = {"handler": "python", "params": {"code": "def main(item): pass"}}
    node |= {"retry": {key: value}} if key == "on_success" else {key: value}

    problems: list[Problem] = []
    try:
        read_definition({"workflow_id": "w", "nodes": {"a": node}})
    except DefinitionInvalid as refused:
        problems = list(refused.problems)

    assert all(problem.hint and problem.path for problem in problems)
