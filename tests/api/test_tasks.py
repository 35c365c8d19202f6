"""HTTP workers: claims, heartbeats and reassigned tasks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.worker_server import PAIR, RETRIED, WORKFLOW, Server, result, serving
from tests.defaults import WORKER_TIMEOUT_SECONDS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        for document in (WORKFLOW, RETRIED, PAIR):
            await server.deploy(document)
        yield server


# Claims


async def test_a_claimed_task_has_all_fields(server: Server) -> None:
    job_id = await server.submit("far_work", wood="ash")

    (task,) = await server.claim()

    assert task == {
        "task_id": f"{job_id}_work_1",
        "job_id": job_id,
        "node_id": "work",
        "index": 0,
        "attempt": 1,
        "handler": "carve",
        "params": {"wood": "ash"},
        "queue": "far",
        "timeout_seconds": 300.0,
        "retry_count": 0,
        "idempotency_key": task["idempotency_key"],
        "sink": None,
        "meta": {},
    }


async def test_a_claim_waits_for_a_task(server: Server) -> None:
    claim = asyncio.create_task(server.claim())
    await server.broker.claim_received("worker-xyz")

    job_id = await server.submit("far_work")

    assert [task["job_id"] for task in await claim] == [job_id]


@pytest.mark.parametrize("wait", [0, 0.05, "50ms"])
async def test_a_claim_without_tasks_returns_none(server: Server, wait: object) -> None:
    assert await server.claim(wait=wait) == []


async def test_a_claim_returns_at_most_max_tasks(server: Server) -> None:
    await server.submit("pair")

    first = await server.claim(max_tasks=1)
    second = await server.claim(max_tasks=10)

    assert [len(first), len(second)] == [1, 1]
    assert first != second


async def test_a_claim_returns_tasks_of_its_queues_only(server: Server) -> None:
    await server.submit("far_work")

    assert await server.claim("elsewhere", wait=0) == []


async def test_a_claimed_node_runs(server: Server) -> None:
    task = await server.claimed()
    await server.happened(task["job_id"], "node_started")

    (row,) = await server.store.jobs.nodes(task["job_id"], "work")

    assert (row.status, row.worker_id) == ("running", "worker-xyz")


async def test_the_task_of_a_disconnected_claim_goes_to_another_worker(server: Server) -> None:
    claim = asyncio.create_task(server.claim(worker_id="gone"))
    await server.broker.claim_received("gone")
    claim.cancel()
    await asyncio.wait((claim,))

    job_id = await server.submit("far_work")

    (task,) = await server.claim(worker_id="here")
    assert task["job_id"] == job_id


async def test_claims_end_when_the_server_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        claim = asyncio.create_task(server.claim(wait="60s"))
        await server.broker.claim_received("worker-xyz")

    assert await claim == []


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"worker_id": "a b"}, "worker_id"),
        ({"worker_id": "../x"}, "worker_id"),
        ({"worker_id": ""}, "worker_id"),
        ({"queues": []}, "queues"),
        ({"queues": ["*"]}, "queues[0]"),
        ({"queues": ["q"] * 33}, "queues"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_tasks": 101}, "max_tasks"),
        ({"max_tasks": "many"}, "max_tasks"),
        ({"wait": -1}, "wait"),
        ({"wait": 61}, "wait"),
        ({"wait": "2m"}, "wait"),
        ({"wait": "soon"}, "wait"),
    ],
)
async def test_a_claim_out_of_bounds_is_refused(
    server: Server, wrong: dict[str, object], path: str
) -> None:
    refused = await server.post("/tasks/claim", {"worker_id": "w", **wrong}, 422)

    assert refused["errors"][0]["path"] == path


async def test_a_claim_and_a_heartbeat_tell_the_timeout_of_the_engine(tmp_path: Path) -> None:
    async with serving(tmp_path, queues=(), worker_timeout_seconds=4.5) as server:
        claim = await server.post("/tasks/claim", {"worker_id": "w"})
        beat = await server.post("/tasks/heartbeat", {"worker_id": "w"})

    assert (claim["worker_timeout_seconds"], beat["worker_timeout_seconds"]) == (4.5, 4.5)


# Heartbeats


async def test_a_heartbeat_of_running_tasks_stops_nothing(server: Server) -> None:
    task = await server.claimed()

    beat = await server.post(
        "/tasks/heartbeat", {"worker_id": "worker-xyz", "task_ids": [task["task_id"]]}
    )

    assert beat == {"stop": [], "worker_timeout_seconds": WORKER_TIMEOUT_SECONDS}


async def test_a_heartbeat_stops_the_task_of_a_cancelled_job(server: Server) -> None:
    task = await server.claimed()
    await server.engine.jobs.cancel(task["job_id"])

    beat = await server.post(
        "/tasks/heartbeat", {"worker_id": "worker-xyz", "task_ids": [task["task_id"]]}
    )

    assert beat["stop"] == [task["task_id"]]


async def test_a_heartbeat_stops_a_cancelled_task_that_it_did_not_list(server: Server) -> None:
    task = await server.claimed()
    await server.engine.jobs.cancel(task["job_id"])

    beat = await server.post("/tasks/heartbeat", {"worker_id": "worker-xyz"})

    assert beat["stop"] == [task["task_id"]]


async def test_a_heartbeat_stops_a_task_of_another_worker(server: Server) -> None:
    task = await server.claimed()

    beat = await server.post(
        "/tasks/heartbeat", {"worker_id": "another", "task_ids": [task["task_id"]]}
    )

    assert beat["stop"] == [task["task_id"]]


async def test_the_task_of_a_lost_worker_is_reassigned(server: Server) -> None:
    task = await server.claimed()

    server.clock.jump(WORKER_TIMEOUT_SECONDS + 1)
    await server.broker.reclaim(WORKER_TIMEOUT_SECONDS)

    (again,) = await server.claim(worker_id="second")
    assert again["task_id"] == task["task_id"]
    await server.happened(task["job_id"], "worker_lost")


async def test_a_worker_with_heartbeats_keeps_its_task(server: Server) -> None:
    task = await server.claimed()
    server.clock.jump(WORKER_TIMEOUT_SECONDS - 1)
    await server.post(
        "/tasks/heartbeat", {"worker_id": "worker-xyz", "task_ids": [task["task_id"]]}
    )

    server.clock.jump(2)
    await server.broker.reclaim(WORKER_TIMEOUT_SECONDS)

    assert await server.claim(worker_id="second", wait=0) == []


async def test_a_task_missing_from_heartbeats_is_reassigned(
    server: Server,
) -> None:
    # As if the response to the claim was lost.
    task = await server.claimed()
    server.clock.jump(WORKER_TIMEOUT_SECONDS + 1)
    await server.post("/tasks/heartbeat", {"worker_id": "worker-xyz", "task_ids": []})

    await server.broker.reclaim(WORKER_TIMEOUT_SECONDS)

    (again,) = await server.claim(worker_id="second")
    assert again["task_id"] == task["task_id"]


async def test_the_late_result_of_a_lost_worker_is_accepted_and_stops_the_second(
    server: Server,
) -> None:
    task = await server.claimed()
    server.clock.jump(WORKER_TIMEOUT_SECONDS + 1)
    await server.broker.reclaim(WORKER_TIMEOUT_SECONDS)
    await server.claim(worker_id="second")

    await server.post("/callbacks/task-result", result(task, {"by": "first"}))

    assert (await server.ended(task["job_id"])).state.status == "completed"
    beat = await server.post(
        "/tasks/heartbeat", {"worker_id": "second", "task_ids": [task["task_id"]]}
    )
    assert beat["stop"] == [task["task_id"]]
