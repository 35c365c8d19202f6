"""HTTP workers with iterations, pages, sinks and large values."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.worker_server import Server, result, serving
from windlass.core.artifacts import INLINE_BYTES_MAX, is_reference

EACH = """
workflow_id: each
defaults: {queue: far}
nodes:
  each:
    handler: carve
    loop: {collection: [ash, oak, elm], element: wood, concurrency: 2}
    params: {wood: "{{ wood }}", at: "{{ index }}"}
    retry: {on_error: {max_attempts: 3, initial_delay: 0.01, jitter: 0}}
"""
PAGES = """
workflow_id: pages
defaults: {queue: far}
nodes:
  fetch:
    handler: read
    params: {page: 1}
    retry:
      on_error: {max_attempts: 2, initial_delay: 0.01, jitter: 0}
      on_success:
        while: "{{ response.more }}"
        next_call: {page: "{{ response.page + 1 }}"}
        collect: append
        merge_path: rows
        max_attempts: 9
    sink: {tool: postgres, connection: main, table: "t_{{ input.name }}", mode: append}
"""
LARGE = """
workflow_id: large
defaults: {queue: far}
nodes:
  make: {handler: make, params: {}}
  use: {handler: use, dependencies: [make], params: {all: "{{ make.output }}", first: "{{ make.output[0] }}"}}
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, queues=()) as server:
        for document in (EACH, PAGES, LARGE):
            await server.deploy(document)
        yield server


async def report(
    server: Server, task: dict[str, Any], output: object = None, **rest: object
) -> dict[str, Any]:
    return await server.post("/callbacks/task-result", result(task, output, **rest))


async def emit(
    server: Server, task: dict[str, Any], status: int = 200, **rest: Any
) -> dict[str, Any]:
    names = {name: task[name] for name in ("job_id", "node_id")}
    return await server.post(
        "/event/emit", {**names, "event_type": "action_completed", **rest}, status
    )


# Loops


async def test_a_claimed_iteration_names_its_loop(server: Server) -> None:
    job_id = await server.submit("each")

    first, second = await server.claim(max_tasks=9)

    assert [first["task_id"], second["task_id"]] == [f"{job_id}_each[0]_1", f"{job_id}_each[1]_1"]
    assert (second["index"], second["params"]) == (1, {"wood": "oak", "at": 1})
    assert second["meta"] == {
        "iterator": {
            "parent_execution_id": job_id,
            "iteration_index": 1,
            "total_iterations": 3,
            "iterator_name": "wood",
            "mode": "async",
        }
    }


async def test_results_of_iterations_are_merged_in_order(server: Server) -> None:
    job_id = await server.submit("each")
    first, second = await server.claim(max_tasks=2)
    await report(server, second, "two")
    (third,) = await server.claim()
    await report(server, third, "three")
    await report(server, first, "one")

    assert (await server.ended(job_id)).state.status == "completed"
    assert await server.output(job_id, "each") == ["one", "two", "three"]


async def test_a_second_report_of_an_iteration_is_a_duplicate(server: Server) -> None:
    await server.submit("each")
    first, second = await server.claim(max_tasks=2)

    answers = [await report(server, task, 1) for task in (first, first, second)]

    assert [answer["duplicate"] for answer in answers] == [False, True, False]


async def test_the_retry_of_an_iteration_has_retry_meta(server: Server) -> None:
    job_id = await server.submit("each")
    first, _ = await server.claim(max_tasks=2)
    await report(server, first, status="failed", error="not yet")
    # While it waits, another iteration is dispatched.
    (third,) = await server.claim()
    await report(server, third, "three")

    (again,) = await server.claim()

    assert (again["task_id"], again["retry_count"]) == (f"{job_id}_each[0]_2", 1)
    retry = again["meta"]["retry"]
    assert (retry["type"], retry["attempt_number"], retry["max_attempts"]) == ("on_error", 2, 3)
    assert retry["parent_event_id"].startswith(f"{job_id}:")
    assert (retry["backoff_seconds"], retry["scheduled_at"] is not None) == (0.01, True)


