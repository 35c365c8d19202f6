"""Loops: progress, pages of iterations, outputs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.harness import API, System

EACH = """
workflow_id: each
defaults: {queue: far}
nodes:
  start: {type: start, next: [double]}
  double:
    handler: double
    loop: {collection: "{{ input.items }}", element: n, concurrency: 3, on_failure: continue}
    params: {n: "{{ n }}"}
  last: {handler: echo, queue: default, dependencies: [double], params: {count: "{{ double.output | length }}"}}
  end: {type: end, dependencies: [last]}
"""
MANY = """
workflow_id: many
nodes:
  each:
    handler: echo
    loop: {collection: "{{ input.items }}", element: n, concurrency: 500}
    params: {n: "{{ n }}"}
"""
FAILING = """
workflow_id: failing
nodes:
  each:
    handler: fail
    when: "{{ n != 2 }}"
    loop: {collection: [0, 1, 2, 3], element: n, concurrency: 4, on_failure: continue, max_failed: 4}
    params: {message: "no {{ n }}", type: broken, retryable: false}
"""
NOTHING: dict[str, Any] = {
    "output": None,
    "error": None,
    "meta": None,
    "started_at": None,
    "completed_at": None,
    "attempt_started_at": None,
}


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[System]:
    """A system without a worker for the queue of the loop; tests claim its tasks."""
    async with System.running(tmp_path, queues=("default",)) as system:
        await system.deploy_text(EACH)
        yield system


class Loop:
    """A job with a loop over five items with a window of three."""

    def __init__(self, system: System, job_id: str) -> None:
        self.system = system
        self.job_id = job_id

    @classmethod
    async def started(cls, system: System) -> "Loop":
        loop = cls(system, await system.submit("each", input_data={"items": [10, 11, 12, 13, 14]}))
        await system.dispatched(loop.job_id, "double")
        return loop

    async def get(self, path: str = "", **query: Any) -> Any:
        response = await self.system.client.get(
            f"{API}/jobs/{self.job_id}/nodes/double{path}", params=query
        )
        assert response.status_code == 200, response.text
        return response.json()

    async def tasks(self, **query: Any) -> list[dict[str, Any]]:
        return (await self.get("/iterations", **query))["items"]

    async def states(self, **query: Any) -> dict[int, str]:
        return {task["index"]: task["status"] for task in await self.tasks(**query)}

    async def claim(self, max_tasks: int) -> list[dict[str, Any]]:
        body = {"worker_id": "w", "queues": ["far"], "max_tasks": max_tasks, "wait": 10}
        return (await self.system.client.post(f"{API}/tasks/claim", json=body)).json()["tasks"]

    async def report(self, task: dict[str, Any], **result: object) -> None:
        body = {name: task[name] for name in ("task_id", "job_id", "node_id")}
        answered = await self.system.client.post(
            f"{API}/callbacks/task-result",
            json={**body, "worker_id": "w", "status": "completed", **result},
        )
        assert answered.status_code == 200, answered.text

    async def until(self, **counts: int) -> None:
        """Wait until the loop has these counts."""
        with self.system.engine.jobs.subscribe(self.job_id) as changed:
            async with asyncio.timeout(10.0):
                while not counts.items() <= (await self.get())["loop"].items():
                    await changed.wait()
                    changed.clear()

    async def finish(self, count: int, **result: object) -> None:
        """Claim and report a number of tasks, one after the other."""
        for _ in range(count):
            (task,) = await self.claim(1)
            await self.report(task, **{"output": task["params"]["n"] * 2, **result})


@pytest.fixture
async def loop(held: System) -> Loop:
    return await Loop.started(held)


# Counts


async def test_an_unstarted_loop_has_no_counts(held: System) -> None:
    job_id = await held.submit(
        "each", input_data={"items": []}, scheduled_at="2099-01-01T00:00:00Z"
    )

    node = (await held.client.get(f"{API}/jobs/{job_id}/nodes/double")).json()

    assert (node["status"], node["loop"]) == ("pending", None)


async def test_a_running_loop_has_counts(loop: Loop) -> None:
    await loop.finish(1)
    (task,) = await loop.claim(1)
    await loop.report(
        task, status="failed", error={"type": "broken", "message": "no", "retryable": False}
    )
    await loop.until(failed=1)

    shown = (await loop.get())["loop"]

    assert shown == {
        "total": 5, "begun": 5, "completed": 1, "failed": 1, "skipped": 0, "running": 3, "waiting": 0, "cancelled": 0,
    }  # fmt: skip


async def test_a_finished_loop_has_counts_in_lists_and_with_its_job(loop: Loop) -> None:
    await loop.finish(5)
    job = await loop.system.ended(loop.job_id)

    listed = (await loop.system.client.get(f"{API}/jobs/{loop.job_id}/nodes")).json()["items"]

    loops = [{node["node_id"]: node["loop"] for node in nodes} for nodes in (job["nodes"], listed)]
    assert loops[0] == loops[1]
    assert loops[0]["double"] == {
        "total": 5, "begun": 5, "completed": 5, "failed": 0, "skipped": 0, "running": 0, "waiting": 0, "cancelled": 0,
    }  # fmt: skip
    assert loops[0]["last"] is None


async def test_a_cancelled_loop_counts_cancelled_iterations(loop: Loop) -> None:
    await loop.finish(1)
    await loop.until(completed=1, begun=4)
    await loop.system.client.post(f"{API}/jobs/{loop.job_id}/cancel")
    await loop.system.ended(loop.job_id)

    shown = (await loop.get())["loop"]

    assert (shown["completed"], shown["cancelled"], shown["begun"], shown["total"]) == (1, 3, 4, 5)
    assert await loop.states() == {
        0: "completed",
        1: "cancelled",
        2: "cancelled",
        3: "cancelled",
        4: "pending",
    }


async def test_a_loop_counts_failed_and_skipped_iterations(system: System) -> None:
    await system.deploy_text(FAILING)
    job = await system.ended(await system.submit("failing"))

    (node,) = job["nodes"]

    assert node["loop"]["failed"] == 3
    assert node["loop"]["skipped"] == 1
    assert node["meta"] == {
        "total": 4,
        "succeeded": 0,
        "failed": 3,
        "success_rate": 0.0,
        "skipped": 1,
    }


# Iterations


async def test_iterations_without_a_row_are_dispatched_or_pending(loop: Loop) -> None:
    tasks = await loop.tasks()

    assert tasks == [
        *({"index": index, "status": "dispatched", "attempt": 1, **NOTHING} for index in (0, 1, 2)),
        *({"index": index, "status": "pending", "attempt": 0, **NOTHING} for index in (3, 4)),
    ]


async def test_a_finished_iteration_has_its_output(loop: Loop) -> None:
    await loop.finish(1)
    (task,) = await loop.claim(1)
    await loop.report(
        task, status="failed", error={"type": "broken", "message": "no", "retryable": False}
    )
    await loop.until(failed=1)

    done, broken, *rest = await loop.tasks()

    assert (done["status"], done["output"], done["error"]) == ("completed", 20, None)
    assert done["started_at"] <= done["completed_at"]
    assert (broken["status"], broken["error"]["type"], broken["error"]["message"]) == (
        "failed",
        "broken",
        "no",
    )
    assert [task["index"] for task in rest] == [2, 3, 4]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("completed", [0]),
        ("failed", []),
        ("pending", [4]),
        ("dispatched", [3]),
        ("running", [1, 2]),
        ("waiting", []),
    ],
)
async def test_iterations_are_filtered_by_status(
    loop: Loop, status: str, expected: list[int]
) -> None:
    claimed = await loop.claim(3)
    await loop.report(claimed[0], output=1)
    await loop.until(completed=1, begun=4)

    assert list(await loop.states(status=status)) == expected


async def test_pages_of_iterations_follow_each_other(loop: Loop) -> None:
    await loop.finish(1)
    await loop.until(completed=1)
    seen: list[int] = []
    cursor = None
    for _ in range(3):
        page = await loop.get("/iterations", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [task["index"] for task in page["items"]]
        cursor = page["next_cursor"]

    assert (seen, cursor) == ([0, 1, 2, 3, 4], None)


async def test_thousands_of_iterations_are_paginated(system: System) -> None:
    await system.deploy_text(MANY)
    job_id = await system.submit("many", input_data={"items": list(range(3_000))})
    await system.ended(job_id)
    outputs: list[object] = []
    cursor = ""
    while cursor is not None:
        query = {"limit": "1000", "status": "completed", **({"cursor": cursor} if cursor else {})}
        page = (
            await system.client.get(f"{API}/jobs/{job_id}/nodes/each/iterations", params=query)
        ).json()
        outputs += [task["output"] for task in page["items"]]
        cursor = page["next_cursor"]

    assert outputs == [{"echoed_params": {"n": index}} for index in range(3_000)]


async def test_a_node_without_a_loop_has_one_iteration(system: System) -> None:
    await system.deploy()
    job_id = await system.submit()
    await system.ended(job_id)

    found = {
        node_id: (await system.client.get(f"{API}/jobs/{job_id}/nodes/{node_id}/iterations")).json()
        for node_id in ("start", "first")
    }

    assert found["start"] == {"items": [], "next_cursor": None}
    assert [(task["index"], task["status"]) for task in found["first"]["items"]] == [
        (0, "completed")
    ]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nothing/iterations", 404), ("double/iterations?status=lost", 422), ("double/iterations?cursor=%21", 422),
        ("double/iterations?limit=0", 422), ("nothing/output", 404), ("double/output?index=-1", 422),
    ],
)  # fmt: skip
async def test_invalid_requests_for_iterations_are_refused(
    loop: Loop, path: str, status: int
) -> None:
    response = await loop.system.client.get(f"{API}/jobs/{loop.job_id}/nodes/{path}")

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


# Outputs


async def test_each_iteration_and_the_loop_have_an_output(loop: Loop) -> None:
    await loop.finish(5)
    await loop.system.ended(loop.job_id)

    assert await loop.get("/output") == [20, 22, 24, 26, 28]
    assert await loop.get("/output", index=3) == 26


@pytest.mark.parametrize("query", ["", "?index=1", "?index=4", "?index=99"])
async def test_an_uncompleted_iteration_has_no_output(loop: Loop, query: str) -> None:
    await loop.finish(1)

    response = await loop.system.client.get(f"{API}/jobs/{loop.job_id}/nodes/double/output{query}")

    assert response.status_code == 404
    assert "double" in response.json()["detail"]


# Failures of a completed job

SOME_FAIL = """
workflow_id: some_fail
nodes:
  each:
    handler: python
    loop: {collection: [0, 1, 2, 3], element: n, concurrency: 4, on_failure: continue}
    params:
      n: "{{ n }}"
      code: |
        import os
        def main(n):
            path = f"FOLDER/{n}"
            with open(path, "a") as file:
                file.write("x")
            if n == 1 and not os.path.exists("FOLDER/fixed"):
                raise ValueError("not yet")
            return n
  after: {handler: echo, dependencies: [each], params: {got: "{{ each.output }}"}}
"""


async def test_a_retry_of_a_completed_job_runs_its_failed_iterations_alone(
    system: System, tmp_path: Path
) -> None:
    await system.deploy_text(SOME_FAIL.replace("FOLDER", str(tmp_path)))
    job_id = await system.submit("some_fail")
    job = await system.ended(job_id)
    assert (job["status"], job["failures"]) == ("completed", 1)
    (tmp_path / "fixed").touch()

    response = await system.client.post(f"{API}/jobs/{job_id}/retry")
    assert response.status_code == 200, response.text
    job = await system.ended(job_id)

    assert (job["status"], job["failures"]) == ("completed", 0)
    assert job["result_data"]["each"] == [0, 1, 2, 3]
    assert job["result_data"]["after"]["echoed_params"] == {"got": [0, 1, 2, 3]}
    runs = [(tmp_path / str(n)).read_text() for n in range(4)]
    assert runs == ["x", "xx", "x", "x"]
    refused = await system.client.post(f"{API}/jobs/{job_id}/retry")
    assert refused.status_code == 409
    assert "completed without failures" in refused.json()["detail"]
