"""Workers with their tasks, and queues."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.harness import API, System
from windlass.api.routes.workers import worker_task_view
from windlass.ports.broker import HeldTask
from windlass.wire import WorkerTaskView

FAR = """
workflow_id: far
nodes:
  a_node_1: {handler: echo, queue: far, params: {}}
  each:
    handler: echo
    queue: far
    loop: {collection: [1, 2, 3], element: n, concurrency: 3}
    params: {n: "{{ n }}"}
"""


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[System]:
    """A system without a worker."""
    async with System.running(tmp_path, worker=False) as system:
        yield system


async def claimed(system: System, count: int) -> list[dict[str, Any]]:
    wanted = {"worker_id": "w1", "queues": ["far"], "max_tasks": count, "wait": "10s"}
    return (await system.client.post(f"{API}/tasks/claim", json=wanted)).json()["tasks"]


async def test_a_worker_is_shown_with_its_tasks(idle: System) -> None:
    await idle.deploy_text(FAR)
    job_id = await idle.submit("far")
    await idle.dispatched(job_id, "a_node_1")
    tasks = [task for _ in range(4) for task in await claimed(idle, 1)]

    [worker] = (await idle.client.get(f"{API}/workers")).json()["items"]

    assert worker["running"] == len(tasks) == 4
    shown = {
        (task["job_id"], task["node_id"], task["index"], task["attempt"])
        for task in worker["tasks"]
    }
    assert shown == {
        (job_id, "a_node_1", None, 1),
        *((job_id, "each", index, 1) for index in range(3)),
    }
    assert all(task["since"] <= worker["seen_at"] for task in worker["tasks"])


async def test_queues_count_waiting_and_running_tasks(idle: System) -> None:
    await idle.deploy_text(FAR)
    await idle.deploy("near")
    await idle.dispatched(await idle.submit("far"), "a_node_1")
    await idle.dispatched(await idle.submit("near"), "first")
    await claimed(idle, 3)

    shown = (await idle.client.get(f"{API}/queues")).json()

    counts = [(one["queue"], one["depth"], one["running"]) for one in shown["items"]]
    assert counts == [("default", 1, 0), ("far", 1, 3)]
    assert all(0 <= one["oldest_seconds"] < 60 for one in shown["items"])


async def test_a_worker_claims_only_its_handlers_and_other_tasks_are_shown_as_unserved(
    idle: System,
) -> None:
    await idle.deploy_text(FAR)
    job_id = await idle.submit("far")
    await idle.dispatched(job_id, "a_node_1")
    wanted = {"worker_id": "w1", "queues": ["far"], "max_tasks": 9, "handlers": ["resize"]}
    assert (await idle.client.post(f"{API}/tasks/claim", json=wanted)).json()["tasks"] == []

    [queue] = (await idle.client.get(f"{API}/queues")).json()["items"]
    [worker] = (await idle.client.get(f"{API}/workers")).json()["items"]
    assert queue["unserved"] == [{"handler": "echo", "tasks": 4}]
    assert worker["handlers"] == ["resize"]

    wanted["handlers"] = ["resize", "echo"]
    tasks = (await idle.client.post(f"{API}/tasks/claim", json=wanted)).json()["tasks"]
    assert len(tasks) == 4


async def test_idle_queues_are_not_listed(idle: System) -> None:
    assert (await idle.client.get(f"{API}/queues")).json() == {"items": []}


@pytest.mark.parametrize(
    ("task_id", "place"),
    [
        ("1m7g_fetch_1", ("1m7g", "fetch", None, 1)),
        ("1m7g-0a1b2c3d_a_b_2_12", ("1m7g-0a1b2c3d", "a_b_2", None, 12)),
        ("1m7g_each_one[40]_3", ("1m7g", "each_one", 40, 3)),
    ],
)
def test_a_task_id_is_parsed(task_id: str, place: tuple[str, str, int | None, int]) -> None:
    assert worker_task_view(HeldTask(0, task_id)) == WorkerTaskView(
        *place, since="1970-01-01T00:00:00.000000Z"
    )
