"""Every way a definition can be wrong is told with its place, what is the matter, and what to do."""

import pytest

from windlass.core.errors import DefinitionInvalid, Problem
from windlass.spec import read_definition

HEAD = "workflow_id: w\nnodes:\n"
CLOSED = "workflow_id: w\ninput: {properties: {url: {}}, additionalProperties: false}\nnodes:\n"
OK = "  a: {handler: echo}\n"


def problems_of(text: str | bytes, **options: object) -> list[Problem]:
    with pytest.raises(DefinitionInvalid) as caught:
        read_definition(text, **options)  # type: ignore[arg-type]
    return list(caught.value.problems)


CASES: list[tuple[str, str, int, int, str]] = [
    # name, text, line, column, a part of the message
    ("an empty text", "", 0, 0, "this document is empty"),
    ("a text that is a list", "- a\n", 1, 1, "this document is a list"),
    ("a text that is a word", "hello\n", 1, 1, "this document is a string"),
    ("broken indentation", "workflow_id: w\n nodes: {}\n", 2, 7, "this is not YAML"),
    ("an unclosed bracket", "workflow_id: w\nnodes: [\n", 3, 1, "this is not YAML"),
    ("a tab", "workflow_id: w\nnodes:\n\ta: {}\n", 3, 1, "this is not YAML"),
    ("a colon in a value", "workflow_id: w\ndescription: a: b\n" + "nodes: {}\n", 2, 15, "this is not YAML"),
    ("a control character", "workflow_id: w\x01\n", 1, 15, "this is not YAML"),
    ("a duplicate key", HEAD + OK + "  a: {handler: echo}\n", 4, 3,
     "the key 'a' is given twice, first in line 3, column 3"),
    ("a deep duplicate", HEAD + "  a: {handler: echo, params: {x: 1, x: 2}}\n", 3, 37, "first in line 3, column 31"),
    ("a merge key", HEAD + "  a:\n    <<: {handler: echo}\n", 4, 5, "merge keys (<<) are not allowed"),
    ("a tag", HEAD + "  a: !!python/object:os.system {}\n", 3, 6, "tags such as"),
    ("a local tag", HEAD + "  a: !env {}\n", 3, 6, "tags such as !env"),
    ("an unknown alias", HEAD + "  a: *b\n", 3, 6, "*b stands for nothing"),
    ("an alias of itself", HEAD + "  a: &b {params: *b}\n", 3, 18, "*b stands for nothing"),
    ("two documents", HEAD + OK + "---\na: 1\n", 4, 1, "more than one document"),
    ("a number as key", HEAD + "  1: {handler: echo}\n", 3, 3, "the key 1 is not a string"),
    ("a boolean as key", HEAD + "  true: {handler: echo}\n", 3, 3, "the key true is not a string"),
    ("a list as key", HEAD + "  ? [a]\n  : {}\n", 3, 5, "a key must be a string"),
    ("infinity", HEAD + "  a: {handler: echo, params: {x: .inf}}\n", 3, 34, ".inf is no number"),
    ("a huge integer", HEAD + "  a: {handler: echo, params: {x: 9007199254740993}}\n", 3, 34, "beyond 2^53"),
    ("a NUL", HEAD + '  a: {handler: echo, params: {x: "\\0"}}\n', 3, 34, "NUL"),
    ("no workflow id", "nodes:\n" + OK, 1, 1, "'workflow_id' is missing"),
    ("a bad workflow id", "workflow_id: a b\nnodes:\n" + OK, 1, 14, "'a b' is no workflow id"),
    ("a workflow id that is a number", "workflow_id: 5\nnodes:\n" + OK, 1, 14, "5 is no workflow id"),
    ("a workflow id that is too long", f"workflow_id: {'a' * 129}\nnodes:\n" + OK, 1, 14, "is no workflow id"),
    ("no nodes", "workflow_id: w\n", 1, 1, "there are no nodes"),
    ("empty nodes", "workflow_id: w\nnodes: {}\n", 2, 8, "there are no nodes"),
    ("nodes that are a word", "workflow_id: w\nnodes: x\n", 2, 8, "'nodes' is an object or a list of nodes"),
    ("steps that are an object", "workflow_id: w\nsteps: {a: {}}\n", 2, 8, "'steps' is a list of steps"),
    ("nodes and steps", HEAD + OK + "steps: []\n", 4, 1, "both 'nodes' and 'steps'"),
    ("an unknown top key", HEAD + OK + "descripton: x\n", 4, 1, "no key 'descripton'"),
    ("a bad node id", HEAD + "  a.b: {handler: echo}\n", 3, 3, "'a.b' is no node id"),
    ("a node that is a list", HEAD + "  a: []\n", 3, 6, "a node is an object, not a list"),
    ("a listed node without id", "workflow_id: w\nnodes:\n- handler: echo\n", 3, 3, "this node has no 'id'"),
    ("a step without name", "workflow_id: w\nsteps:\n- tool: echo\n", 3, 3, "this node has no 'step'"),
    ("a listed node that is a word", "workflow_id: w\nnodes:\n- x\n", 3, 3, "a node is an object, not a string"),
    ("a duplicate id", "workflow_id: w\nnodes:\n- {id: a, handler: e}\n- {id: a, handler: e}\n", 4, 8, "used twice"),
    ("an id that is a number", "workflow_id: w\nnodes:\n- {id: 7, handler: e}\n", 3, 8, "7 is no node id"),
    ("an unknown node key", HEAD + "  a: {handler: echo, dependancies: [b]}\n", 3, 22, "no key 'dependancies'"),
    ("no handler", HEAD + "  a: {params: {}}\n", 3, 6, "the node 'a' has no handler"),
    ("a handler that is a number", HEAD + "  a: {handler: 5}\n", 3, 16, "5 is no handler name"),
    ("a bad type", HEAD + "  a: {type: begin}\n", 3, 13, "'begin' is not one of task, start, end"),
    ("two spellings of handler", HEAD + "  a: {handler: e, tool: e}\n", 3, 19, "handler and tool are the same key"),
    ("two spellings of when", HEAD + '  a: {handler: e, when: true, if: true}\n', 3, 31, "are the same key"),
    ("params that are a list", HEAD + "  a: {handler: e, params: [1]}\n", 3, 27, "params are an object"),
    ("start with dependencies", HEAD + OK + "  s: {type: start, needs: [a]}\n", 4, 20, "a node of type start begins"),
    ("an edge into start", HEAD + "  a: {handler: e, next: [s]}\n  s: {type: start}\n", 4, 6, "'s' is a start node"),
    ("end with next", HEAD + "  a: {handler: e}\n  z: {type: end, needs: [a], next: [a]}\n", 4, 30,
     "a node of type end ends"),
    ("an edge out of end", HEAD + "  z: {type: end}\n  a: {handler: e, needs: [z]}\n", 4, 6, "'a' waits for 'z'"),
    ("params on start", HEAD + "  s: {type: start, params: {}}\n", 3, 20, "runs nothing, so it has no 'params'"),
    ("a handler on end", HEAD + "  s: {type: end, handler: e}\n", 3, 18, "runs nothing, so it has no 'handler'"),
    ("an unknown dependency", HEAD + OK + "  b: {handler: e, dependencies: [a, c]}\n", 4, 37, "there is no node 'c'"),
    ("an unknown next", HEAD + "  b: {handler: e, next: zz}\n", 3, 25, "there is no node 'zz'"),
    ("a self-loop", HEAD + "  a: {handler: e, dependencies: [a]}\n", 3, 34, "'a' cannot follow itself"),
    ("a dependency that is a number", HEAD + "  a: {handler: e, dependencies: [1]}\n", 3, 34, "named by its id"),
    ("dependencies that are an object", HEAD + "  a: {handler: e, needs: {b: 1}}\n", 3, 26, "a list of node ids"),
    ("a cycle", HEAD + "  a: {handler: e, needs: b}\n  b: {handler: e, needs: c}\n  c: {handler: e, needs: a}\n", 3, 6,
     "a → c → b → a"),
    ("an unreachable node", HEAD + "  s: {type: start}\n  a: {handler: e}\n", 4, 3,
     "no path leads from the start node"),
    ("a queue with a space", HEAD + "  a: {handler: e, queue: a b}\n", 3, 26, "'a b' is no queue name"),
    ("a timeout of zero", HEAD + "  a: {handler: e, timeout_seconds: 0}\n", 3, 36, "not between"),
    ("a bad duration", HEAD + "  a: {handler: e, timeout_seconds: 5 minutes}\n", 3, 36, "'5 minutes' is no duration"),
    ("a priority that is text", HEAD + "  a: {handler: e, priority: high}\n", 3, 29, "a whole number from"),
    ("a flag that is text", HEAD + '  a: {handler: e, allow_failure: "yes"}\n', 3, 34, "true or false, not 'yes'"),
    ("a flag in the old spelling", HEAD + "  a: {handler: e, run_if_skipped: yes}\n", 3, 35,
     "true or false, not 'yes'"),
    ("no attempts", HEAD + "  a: {handler: e, retry: 0}\n", 3, 26, "from 1 to 1000, not 0"),
    ("too many attempts", HEAD + "  a: {handler: e, retry: {on_error: {max_attempts: 1001}}}\n", 3, 52, "not 1001"),
    ("a rule in the wrong place", HEAD + "  a: {handler: e, retry: {max_attempts: 3}}\n", 3, 26,
     "belongs under on_error"),
    ("an unknown retry key", HEAD + "  a: {handler: e, retry: {on_eror: 3}}\n", 3, 27, "no key 'on_eror'"),
    ("an unknown backoff", HEAD + "  a: {handler: e, retry: {on_error: {backoff: cubic}}}\n", 3, 47,
     "'cubic' is not one of"),
    ("a jitter over one", HEAD + "  a: {handler: e, retry: {on_error: {jitter: 2}}}\n", 3, 46, "a number from 0 to 1"),
    ("delays in the wrong order",
     HEAD + "  a: {handler: e, retry: {on_error: {initial_delay: 9, max_delay: 1}}}\n", 3, 67,
     "less than initial_delay"),
    ("a condition without braces", HEAD + "  a: {handler: e, when: a > 1}\n", 3, 25, "a condition is a template"),
    ("a template that does not close", HEAD + '  a: {handler: e, params: {x: "{{ input.a"}}\n', 3, 31, "unexpected"),
    ("a template with a bad filter", HEAD + '  a: {handler: e, params: {x: [1, "{{ a | uper }}"]}}\n', 3, 35,
     "no filter 'uper'"),
    ("a template that reads a later node",
     HEAD + '  a: {handler: e, params: {x: "{{ b.output }}"}}\n  b: {handler: e}\n', 3, 31,
     "reads 'b', which does not run before 'a'"),
    ("a template that reads itself", HEAD + '  a: {handler: e, params: {x: "{{ a.output }}"}}\n', 3, 31,
     "does not run before 'a'"),
    ("a bad key of a node", HEAD + OK + '  b: {handler: e, needs: a, params: {x: "{{ a.outptu }}"}}\n', 4, 41,
     "'a' has no 'outptu'"),
    ("an unknown node by name", HEAD + '  a: {handler: e, params: {x: "{{ nodes[\'b-1\'].output }}"}}\n', 3, 31,
     "no node 'b-1'"),
    ("a secret", HEAD + '  a: {handler: e, params: {x: "{{ secrets.KEY }}"}}\n', 3, 31, "secrets cannot be used yet"),
    ("a bad key of the job", HEAD + '  a: {handler: e, when: "{{ job.name }}"}\n', 3, 25, "'job' has no 'name'"),
    ("an undeclared input",
     CLOSED + '  a: {handler: e, params: {x: "{{ ulr }}"}}\n', 4, 31, "'ulr', which is neither a node nor an input"),
    ("an undeclared input key",
     CLOSED + '  a: {handler: e, params: {x: "{{ input.ulr }}"}}\n', 4, 31, "neither a node nor an input"),
    ("an input that is no schema", HEAD + OK + "input: [a]\n", 4, 8, "`input` is a JSON Schema"),
    ("an input of a wrong type", HEAD + OK + "input: {type: array}\n", 4, 8, "the input of a job is an object"),
    ("a schema with a bad type", HEAD + OK + "input: {properties: {a: {type: strng}}}\n", 4, 8, "cannot be used"),
    ("a schema from elsewhere", HEAD + OK + "input: {$ref: 'http://x.test/s.json'}\n", 4, 8, "$ref may only point"),
    ("a schema with backtracking", HEAD + OK + "input: {properties: {a: {pattern: '(?=a)b'}}}\n", 4, 8,
     "cannot be used"),
    ("a bad on_failure", HEAD + OK + "on_failure: stop\n", 4, 13, "'stop' is not one of"),
    ("bad defaults", HEAD + OK + "defaults: {handler: echo}\n", 4, 12, "there is no key 'handler' here"),
    ("defaults with a bad value", HEAD + OK + "defaults: {timeout_seconds: never}\n", 4, 29, "is no duration"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "fragment"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_bad_definition_is_refused_with_place_and_hint(text: str, line: int, column: int, fragment: str) -> None:
    problems = problems_of(text)

    matching = [problem for problem in problems if fragment in problem.message]
    assert matching, [str(problem) for problem in problems]
    assert (matching[0].line or 0, matching[0].column or 0) == (line, column), str(matching[0])
    assert all(problem.hint for problem in problems)


def test_there_are_enough_bad_definitions() -> None:
    assert len({name for name, *_ in CASES}) == len(CASES) >= 60


def test_all_problems_come_at_once_in_the_order_of_the_text() -> None:
    text = HEAD + "  a: {handlr: e}\n  b: {handler: e, queue: ' '}\n  c: {handler: e, needs: d}\nfoo: 1\n"

    assert [problem.line for problem in problems_of(text)] == [3, 3, 4, 5, 6]


def test_a_flood_of_problems_is_cut_off() -> None:
    text = HEAD + "".join(f"  n{number}: {{handler: e, needs: zz}}\n" for number in range(250))

    problems = problems_of(text)

    assert len(problems) == 101
    assert problems[-1].message == "and 150 more problems"


JSON_CASES = [
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "x": 1}}}', 1, 54, "no key 'x'"),
    ('{\n "workflow_id": "w",\n "nodes": [{"id": "a"}]}', 3, 12, "has no handler"),
    ('{"workflow_id": "w",\n "workflow_id": "v", "nodes": {}}', 2, 2, "given twice, first in line 1, column 2"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": NaN}}}}', 1, 70, "NaN is no number"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": 1e999}}}}', 1, 70, "too large"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": 12345678901234567890}}}}', 1, 70,
     "beyond 2^53"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": "\\ud800"}}}}', 1, 70, "surrogate"),
    ('{"workflow_id": "w" "nodes": 1}', 1, 21, "this is not JSON"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": [1, {"y": "{{"}]}}}}', 1, 80, "unexpected"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "fragment"), JSON_CASES)
def test_a_bad_json_definition_is_refused_with_its_place(text: str, line: int, column: int, fragment: str) -> None:
    problems = problems_of(text)

    assert [(p.line, p.column) for p in problems if fragment in p.message] == [(line, column)], [
        str(p) for p in problems
    ]


def test_a_decoded_definition_has_no_places_but_all_paths() -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        read_definition({"workflow_id": "w", "nodes": {"a": {"handler": "e", "retry": 0}}})

    assert [(problem.path, problem.line) for problem in caught.value.problems] == [("nodes.a.retry", None)]


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, {"a": object()}, {"a": float("nan")}, {"a": b"x"}])
def test_a_decoded_definition_that_is_no_json_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(DefinitionInvalid):
        read_definition(value)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    assert problems_of(b"workflow_id: w\nnodes: \xff\n")[0].message == "the document is not UTF-8"


def test_a_document_over_the_size_limit_is_refused() -> None:
    assert "over the limit of 33554432" in problems_of("a" * (33554432 + 1))[0].message


def test_an_unknown_handler_is_a_warning_with_the_nearest_known_one() -> None:
    _, warnings = read_definition(HEAD + "  a: {handler: ehco}\n", handlers={"echo", "http"})

    assert [(w.line, w.column, w.hint, w.warning) for w in warnings] == [(3, 16, "did you mean 'echo'?", True)]


def test_an_unknown_handler_is_an_error_when_strict() -> None:
    problems = problems_of(HEAD + "  a: {handler: ehco}\n", handlers={"echo"}, strict=True)

    assert "there is no handler 'ehco'" in problems[0].message


def test_a_node_with_a_reserved_name_gets_a_warning() -> None:
    _, warnings = read_definition(HEAD + "  input: {handler: echo}\n")

    assert "cannot name the node 'input' alone" in warnings[0].message
