"""One workflow, many spellings: all of them give the same definition, the same stored bytes and the same plan."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.plan import NodeKind
from windlass.spec import Definition, compile_plan, definition_json, read_definition

ECHO_MAPPING = """
workflow_id: echo_test
nodes:
  start:
    type: start
    next: [echo_handler]
  echo_handler:
    type: task
    handler: echo
    next: [end]
  end:
    type: end
"""
ECHO_LIST = """
{"workflow_id": "echo_test", "nodes": [
  {"id": "end", "type": "end", "dependencies": ["echo_handler"]},
  {"id": "echo_handler", "handler": "echo", "dependencies": ["start"]},
  {"id": "start", "type": "start"}
]}
"""
ECHO_STEPS = """
workflow_id: echo_test
workflow:
- step: start
- step: echo_handler
  tool: echo
- step: end
"""


def read(text: str | dict[str, object]) -> Definition:
    return read_definition(text)[0]


def test_three_spellings_of_one_graph_give_one_definition() -> None:
    stored = {bytes(definition_json(read(text))) for text in (ECHO_MAPPING, ECHO_LIST, ECHO_STEPS)}
    plans = [compile_plan(read(text), 1) for text in (ECHO_MAPPING, ECHO_LIST, ECHO_STEPS)]

    assert len(stored) == 1
    assert plans[0] == plans[1] == plans[2]
    assert [(node.id, node.kind) for node in plans[0].nodes] == [
        ("start", NodeKind.START),
        ("echo_handler", NodeKind.TASK),
        ("end", NodeKind.END),
    ]


def test_unknown_keys_of_a_step_are_params_of_its_handler() -> None:
    definition = read(
        "workflow_id: w\nsteps:\n- step: fetch\n  tool: http\n  url: '{{ api_url }}/data'\n"
        "  params: {page: 1}\n  timeout_seconds: 5s\n"
    )

    assert definition.nodes[0].handler == "http"
    assert definition.nodes[0].timeout_seconds == 5.0
    assert definition.nodes[0].params is not None
    assert definition.nodes[0].params.source == {"url": "{{ api_url }}/data", "params": {"page": 1}}


def test_steps_without_edges_follow_each_other() -> None:
    definition = read(
        "workflow_id: w\nsteps:\n- {step: b, tool: echo}\n- {step: a, tool: echo}\n- {step: c, tool: echo}\n"
    )

    assert [(node.id, node.dependencies) for node in definition.nodes] == [
        ("b", ()),
        ("a", ("b",)),
        ("c", ("a",)),
    ]


def test_steps_with_an_edge_are_only_ordered_by_edges() -> None:
    definition = read(
        "workflow_id: w\nsteps:\n- {step: a, tool: echo}\n- {step: b, tool: echo}\n- {step: c, tool: echo, needs: a}\n"
    )

    assert {node.id: node.dependencies for node in definition.nodes} == {
        "a": (),
        "b": (),
        "c": ("a",),
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{handler: e, params: {x: 1}}", "{tool: e, config: {x: 1}}"),
        ('{handler: e, when: "{{ x }}"}', '{handler: e, if: "{{ x }}"}'),
        ("{handler: e, retry: 3}", "{handler: e, retry: {on_error: {max_attempts: 3}}}"),
        ("{handler: e, retry: 3}", "{handler: e, retry: {on_error: 3}}"),
        ("{handler: e, timeout_seconds: 90}", "{handler: e, timeout_seconds: 1.5m}"),
        ("{handler: e, timeout_seconds: 90}", "{handler: e, timeout_seconds: '90'}"),
        ("{handler: e, timeout_seconds: 0.5}", "{handler: e, timeout_seconds: 500ms}"),
        ("{handler: e, timeout_seconds: 7200}", "{timeout_seconds: 2h, type: task, handler: e}"),
        ("{handler: e, queue: default, priority: 0}", "{handler: e}"),
    ],
)
def test_two_spellings_of_a_node_mean_the_same(one: str, other: str) -> None:
    texts = [f"workflow_id: w\nnodes: {{a: {node}}}\n" for node in (one, other)]

    assert definition_json(read(texts[0])) == definition_json(read(texts[1]))


@pytest.mark.parametrize(
    "edge", ["dependencies: [a]", "dependencies: a", "needs: [a]", "depends_on: [a, a]"]
)
def test_edges_have_several_spellings(edge: str) -> None:
    definition = read(f"workflow_id: w\nnodes:\n  a: {{handler: e}}\n  b: {{handler: e, {edge}}}\n")

    assert definition.nodes[1].dependencies == ("a",)


def test_edges_from_both_ends_are_united() -> None:
    definition = read(
        "workflow_id: w\nnodes:\n  a: {handler: e, next: [c]}\n  b: {handler: e}\n  c: {handler: e, needs: [b]}\n"
    )

    assert definition.nodes[2].dependencies == ("a", "b")


def test_defaults_apply_to_nodes_without_their_own_values() -> None:
    definition = read(
        "workflow_id: w\ndefaults: {queue: slow, retry: 2, timeout_seconds: 1m}\n"
        "nodes:\n  a: {handler: e}\n  b: {handler: e, queue: fast}\n  z: {type: end, needs: [a, b]}\n"
    )
    a, b, z = definition.nodes

    assert (a.queue, a.timeout_seconds, a.on_error and a.on_error.attempts_max) == ("slow", 60.0, 2)
    assert (b.queue, b.timeout_seconds) == ("fast", 60.0)
    assert (z.queue, z.on_error) == ("default", None)


def test_a_node_without_params_gets_the_input() -> None:
    assert read(ECHO_MAPPING).nodes[1].params is None


GRAPHS = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        st.permutations([f"n{number}" for number in range(size)]),
        st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))),
    )
)


@given(GRAPHS)
def test_any_graph_means_the_same_in_every_spelling(
    graph: tuple[list[str], set[tuple[int, int]]],
) -> None:
    names, pairs = graph
    edges = [(names[a], names[b]) for a, b in sorted(pairs) if a < b]
    above = {name: [a for a, b in edges if b == name] for name in names}
    below = {name: [b for a, b in edges if a == name] for name in names}
    by_needs = {name: {"handler": "e", "dependencies": above[name]} for name in names}
    by_next = {name: {"next": below[name], "tool": "e"} for name in sorted(names)}
    listed = [{"id": name, "handler": "e", "needs": above[name]} for name in reversed(names)]
    texts = [
        json.dumps({"workflow_id": "w", "nodes": nodes}) for nodes in (by_needs, by_next, listed)
    ]
    if edges:
        steps = [{"step": name, "tool": "e", "depends_on": above[name]} for name in names]
        texts.append(json.dumps({"steps": steps, "workflow_id": "w"}))

    assert len({bytes(definition_json(read(text))) for text in texts}) == 1
