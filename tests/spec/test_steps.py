"""Loops, pagination and sinks in the steps dialect, in which unknown keys are params of the handler."""

import pytest

from tests.spec.steps import (
    FETCH_MULTIPLE_APIS,
    FETCH_PAGINATED_DATA,
    PROCESS_ITEMS,
    PROCESS_USERS,
    STEPS,
)
from windlass.core.plan import Collect, NodePlan
from windlass.spec import compile_plan, definition_from_json, definition_json, read_definition

HEAD = """
workflow_id: steps
input:
  type: object
  properties:
    api: {type: string}
    api_url: {type: string}
    users: {type: array}
    items: {type: array}
    endpoints: {type: array}
  additionalProperties: false
steps:
"""


def plan_of(step: str) -> NodePlan:
    definition, warnings = read_definition(HEAD + step, handlers={"http", "python"}, strict=True)
    assert warnings == []
    assert definition_from_json(definition_json(definition)) == definition
    return compile_plan(definition, 1).nodes[0]


def source(plan: NodePlan) -> object:
    assert plan.params is not None
    return plan.params.source


@pytest.mark.parametrize("step", STEPS, ids=[step.split()[2] for step in STEPS])
def test_a_step_is_accepted(step: str) -> None:
    assert plan_of(step).id == step.split()[2]


def test_all_steps_are_nodes_of_one_workflow() -> None:
    definition, _ = read_definition(HEAD + "".join(STEPS))

    assert [node.id for node in definition.nodes] == [step.split()[2] for step in STEPS]


def test_a_loop_with_a_sink_is_compiled() -> None:
    plan = plan_of(PROCESS_USERS)

    assert source(plan) == {"url": "{{ api_url }}/process"}
    assert plan.loop is not None
    assert (plan.loop.element, plan.loop.mode, plan.loop.window) == ("user", "async", 10)
    assert plan.sink is not None
    assert (plan.sink.tool, plan.sink.options.source) == (
        "postgres",
        {"table": "processed_users", "connection": "main_db"},
    )


def test_pagination_with_a_sink_is_compiled() -> None:
    plan = plan_of(FETCH_PAGINATED_DATA)

    assert source(plan) == {"url": "{{ api_url }}/data", "params": {"page": 1, "pageSize": 100}}
    assert plan.on_success is not None
    assert (plan.on_success.collect, plan.on_success.merge_path, plan.on_success.calls_max) == (
        Collect.APPEND,
        ("data",),
        100,
    )


def test_a_loop_with_python_code_is_compiled() -> None:
    plan = plan_of(PROCESS_ITEMS)

    assert source(plan) == {"code": "def main(item):\n  return item * 2\n", "item": "{{ item }}"}
    assert plan.loop is not None
    assert (plan.loop.mode, plan.loop.window) == ("sequential", 1)


def test_a_loop_with_pagination_is_compiled() -> None:
    plan = plan_of(FETCH_MULTIPLE_APIS)

    assert source(plan) == {"url": "{{ endpoint }}/data", "params": {"page": 1}}
    assert plan.loop is not None
    assert plan.on_success is not None
    assert plan.on_success.next_call is not None
    assert plan.on_success.next_call.source == {
        "params": {"page": "{{ response.paging.page + 1 }}"}
    }
