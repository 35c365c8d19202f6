"""Every error in a definition is reported with its position, what is wrong, and what to do."""

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
    ("an empty text", "", 0, 0, "a workflow must be an object: an empty document"),
    ("a text that is a list", "- a\n", 1, 1, "a workflow must be an object: a list"),
    ("a document that is a string", "hello\n", 1, 1, "a workflow must be an object: a string"),
    ("broken indentation", "workflow_id: w\n nodes: {}\n", 2, 7,
     "invalid YAML: mapping values are not allowed in this context"),
    ("an unclosed bracket", "workflow_id: w\nnodes: [\n", 3, 1,
     "invalid YAML: did not find expected node content while parsing a flow"),
    ("a tab", "workflow_id: w\nnodes:\n\ta: {}\n", 3, 1,
     "invalid YAML: found character that cannot start any token while"),
    ("a colon in a value", "workflow_id: w\ndescription: a: b\n" + "nodes: {}\n", 2, 15,
     "invalid YAML: mapping values are not allowed in this context"),
    ("a control character", "workflow_id: w\x01\n", 1, 15,
     "invalid YAML: control characters are not allowed (character 1)"),
    ("a duplicate key", HEAD + OK + "  a: {handler: echo}\n", 4, 3,
     "duplicate key: 'a', first used in line 3, column 3"),
    ("a deep duplicate", HEAD + "  a: {handler: echo, params: {x: 1, x: 2}}\n", 3, 37,
     "duplicate key: 'x', first used in line 3, column 31"),
    ("a merge key", HEAD + "  a:\n    <<: {handler: echo}\n", 4, 5, "merge keys are not allowed: <<"),
    ("a tag", HEAD + "  a: !!python/object:os.system {}\n", 3, 6,
     "tags are not allowed: tag:yaml.org,2002:python/object:os.system"),
    ("a local tag", HEAD + "  a: !env {}\n", 3, 6, "tags are not allowed: !env"),
    ("an unknown alias", HEAD + "  a: *b\n", 3, 6, "unknown alias: *b"),
    ("an alias of itself", HEAD + "  a: &b {params: *b}\n", 3, 18, "unknown alias: *b"),
    ("two documents", HEAD + OK + "---\na: 1\n", 4, 1, "more than one document"),
    ("a number as key", HEAD + "  1: {handler: echo}\n", 3, 3, "a key must be a string: 1"),
    ("a boolean as key", HEAD + "  true: {handler: echo}\n", 3, 3, "a key must be a string: true"),
    ("a list as key", HEAD + "  ? [a]\n  : {}\n", 3, 5, "a key must be a string"),
    ("infinity", HEAD + "  a: {handler: echo, params: {x: .inf}}\n", 3, 34, "not a JSON number: .inf"),
    ("a huge integer", HEAD + "  a: {handler: echo, params: {x: 9007199254740993}}\n", 3, 34, "beyond 2^53"),
    ("a NUL", HEAD + '  a: {handler: echo, params: {x: "\\0"}}\n', 3, 34, "NUL"),
    ("no workflow id", "nodes:\n" + OK, 1, 1, "missing key: 'workflow_id'"),
    ("a bad workflow id", "workflow_id: a b\nnodes:\n" + OK, 1, 14, "invalid workflow id: 'a b'"),
    ("a workflow id that is a number", "workflow_id: 5\nnodes:\n" + OK, 1, 14, "invalid workflow id: 5"),
    ("a workflow id that is too long", f"workflow_id: {'a' * 129}\nnodes:\n" + OK, 1, 14, "invalid workflow id:"),
    ("no nodes", "workflow_id: w\n", 1, 1, "no nodes"),
    ("empty nodes", "workflow_id: w\nnodes: {}\n", 2, 8, "no nodes"),
    ("nodes that are a string", "workflow_id: w\nnodes: x\n", 2, 8, "must be an object or a list of nodes: a string"),
    ("steps that are an object", "workflow_id: w\nsteps: {a: {}}\n", 2, 8, "must be a list of steps: an object"),
    ("nodes and steps", HEAD + OK + "steps: []\n", 4, 1, "conflicting keys: 'nodes' and 'steps' both list nodes"),
    ("an unknown top key", HEAD + OK + "descripton: x\n", 4, 1, "unknown key: 'descripton'"),
    ("a bad node id", HEAD + "  a.b: {handler: echo}\n", 3, 3, "invalid node id: 'a.b'"),
    ("a node that is a list", HEAD + "  a: []\n", 3, 6, "a node must be an object: a list"),
    ("a listed node without id", "workflow_id: w\nnodes:\n- handler: echo\n", 3, 3, "missing key: 'id'"),
    ("a step without name", "workflow_id: w\nsteps:\n- tool: echo\n", 3, 3, "missing key: 'step'"),
    ("a listed node that is a string", "workflow_id: w\nnodes:\n- x\n", 3, 3, "a node must be an object: a string"),
    ("a duplicate id", "workflow_id: w\nnodes:\n- {id: a, handler: e}\n- {id: a, handler: e}\n", 4, 8,
     "duplicate node id: 'a'"),
    ("an id that is a number", "workflow_id: w\nnodes:\n- {id: 7, handler: e}\n", 3, 8, "invalid node id: 7"),
    ("an unknown node key", HEAD + "  a: {handler: echo, dependancies: [b]}\n", 3, 22, "unknown key: 'dependancies'"),
    ("no handler", HEAD + "  a: {params: {}}\n", 3, 6, "missing key: node 'a' has no handler"),
    ("a handler that is a number", HEAD + "  a: {handler: 5}\n", 3, 16, "invalid handler name: 5"),
    ("a bad type", HEAD + "  a: {type: begin}\n", 3, 13, "unknown value: 'begin'"),
    ("two spellings of handler", HEAD + "  a: {handler: e, tool: e}\n", 3, 19,
     "same key in several spellings: handler, tool"),
    ("two spellings of when", HEAD + '  a: {handler: e, when: true, if: true}\n', 3, 31,
     "same key in several spellings: when, if"),
    ("params that are a list", HEAD + "  a: {handler: e, params: [1]}\n", 3, 27, "must be an object: a list"),
    ("start with dependencies", HEAD + OK + "  s: {type: start, needs: [a]}\n", 4, 20,
     "key not allowed on a node of type start: 'needs'"),
    ("an edge into start", HEAD + "  a: {handler: e, next: [s]}\n  s: {type: start}\n", 4, 6,
     "start node with a dependency: 's' follows 'a'"),
    ("end with next", HEAD + "  a: {handler: e}\n  z: {type: end, needs: [a], next: [a]}\n", 4, 30,
     "key not allowed on a node of type end: 'next'"),
    ("an edge out of end", HEAD + "  z: {type: end}\n  a: {handler: e, needs: [z]}\n", 4, 6,
     "dependency on an end node: 'a' depends on 'z'"),
    ("an empty retry on start", HEAD + "  s: {type: start, retry: {}}\n", 3, 20,
     "key not allowed on a node of type start: 'retry'"),
    ("params on start", HEAD + "  s: {type: start, params: {}}\n", 3, 20,
     "key not allowed on a node of type start: 'params'"),
    ("a handler on end", HEAD + "  s: {type: end, handler: e}\n", 3, 18,
     "key not allowed on a node of type end: 'handler'"),
    ("an unknown dependency", HEAD + OK + "  b: {handler: e, dependencies: [a, c]}\n", 4, 37, "unknown node: 'c'"),
    ("an unknown next", HEAD + "  b: {handler: e, next: zz}\n", 3, 25, "unknown node: 'zz'"),
    ("a self-loop", HEAD + "  a: {handler: e, dependencies: [a]}\n", 3, 34, "node depends on itself: 'a'"),
    ("a dependency that is a number", HEAD + "  a: {handler: e, dependencies: [1]}\n", 3, 34,
     "must be a node id: an integer"),
    ("dependencies that are an object", HEAD + "  a: {handler: e, needs: {b: 1}}\n", 3, 26, "a list of node ids"),
    ("a cycle", HEAD + "  a: {handler: e, needs: b}\n  b: {handler: e, needs: c}\n  c: {handler: e, needs: a}\n", 3, 6,
     "a → c → b → a"),
    ("an unreachable node", HEAD + "  s: {type: start}\n  a: {handler: e}\n", 4, 3,
     "no path leads from the start node"),
    ("a queue with a space", HEAD + "  a: {handler: e, queue: a b}\n", 3, 26, "invalid queue name: 'a b'"),
    ("a timeout of zero", HEAD + "  a: {handler: e, timeout_seconds: 0}\n", 3, 36, "must be at least 1ms: 0"),
    ("a bad duration", HEAD + "  a: {handler: e, timeout_seconds: 5 minutes}\n", 3, 36,
     "invalid duration: '5 minutes'"),
    ("a priority that is text", HEAD + "  a: {handler: e, priority: high}\n", 3, 29, "must be an integer: 'high'"),
    ("a flag that is text", HEAD + '  a: {handler: e, allow_failure: "yes"}\n', 3, 34, "must be true or false: 'yes'"),
    ("a flag in the old spelling", HEAD + "  a: {handler: e, run_if_skipped: yes}\n", 3, 35,
     "must be true or false: 'yes'"),
    ("no attempts", HEAD + "  a: {handler: e, retry: 0}\n", 3, 26, "must be at least 1: 0"),
    ("too many attempts", HEAD + "  a: {handler: e, retry: {on_error: {max_attempts: 1001}}}\n", 3, 52,
     "must be at most 1000: 1001"),
    ("a rule in the wrong place", HEAD + "  a: {handler: e, retry: {max_attempts: 3}}\n", 3, 26,
     "belongs under on_error"),
    ("an unknown retry key", HEAD + "  a: {handler: e, retry: {on_eror: 3}}\n", 3, 27, "unknown key: 'on_eror'"),
    ("an unknown backoff", HEAD + "  a: {handler: e, retry: {on_error: {backoff: cubic}}}\n", 3, 47,
     "unknown value: 'cubic'"),
    ("a jitter over one", HEAD + "  a: {handler: e, retry: {on_error: {jitter: 2}}}\n", 3, 46, "must be at most 1: 2"),
    ("delays in the wrong order",
     HEAD + "  a: {handler: e, retry: {on_error: {initial_delay: 9, max_delay: 1}}}\n", 3, 67,
     "less than initial_delay"),
    ("a condition without braces", HEAD + "  a: {handler: e, when: a > 1}\n", 3, 25,
     "must be a template, true or false: 'a > 1'"),
    ("a template that does not close", HEAD + '  a: {handler: e, params: {x: "{{ input.a"}}\n', 3, 31, "unexpected"),
    ("a template with a bad filter", HEAD + '  a: {handler: e, params: {x: [1, "{{ a | uper }}"]}}\n', 3, 35,
     "unknown filter: 'uper'"),
    ("a template that reads a later node",
     HEAD + '  a: {handler: e, params: {x: "{{ b.output }}"}}\n  b: {handler: e}\n', 3, 31,
     "template reads a node that is not upstream: 'b' does not run before"),
    ("a template that reads itself", HEAD + '  a: {handler: e, params: {x: "{{ a.output }}"}}\n', 3, 31,
     "does not run before 'a'"),
    ("a bad key of a node", HEAD + OK + '  b: {handler: e, needs: a, params: {x: "{{ a.outptu }}"}}\n', 4, 41,
     "'a' has no 'outptu'"),
    ("an unknown node by name", HEAD + '  a: {handler: e, params: {x: "{{ nodes[\'b-1\'].output }}"}}\n', 3, 31,
     "unknown node: 'b-1'"),
    ("a parent that is not a dependency",
     HEAD + OK + '  b: {handler: e, needs: a}\n  c: {handler: e, needs: b, params: {x: "{{ parents.a }}"}}\n', 5, 41,
     "not a dependency of this node: 'a'"),
    ("a start node as a parent",
     HEAD + '  s: {type: start, next: b}\n  b: {handler: e, when: "{{ parents[\'s\'] }}"}\n', 4, 25,
     "not a dependency of this node: 's'"),
    ("a secret", HEAD + '  a: {handler: e, params: {x: "{{ secrets.KEY }}"}}\n', 3, 31,
     "secrets are not available in this version"),
    ("a bad key of the job", HEAD + '  a: {handler: e, when: "{{ job.name }}"}\n', 3, 25, "'job' has no 'name'"),
    ("an undeclared input",
     CLOSED + '  a: {handler: e, params: {x: "{{ ulr }}"}}\n', 4, 31,
     "unknown name: 'ulr' is neither a node nor an input"),
    ("an undeclared input key",
     CLOSED + '  a: {handler: e, params: {x: "{{ input.ulr }}"}}\n', 4, 31, "neither a node nor an input"),
    ("an input that is not a schema", HEAD + OK + "input: [a]\n", 4, 8, "must be a JSON Schema: a list"),
    ("an input of a wrong type", HEAD + OK + "input: {type: array}\n", 4, 8,
     "invalid JSON Schema: the type of an input must be 'object': 'array'"),
    ("a schema with a bad type", HEAD + OK + "input: {properties: {a: {type: strng}}}\n", 4, 8,
     "invalid JSON Schema: \"strng\" is not valid under any of the schemas"),
    ("a schema from elsewhere", HEAD + OK + "input: {$ref: 'http://x.test/s.json'}\n", 4, 8,
     "invalid JSON Schema: references outside the schema are not allowed:"),
    ("a schema with backtracking", HEAD + OK + "input: {properties: {a: {pattern: '(?=a)b'}}}\n", 4, 8,
     "invalid JSON Schema: \"(?=a)b\" is not a \"regex\""),
    ("a bad on_failure", HEAD + OK + "on_failure: stop\n", 4, 13, "unknown value: 'stop'"),
    ("bad defaults", HEAD + OK + "defaults: {handler: echo}\n", 4, 12, "unknown key: 'handler'"),
    ("defaults with a bad value", HEAD + OK + "defaults: {timeout_seconds: never}\n", 4, 29,
     "invalid duration: 'never'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "fragment"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_bad_definition_is_rejected_with_position_and_hint(
    text: str, line: int, column: int, fragment: str
) -> None:
    problems = problems_of(text)

    matching = [problem for problem in problems if fragment in problem.message]
    assert matching, [str(problem) for problem in problems]
    assert (matching[0].line or 0, matching[0].column or 0) == (line, column), str(matching[0])
    assert all(problem.hint for problem in problems)


