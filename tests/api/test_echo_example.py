"""The echo workflow over HTTP, from deploy to result, with an external worker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.worker_server import Server, serving

ECHO_TEST = """
workflow_id: echo_test
defaults:
  queue: functionapp-tasks
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
TIMELINE = [
    ("job_created", None),
    ("node_ready", "echo_handler"),
    ("node_dispatched", "echo_handler"),
    ("job_started", None),
    ("node_started", "echo_handler"),
    ("node_completed", "echo_handler"),
    ("node_ready", "end"),
    ("job_completed", None),
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        yield server


async def test_the_echo_workflow_is_run_by_a_worker_over_http(server: Server) -> None:
    deployed = await server.client.post(
        "/workflows", content=ECHO_TEST.encode(), headers={"content-type": "application/yaml"}
    )
    assert deployed.status_code == 201, deployed.text

    created = await server.post(
        "/jobs", {"workflow_id": "echo_test", "input_data": {"message": "hello"}}, 201
    )
    job_id = created["job_id"]
    assert created["status"] == "pending"

    (task,) = await server.claim("functionapp-tasks")
    assert task == {
        "task_id": f"{job_id}_echo_handler_1",
        "job_id": job_id,
        "node_id": "echo_handler",
        "index": 0,
        "attempt": 1,
        "handler": "echo",
        "params": {"message": "hello"},
        "queue": "functionapp-tasks",
        "timeout_seconds": 300.0,
        "retry_count": 0,
        "idempotency_key": task["idempotency_key"],
        "sink": None,
        "meta": {},
    }

    reported = await server.post(
        "/callbacks/task-result",
        {
            "task_id": task["task_id"],
            "job_id": job_id,
            "node_id": "echo_handler",
            "status": "completed",
            "output": {"echoed_params": {"message": "hello"}},
            "worker_id": "worker-xyz",
            "execution_duration_ms": 5,
        },
    )
    assert reported == {"accepted": True, "duplicate": False}

    job = await server.get(f"/jobs/{job_id}", wait="10s")
    assert job["status"] == "completed"
    assert job["workflow_id"] == "echo_test"
    assert job["input_data"] == {"message": "hello"}
    assert job["result_data"] == {"echo_handler": {"echoed_params": {"message": "hello"}}}
    assert job["error"] is None
    assert job["created_at"] <= job["started_at"] <= job["completed_at"]

    nodes = (await server.get(f"/jobs/{job_id}/nodes"))["items"]
    assert {node["node_id"]: node["status"] for node in nodes} == {
        "start": "completed",
        "echo_handler": "completed",
        "end": "completed",
    }

    events = (await server.get(f"/jobs/{job_id}/events"))["items"]
    assert [(event["event_type"], event["node_id"]) for event in events] == TIMELINE
    assert [event["seq"] for event in events] == list(range(1, 9))
    assert events[4]["data"]["worker_id"] == "worker-xyz"


async def test_the_embedded_worker_ignores_queues_of_http_workers(server: Server) -> None:
    await server.deploy(ECHO_TEST)
    job_id = await server.submit("echo_test", message="hello")

    (task,) = await server.claim("functionapp-tasks")

    assert task["job_id"] == job_id
    workers = {worker.worker_id: worker.held for worker in await server.broker.workers()}
    assert workers == {"internal": 0, "worker-xyz": 1}
