"""Definitions are compiled into plans and stored without loss."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.plan import Backoff
from windlass.spec import (
    Definition,
    compile_plan,
    definition_from_json,
    definition_json,
    digest,
    read_definition,
)

FULL = """
workflow_id: full
description: everything that can be stored
input: {type: object, properties: {url: {type: string}, size: {type: integer, default: 5}}, required: [url]}
on_failure: continue
timeout_seconds: 1h
defaults: {queue: q1}
nodes:
  start: {type: start, next: [fetch, other]}
  fetch:
    handler: http
    params: {url: "{{ input.url }}/x", n: [1, "{{ size + 1 }}"], t: yes}
    retry: {on_error: {max_attempts: 4, backoff: linear, initial_delay: 2s, jitter: 0, when: "{{ attempt < 3 }}"}}
    priority: 5
  other: {handler: echo, allow_failure: true, when: "{{ input.size > 1 }}"}
  join: {handler: echo, needs: [fetch, other], run_if_skipped: true, params: {a: "{{ fetch.output }}"}}
  end: {type: end, needs: [join]}
schedule: {cron: "@daily", timezone: Europe/Paris}
constraints: {max_concurrent_runs: 1, catch_up: true, pre_run_hook: {url: "https://x.test/h", timeout: 5s}}
actions: {on_failure: {type: webhook, parameters: {url: "https://x.test"}}}
run_retry: {max_retries: 2}
"""


def full() -> Definition:
    return read_definition(FULL)[0]


def test_a_plan_has_everything_the_core_needs() -> None:
    plan = compile_plan(full(), 3)
    fetch = plan.nodes[plan.index["fetch"]]

    assert (plan.workflow_id, plan.version, plan.fail_fast, plan.timeout_seconds) == (
        "full",
        3,
        False,
        3600.0,
    )
    assert [node.id for node in plan.nodes] == ["start", "fetch", "other", "join", "end"]
    assert plan.parents == [(), (0,), (0,), (1, 2), (3,)]
    assert plan.children == [(1, 2), (3,), (3,), (4,), ()]
    assert list(plan.dependency_counts) == [0, 1, 1, 2, 1]
    assert (fetch.queue, fetch.priority, fetch.on_error.attempts_max) == ("q1", 5, 4)
    assert (
        fetch.on_error.backoff,
        fetch.on_error.initial_delay_seconds,
        fetch.on_error.jitter,
    ) == (
        Backoff.LINEAR,
        2.0,
        0.0,
    )
    assert fetch.on_error.when is not None
    assert plan.input_schema is not None
    assert msgspec.json.decode(plan.input_schema)["required"] == ["url"]


def test_a_stored_definition_equals_the_original() -> None:
    definition = full()

    stored = definition_json(definition)
    again = definition_from_json(stored)

    assert again == definition
    assert definition_json(again) == stored
    assert compile_plan(again, 1) == compile_plan(definition, 1)


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    lines = FULL.strip().split("\n")
    turned = "\n".join([*lines[-4:], *lines[:-4]])

    assert digest(definition_json(read_definition(turned)[0])) == digest(definition_json(full()))


@pytest.mark.parametrize(
    "change",
    [("priority: 5", "priority: 6"), ("size + 1", "size + 2"), ("@daily", "@hourly"), ("1h", "2h")],
)
def test_the_digest_changes_with_the_definition(change: tuple[str, str]) -> None:
    changed = read_definition(FULL.replace(*change))[0]

    assert digest(definition_json(changed)) != digest(definition_json(full()))


NODES = st.fixed_dictionaries(
    {"handler": st.sampled_from(["echo", "http"])},
    optional={
        "params": st.dictionaries(
            st.sampled_from(["a", "b"]),
            st.sampled_from([1, "x", "{{ input.x }}", [None, "{{ y }}"]]),
        ),
        "when": st.sampled_from([True, False, "{{ input.flag }}"]),
        "priority": st.integers(-5, 5),
        "timeout_seconds": st.sampled_from([1, 2.5, "3m"]),
        "retry": st.sampled_from(
            [1, 3, {"on_error": {"max_attempts": 2, "when": "{{ attempt < 2 }}"}}]
        ),
        "allow_failure": st.booleans(),
    },
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), NODES, min_size=1))
def test_any_stored_definition_equals_the_original(nodes: dict[str, object]) -> None:
    definition = read_definition({"workflow_id": "w", "nodes": nodes})[0]

    assert definition_from_json(definition_json(definition)) == definition