def test_there_are_enough_bad_definitions() -> None:
    assert len({name for name, *_ in CASES}) == len(CASES) >= 60


def test_all_problems_are_reported_together_in_text_order() -> None:
    text = (
        HEAD
        + "  a: {handlr: e}\n  b: {handler: e, queue: ' '}\n  c: {handler: e, needs: d}\nfoo: 1\n"
    )

    assert [problem.line for problem in problems_of(text)] == [3, 3, 4, 5, 6]


def test_the_number_of_reported_problems_is_limited() -> None:
    text = HEAD + "".join(f"  n{number}: {{handler: e, needs: zz}}\n" for number in range(250))

    problems = problems_of(text)

    assert len(problems) == 101
    assert (problems[-1].message, problems[-1].hint) == (
        "150 more problems",
        "fix the errors above first",
    )


JSON_CASES = [
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "x": 1}}}', 1, 54, "unknown key: 'x'"),
    ('{\n "workflow_id": "w",\n "nodes": [{"id": "a"}]}', 3, 12, "has no handler"),
    ('{"workflow_id": "w",\n "workflow_id": "v", "nodes": {}}', 2, 2,
     "duplicate key: 'workflow_id', first used in line 1, column 2"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": NaN}}}}', 1, 70, "not a JSON number: NaN"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": 1e999}}}}', 1, 70, "out of range: 1e999"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": 12345678901234567890}}}}', 1, 70,
     "beyond 2^53"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": "\\ud800"}}}}', 1, 70, "surrogate"),
    ('{"workflow_id": "w" "nodes": 1}', 1, 21, "invalid JSON"),
    ('{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": [1, {"y": "{{"}]}}}}', 1, 80, "unexpected"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "fragment"), JSON_CASES)
