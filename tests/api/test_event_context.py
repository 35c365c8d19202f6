"""Derived metadata and context of events."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.api.harness import API, System
from windlass.core.events import Event
from windlass.core.plan import LoopPlan, NodePlan
from windlass.core.templates.template import compile_template
from windlass.views.events import STEPS_MAX, data_type, event_meta

STEPS = """
workflow_id: steps
nodes:
  start: {type: start, next: [one, none]}
  one: {handler: echo, params: {n: 1}}
  none: {handler: echo, when: "{{ false }}"}
  two: {handler: echo, dependencies: [one, none], params: {n: 2}}
  after: {handler: echo, dependencies: [two]}
"""
LOOP = """
workflow_id: loop
nodes:
  each:
    handler: fail
    loop: {collection: [7, 8], element: item, mode: sequential, on_failure: continue, max_failure_rate: 1}
    params: {message: "{{ 'm' * 600 }}", type: broken}
    retry: {on_error: {max_attempts: 2, initial_delay: 0.01, jitter: 0}}
"""


PAGES = """
workflow_id: pages
nodes:
  fetch:
    handler: echo
    params: {page: 1}
    retry:
      on_success:
        while: "{{ response.echoed_params.page < 3 }}"
        next_call: {page: "{{ response.echoed_params.page + 1 }}"}
        collect: collect
        delay: 0.01
