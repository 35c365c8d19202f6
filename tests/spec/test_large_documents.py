"""A hundred thousand nodes are read, checked and compiled in seconds of processor time."""

import json
import time

import pytest

from windlass.core.errors import DefinitionInvalid
from windlass.spec import compile_plan, definition_from_json, definition_json, read_definition

NODES = 100_000
# Measured: about five seconds, on a machine that other processes use too.
SECONDS_MAX = 8.0


def chain(reference: str = "") -> str:
    lines = [
        "workflow_id: large",
        "nodes:",
        "  n0: {handler: echo}",
        "  n1: {handler: echo, dependencies: [n0]}",
    ]
    for number in range(2, NODES):
        lines += [f"  n{number}:", "    handler: echo", f"    dependencies: [n{number - 1}]"]
        if reference:
            lines.append(
                '    params: {value: "{{ ' + reference.format(number - 1, number - 2) + ' }}"}'
            )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param("", id="plain"),
        pytest.param("n{1}.output.x", id="templates", marks=pytest.mark.prove),
    ],
)
def test_a_hundred_thousand_nodes_are_read_checked_and_compiled(reference: str) -> None:
    text = chain(reference)
    began = time.process_time()

    plan = compile_plan(read_definition(text)[0], 1)

    assert time.process_time() - began < SECONDS_MAX
    assert len(plan.nodes) == NODES
    assert plan.parents[NODES - 1] == (NODES - 2,)


def test_a_hundred_thousand_nodes_are_restored() -> None:
    stored = definition_json(read_definition(json.dumps(json_chain()))[0])
    began = time.process_time()

    plan = compile_plan(definition_from_json(stored), 1)

    assert time.process_time() - began < SECONDS_MAX
    assert len(plan.nodes) == NODES


def json_chain() -> dict[str, object]:
    nodes = {
        f"n{number}": {"handler": "echo", "dependencies": [f"n{number - 1}"] if number else []}
        for number in range(NODES)
    }
    return {"workflow_id": "large", "nodes": nodes}


def test_references_far_up_are_found_in_bounded_time() -> None:
    # Every node refers to the node half the chain above it: nothing is near.
    size = NODES // 4
    half = size // 2
    nodes = {
        f"n{number}": {
            "handler": "echo",
            "dependencies": [f"n{number - 1}"] if number else [],
            "params": {"v": f"{{{{ n{number - half}.output }}}}"} if number > half else {},
        }
        for number in range(size)
    }
    text = json.dumps({"workflow_id": "large", "nodes": nodes})
    began = time.process_time()

    read_definition(text)

    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.prove
def test_a_cycle_of_a_hundred_thousand_nodes_is_named() -> None:
    text = chain().replace("  n0: {handler: echo}", f"  n0: {{handler: echo, needs: n{NODES - 1}}}")

    with pytest.raises(DefinitionInvalid, match=r"n0 → n1 → n2 .*100000 nodes"):
        read_definition(text)


def test_too_many_different_computations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.spec.workflow.PARSED_TEMPLATES_MAX", 1_000)
    nodes = {
        f"n{node}": {
            "handler": "e",
            "params": {"v": [f"{{{{ input.x + {node * 200 + n} }}}}" for n in range(200)]},
        }
        for node in range(20)
    }

    with pytest.raises(DefinitionInvalid, match="more than 1000 different templates"):
        read_definition(json.dumps({"workflow_id": "w", "nodes": nodes}))


def test_too_many_templates_in_one_value_are_refused() -> None:
    values = [f"{{{{ input.x + {number} }}}}" for number in range(6000)]

    with pytest.raises(DefinitionInvalid, match="more than 5000 templates"):
        read_definition(
            {"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"v": values}}}}
        )