def test_a_bad_json_definition_is_rejected_with_its_position(
    text: str, line: int, column: int, fragment: str
) -> None:
    problems = problems_of(text)

    assert [(p.line, p.column) for p in problems if fragment in p.message] == [(line, column)], [
        str(p) for p in problems
    ]


def test_problems_of_a_decoded_definition_have_paths_but_no_positions() -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        read_definition({"workflow_id": "w", "nodes": {"a": {"handler": "e", "retry": 0}}})

    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("nodes.a.retry", None)
    ]


@pytest.mark.parametrize(
    "value", [{1: 2}, {"a": {1, 2}}, {"a": object()}, {"a": float("nan")}, {"a": b"x"}]
)
def test_a_decoded_definition_that_is_not_json_is_rejected(value: dict[str, object]) -> None:
    with pytest.raises(DefinitionInvalid):
        read_definition(value)


def test_bytes_that_are_not_utf_8_are_rejected() -> None:
    assert problems_of(b"workflow_id: w\nnodes: \xff\n")[0].message == "not UTF-8: byte 0xff"


def test_a_document_over_the_size_limit_is_rejected() -> None:
    assert (
        "document too large: 33554433 bytes, limit 33554432"
        in problems_of("a" * (33554432 + 1))[0].message
    )


def test_a_decoded_definition_that_repeats_a_large_part_is_rejected_before_it_is_encoded() -> None:
    # Its JSON would have a terabyte.
    value: dict[str, object] = {"workflow_id": "w", "nodes": [["x" * 1_000_000] * 1_000] * 1_000}

    with pytest.raises(DefinitionInvalid, match="document too large: more than 33554432 bytes"):
        read_definition(value)


def test_an_unknown_handler_is_a_warning_that_suggests_a_similar_one() -> None:
    _, warnings = read_definition(HEAD + "  a: {handler: ehco}\n", handlers={"echo", "http"})

    assert [(w.line, w.column, w.hint, w.warning) for w in warnings] == [
        (3, 16, "did you mean 'echo'?", True)
    ]


def test_an_unknown_handler_is_an_error_when_strict() -> None:
    problems = problems_of(HEAD + "  a: {handler: ehco}\n", handlers={"echo"}, strict=True)

    assert "unknown handler: 'ehco'" in problems[0].message


def test_a_node_with_a_reserved_name_causes_a_warning() -> None:
    _, warnings = read_definition(HEAD + "  input: {handler: echo}\n")

    assert "reserved name: templates cannot read the node 'input'" in warnings[0].message