@pytest.mark.parametrize(
    "task_id", ["{job}_each[2]_1", "{job}_each[99]_1", "{job}_each[0]_2", "{job}_each_1"]
)
async def test_a_result_of_an_undispatched_iteration_is_refused(
    server: Server, task_id: str
) -> None:
    job_id = await server.submit("each")
    (task, _) = await server.claim(max_tasks=2)

    body = {**result(task, 1), "task_id": task_id.format(job=job_id)}

    assert "no such attempt" in (await server.post("/callbacks/task-result", body, 409))["detail"]


async def test_an_index_of_a_node_without_a_loop_is_refused(server: Server) -> None:
    job_id = await server.submit("large")
    (task,) = await server.claim()

    await server.post(
        "/callbacks/task-result", {**result(task, 1), "task_id": f"{job_id}_make[0]_1"}, 409
    )


async def test_a_repeated_loop_accepts_new_results(server: Server) -> None:
    job_id = await server.submit("each")
    for _ in range(3):
        (task,) = await server.claim()
        await report(server, task, "old")
    await server.ended(job_id)
    await server.engine.jobs.retry(job_id, "each")
    await server.happened(job_id, "job_retried")
    again = (await server.get(f"/jobs/{job_id}/nodes/each/iterations"))["items"]
    for _ in range(3):
        (task,) = await server.claim()
        await report(server, task, "new")

    assert (await server.ended(job_id)).state.status == "completed"
    assert [(task["status"], task["attempt"]) for task in again] == [
        ("dispatched", 2),
        ("dispatched", 2),
        ("pending", 0),
    ]
    assert await server.output(job_id, "each") == ["new", "new", "new"]


# Events of workers


async def test_an_event_applies_to_its_iteration(server: Server) -> None:
    job_id = await server.submit("each")
    _, second = await server.claim(max_tasks=2)
    await emit(server, second, result="two", data={"iteration_index": 1, "attempt_number": 1})
    await server.happened(job_id, "iteration_completed")

    tasks = (await server.get(f"/jobs/{job_id}/nodes/each/iterations"))["items"]

    assert [(task["status"], task["output"]) for task in tasks[:2]] == [
        ("running", None),
        ("completed", "two"),
    ]


async def test_an_event_of_a_loop_must_name_its_iteration(server: Server) -> None:
    await server.submit("each")
    (task, _) = await server.claim(max_tasks=2)

    for data in ({}, {"iteration_index": 2}, {"iteration_index": 0, "attempt_number": 2}):
        refused = await emit(server, task, 409, data=data)
        assert "the iteration if the node is a loop" in refused["detail"]


async def test_an_emitted_context_is_stored_without_credentials(server: Server) -> None:
    job_id = await server.submit("large")
    (task,) = await server.claim()
    context = {"vars": {"user": "u", "token": "t"}, "_inner": 1, "rows": "r" * 20_000}
    await emit(server, task, result=[1], context=context)
    await server.happened(job_id, "node_completed")

    (event,) = [
        one for one in await server.store.jobs.events(job_id) if one.type == "node_completed"
    ]
    listed = (await server.get(f"/jobs/{job_id}/events", after=event.seq - 1, limit=1))["items"][0]

    assert event.context is not None
    assert listed["context"] == {
        "vars": {"user": "u", "token": "***"},
        "rows": {"_truncated": True, "_size": 20_002},
    }


async def test_a_context_that_is_not_an_object_is_refused(server: Server) -> None:
    await server.submit("large")
    (task,) = await server.claim()

    refused = await emit(server, task, 422, context=[1])

    assert refused["errors"][0]["path"] == "context"


# Pages and sinks


async def test_each_page_is_a_task_with_its_sink_and_meta(server: Server) -> None:
    job_id = await server.submit("pages", name="rows")
    (first,) = await server.claim()
    await report(server, first, {"rows": [1, 2], "page": 1, "more": True})
    (second,) = await server.claim()
    await report(server, second, {"rows": [3], "page": 2, "more": False})
    await server.ended(job_id)

    assert first["sink"] == {
        "tool": "postgres",
        "options": {"connection": "main", "table": "t_rows", "mode": "append"},
        "path": ["rows"],
        "identity": f"{job_id}_fetch",
        "run_key": f"{job_id}_fetch~0",
    }
    assert (second["sink"]["identity"], second["sink"]["run_key"]) == (
        f"{job_id}_fetch#2",
        f"{job_id}_fetch~0",
    )
    assert (first["meta"], second["params"]) == ({}, {"page": 2})
    assert second["meta"]["retry"] == {
        "type": "on_success",
        "attempt_number": 2,
        "max_attempts": 9,
        "parent_event_id": second["meta"]["retry"]["parent_event_id"],
        "page": 2,
        "continuation": "pagination",
    }
    assert await server.output(job_id, "fetch") == [1, 2, 3]