"""


async def events(
    system: System, document: str, input_data: object = None, **query: str
) -> list[dict[str, Any]]:
    deployed = await system.deploy_text(document)
    job_id = await system.submit(deployed["workflow_id"], input_data=input_data or {})
    await system.ended(job_id)
    response = await system.client.get(
        f"{API}/jobs/{job_id}/events", params={"limit": "1000", **query}
    )
    assert response.status_code == 200, response.text
    return response.json()["items"]


def of(
    found: list[dict[str, Any]], event_type: str, node_id: str | None = None
) -> list[dict[str, Any]]:
    wanted = [event for event in found if event["event_type"] == event_type]
    return [event for event in wanted if node_id in (None, event["node_id"])]


# Context


async def test_the_context_contains_the_input_and_finished_upstream_nodes(system: System) -> None:
    found = await events(system, STEPS, {"url": "https://example.com", "size": 3})

    (done,) = of(found, "node_completed", "two")

    assert done["context"] == {
        "job_id": done["job_id"],
        "workflow_id": "steps",
        "version": 1,
        "workload": {"url": "https://example.com", "size": 3},
        "_step_results": {
            "one": {"has_data": True, "status": "success", "data_type": "dict"},
            "none": {"has_data": False, "status": "skipped", "data_type": "NoneType"},
        },
    }


async def test_the_context_contains_upstream_nodes_only(system: System) -> None:
    found = await events(system, STEPS)

    assert [set(event["context"]["_step_results"]) for event in of(found, "node_ready")] == [
        set(), {"one", "none"}, {"one", "none", "two"},
    ]  # fmt: skip


async def test_events_of_the_job_itself_have_no_context(system: System) -> None:
    found = await events(system, STEPS)

    assert {event["context"] is None for event in found if event["node_id"] is None} == {True}


async def test_the_context_omits_credentials_and_large_values_of_the_input(system: System) -> None:
    secret = {
        "db": {"password": "hunter2", "host": "h"},
        "api_key": "k",
        "url": "https://me:pw@host/",
    }

    found = await events(system, STEPS, {**secret, "rows": ["r" * 100] * 200, "_own": 1})

    assert found[1]["context"]["workload"] == {
        "db": {"password": "***", "host": "h"},
        "api_key": "***",
        "url": "https://***@host/",
        "rows": {"_truncated": True, "_size": 200 * 103 + 1},
    }


async def test_the_context_can_be_omitted(system: System) -> None:
    found = await events(system, STEPS, context="false")

    assert {event["context"] is None for event in found} == {True}
    assert of(found, "node_completed", "two")[0]["meta"]["execution"]["completed_at"]


async def test_the_context_contains_only_the_nearest_upstream_nodes(system: System) -> None:
    chain = {
        f"n{at}": {"handler": "echo", "dependencies": [f"n{at - 1}"] if at else []}
        for at in range(STEPS_MAX + 9)
    }
    found = await events(
        system, msgspec.json.encode({"workflow_id": "long", "nodes": chain}).decode()
    )

    results = of(found, "node_ready", f"n{STEPS_MAX + 8}")[0]["context"]["_step_results"]

    assert results.keys() == {"_truncated", *(f"n{at}" for at in range(8, STEPS_MAX + 8))}


async def test_a_page_of_events_with_large_contexts_is_shortened(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.api.routes.events.PAGE_BYTES_MAX", 10_000)
    await system.deploy_text(STEPS)
    job_id = await system.submit("steps", input_data={"text": "t" * 4_000})
    await system.ended(job_id)
    seen: list[int] = []
    after: str | None = "0"
    pages = 0
    while after is not None:
        page = (
            await system.client.get(f"{API}/jobs/{job_id}/events", params={"after": after})
        ).json()
        seen += [event["seq"] for event in page["items"]]
        after = page["next_cursor"]
        pages += 1

    assert seen == list(range(1, len(seen) + 1))
    assert pages > 3


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('{"a":1}', "dict"), ("[1]", "list"), ('"x"', "str"), ("true", "bool"), ("false", "bool"), ("null", "NoneType"),
        ("-12", "int"), ("1.5", "float"), ("1e9", "float"), ('@{"key":"k","size":1}', "unknown"),
    ],
)  # fmt: skip
def test_the_data_type_follows_from_the_first_characters(head: str, expected: str) -> None:
    assert data_type(head) == expected


# Metadata


async def test_events_of_iterations_name_their_loop(system: System) -> None:
    found = await events(system, LOOP)

    iterators = [event["meta"]["iterator"] for event in found if event["index"] == 1]

    assert len(iterators) == 6
    assert iterators[0] == {
        "parent_execution_id": found[0]["job_id"],
        "iteration_index": 1,
        "total_iterations": 2,
        "iterator_name": "item",
        "mode": "sequential",
    }


async def test_the_meta_of_a_failed_attempt_has_its_error_and_the_retry(system: System) -> None:
    found = await events(system, LOOP)

    first = of(found, "iteration_retrying")[0]
    retry, error = first["meta"]["retry"], first["meta"]["error"]

    assert (retry["retry_type"], retry["max_attempts"], retry["will_retry"]) == (
        "on_error",
        2,
        True,
    )
    assert retry["backoff_seconds"] == 0.01
    assert retry["scheduled_at"] > first["timestamp"]
    assert error == {"message": "m" * 500, "has_stack_trace": True, "failed_at": first["timestamp"]}
    assert first["meta"]["execution"]["duration_seconds"] >= 0


async def test_the_meta_of_the_last_failure_announces_no_retry(system: System) -> None:
    found = await events(system, LOOP)

    last = of(found, "iteration_failed")[0]

    assert last["meta"]["retry"]["will_retry"] is False
    assert "backoff_seconds" not in last["meta"]["retry"]
    assert last["meta"]["error"]["failed_at"] == last["timestamp"]
    assert last["parent_event_id"] == of(found, "iteration_started")[0]["event_id"]


async def test_the_end_of_every_page_has_its_execution_and_retry(system: System) -> None:
    found = await events(system, PAGES)

    pages = [*of(found, "node_retrying"), *of(found, "node_completed")]

    for number, page in enumerate(pages, 1):
        execution, retry = page["meta"]["execution"], page["meta"]["retry"]
        assert execution["duration_seconds"] >= 0
        assert execution["completed_at"] == page["timestamp"]
        assert "error" not in page["meta"]
        assert retry["attempt_number"] == page["data"]["attempt_number"] == number
        assert (retry["page"], retry["will_retry"]) == (number, number < 3)
    assert pages[0]["meta"]["retry"]["backoff_seconds"] == 0.01
    assert pages[0]["meta"]["retry"]["scheduled_at"] > pages[0]["timestamp"]
    assert [of(found, "retry_sequence_completed")[0]["meta"]] == [None]


async def test_the_meta_of_loop_events_has_its_counts(system: System) -> None:
    found = await events(system, LOOP)

    (began,), (ended,) = of(found, "iterator_started"), of(found, "iterator_completed")

    assert began["meta"]["iterator"]["total_iterations"] == 2
    assert ended["meta"] == {
        "total_iterations": 2,
        "completed_iterations": 0,
        "success_rate": 0.0,
        "completed_at": ended["timestamp"],
    }


async def test_the_meta_of_a_completed_attempt_has_its_duration(system: System) -> None:
    (done,) = of(await events(system, STEPS), "node_completed", "one")

    assert done["meta"]["execution"]["duration_seconds"] >= 0
    assert done["meta"]["execution"]["completed_at"] == done["timestamp"]


def test_stored_metadata_is_kept() -> None:
    node = NodePlan("each", loop=LoopPlan(compile_template("{{ input.items }}")))
    event = Event(
        7,
        "iteration_completed",
        "each",
        3,
        1_000_000,
        None,
        Raw(b'{"execution":{"a":1},"own":[2]}'),
    )

    meta = event_meta("j", event, node, None)

    assert meta is not None
    assert bytes(meta).startswith(
        b'{"execution":{"a":1,"completed_at":"1970-01-01T00:00:01.000000Z"},"own":[2]'
    )