async def test_a_claim_names_the_attempt_that_is_claimed(server: Server) -> None:
    await server.submit("pages", name="rows")
    (first,) = await server.claim()
    await report(server, first, {"rows": [1], "page": 1, "more": True})
    (second,) = await server.claim()
    await report(server, second, status="failed", error="not yet")

    (third,) = await server.claim()

    assert (third["attempt"], third["retry_count"], third["params"]) == (3, 1, {"page": 2})
    retry = third["meta"]["retry"]
    assert (retry["type"], retry["attempt_number"]) == ("on_error", 3)
    assert retry["backoff_seconds"] == 0.01


# Large values


def rows(count: int = 5_000) -> list[str]:
    return [f"{number:08}" + "x" * 100 for number in range(count)]


async def test_a_large_result_is_stored_as_an_artifact_first(server: Server) -> None:
    job_id = await server.submit("large")
    (task,) = await server.claim()
    await report(server, task, rows())
    await server.happened(job_id, "node_completed")

    (row,) = await server.store.jobs.nodes(job_id, "make")

    assert row.output is not None
    assert is_reference(row.output)
    assert len(server.artifacts.kept) == 1
    assert len(next(iter(server.artifacts.kept.values()))) > INLINE_BYTES_MAX
    assert (await server.get(f"/jobs/{job_id}/nodes/make"))["output"] == rows()


async def test_large_values_are_in_the_params_of_a_claimed_task(server: Server) -> None:
    await server.submit("large")
    (task,) = await server.claim()
    await report(server, task, rows())

    (use,) = await server.claim()

    assert use["params"] == {"all": rows(), "first": rows()[0]}


async def test_a_task_with_a_missing_artifact_fails_without_a_worker(server: Server) -> None:
    job_id = await server.submit("large")
    (task,) = await server.claim()
    await report(server, task, rows())
    await server.happened(job_id, "node_completed")
    server.artifacts.kept.clear()

    assert await server.claim(wait="1s") == []
    assert (await server.ended(job_id)).state.status == "failed"
    assert (await server.error(job_id, "use"))["type"] == "artifact_not_found"


async def test_a_task_with_a_missing_part_fails_without_a_worker(server: Server) -> None:
    job_id = await server.submit("large")
    (task,) = await server.claim()
    await report(server, task, {"rows": rows()})

    assert await server.claim(wait="1s") == []
    assert (await server.ended(job_id)).state.status == "failed"
    error = await server.error(job_id, "use")
    assert error["type"] == "template_failed"
    assert "make.output" in error["message"]


async def test_a_task_with_params_above_the_limit_of_the_settings_fails_without_a_worker(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, queues=(), output_bytes_max=INLINE_BYTES_MAX // 4) as server:
        await server.deploy(LARGE)
        job_id = await server.submit("large")
        (task,) = await server.claim()
        await report(server, task, rows())

        assert await server.claim(wait="1s") == []
        assert (await server.ended(job_id)).state.status == "failed"
        assert (await server.error(job_id, "use"))["type"] == "params_invalid"


async def test_tasks_with_slow_artifacts_wait_for_the_next_claim(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.submit("large")
    (task,) = await server.claim()
    await report(server, task, rows())
    monkeypatch.setattr("windlass.api.task_payload.CLAIM_PART", -1.0)

    late = await server.claim()
    monkeypatch.undo()
    (use,) = await server.claim()

    assert (late, use["attempt"], use["node_id"]) == ([], 1, "use")


async def test_tasks_that_do_not_fit_wait_for_the_next_claim(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.api.task_payload.ANSWER_BYTES_MAX", 10)
    await server.submit("each")

    answers = [await server.claim(max_tasks=2) for _ in range(2)]

    assert [[task["index"] for task in tasks] for tasks in answers] == [[0], [1]]
