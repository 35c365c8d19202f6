"""The response to a worker's report is the core's verdict, also if the shard is in another process."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.api.deployment import DIALECTS, Deployment, deployed
from tests.api.worker_server import WORKFLOW, result

NODE_EVENTS = ("node_completed", "result_ignored")


@pytest.fixture(params=DIALECTS)
async def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(request.param, tmp_path, request) as running:
        await running.deploy(WORKFLOW)
        yield running


async def claimed(deployment: Deployment) -> dict[str, Any]:
    await deployment.embedded.submit("far_work", {})
    body = {"worker_id": "worker-xyz", "queues": ["far"], "wait": 20}
    [task] = (await deployment.post("/tasks/claim", body))["tasks"]
    return task


async def dispatched(deployment: Deployment) -> str:
    """Submit a job and wait until its task is in its queue; return its id."""
    job_id = (await deployment.embedded.submit("far_work", {})).spec.job_id
    async with aclosing(deployment.embedded.watch(job_id)) as events:
        async for event in events:
            if event.type == "node_dispatched":
                break
    return job_id


async def outcome_events(deployment: Deployment, job_id: str) -> list[str]:
    return [event for event in await deployment.events(job_id) if event in NODE_EVENTS]


async def test_the_awaited_result_is_accepted_and_applied_when_the_response_arrives(
    deployment: Deployment,
) -> None:
    task = await claimed(deployment)

    answer = await deployment.post("/callbacks/task-result", result(task, 1))

    assert answer == {"accepted": True, "duplicate": False}
    assert await outcome_events(deployment, task["job_id"]) == ["node_completed"]


async def test_a_repeated_result_is_a_duplicate(deployment: Deployment) -> None:
    task = await claimed(deployment)
    await deployment.post("/callbacks/task-result", result(task, 1))

    answer = await deployment.post("/callbacks/task-result", result(task, 2))

    assert answer == {"accepted": True, "duplicate": True}
    assert await outcome_events(deployment, task["job_id"]) == ["node_completed"]


async def test_a_result_after_a_cancellation_is_recorded_and_not_accepted(
    deployment: Deployment,
) -> None:
    task = await claimed(deployment)
    await deployment.embedded.cancel(task["job_id"])

    answer = await deployment.post("/callbacks/task-result", result(task, 1))

    assert (answer["accepted"], answer["duplicate"]) == (False, False)
    assert "result_ignored" in answer["reason"]
    assert await outcome_events(deployment, task["job_id"]) == ["result_ignored"]


async def test_a_repeated_result_after_a_cancellation_is_not_accepted_either(
    deployment: Deployment,
) -> None:
    task = await claimed(deployment)
    await deployment.embedded.cancel(task["job_id"])
    await deployment.post("/callbacks/task-result", result(task, 1))

    answer = await deployment.post("/callbacks/task-result", result(task, 1))

    assert (answer["accepted"], answer["duplicate"]) == (False, False)


async def test_a_result_of_an_unknown_attempt_is_refused_and_not_stored(
    deployment: Deployment,
) -> None:
    task = await claimed(deployment)
    unknown = result(task, 1) | {"task_id": f"{task['job_id']}_work_2"}

    refused = await deployment.post("/callbacks/task-result", unknown, 409)

    assert "no such attempt" in refused["detail"]
    shard = (await deployment.store.jobs.get(task["job_id"])).spec.shard
    assert await deployment.store.jobs.results(shard, 10) == []
    answer = await deployment.post("/callbacks/task-result", result(task, 1))
    assert answer == {"accepted": True, "duplicate": False}


EMITTED = {"node_id": "work", "event_type": "action_completed", "result": 1}


@pytest.mark.parametrize("path", ["/callbacks/task-result", "/event/emit"])
async def test_a_refused_result_leaves_its_unclaimed_task_in_the_queue(
    deployment: Deployment, path: str
) -> None:
    job_id = await dispatched(deployment)
    task = {"task_id": f"{job_id}_work_1", "job_id": job_id, "node_id": "work"}
    body = result(task, 1) if path.startswith("/callbacks") else EMITTED | {"job_id": job_id}

    refused = await deployment.post(path, body, 409)

    assert "nobody claimed it" in refused["detail"]
    claim = {"worker_id": "worker-xyz", "queues": ["far"], "wait": 5}
    [claimed] = (await deployment.post("/tasks/claim", claim))["tasks"]
    assert claimed["task_id"] == task["task_id"]
    answer = await deployment.post("/callbacks/task-result", result(claimed, 2))
    assert answer == {"accepted": True, "duplicate": False}


async def test_the_start_of_an_unclaimed_task_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.api.routes.tasks.CLAIM_RECORDED_SECONDS_MAX", 0.2)
    job_id = await dispatched(deployment)
    started = {"job_id": job_id, "node_id": "work", "event_type": "action_started"}

    refused = await deployment.post("/event/emit", started, 409)

    assert "nobody claimed it" in refused["detail"]
    assert "node_started" not in await deployment.events(job_id)


async def test_a_worker_is_not_asked_to_stop_a_task_that_it_has_reported(
    deployment: Deployment,
) -> None:
    task = await claimed(deployment)
    await deployment.post("/callbacks/task-result", result(task, 1))

    heartbeat = await deployment.post("/tasks/heartbeat", {"worker_id": "worker-xyz"})

    assert heartbeat["stop"] == []


async def test_the_holder_of_a_task_is_asked_to_stop_after_another_worker_reported_it(
    deployment: Deployment,
) -> None:
    task = await claimed(deployment)

    answer = await deployment.post("/callbacks/task-result", result(task, 1, worker_id="other"))

    assert answer == {"accepted": True, "duplicate": False}
    heartbeat = {"worker_id": "worker-xyz", "task_ids": [task["task_id"]]}
    assert (await deployment.post("/tasks/heartbeat", heartbeat))["stop"] == [task["task_id"]]


async def test_an_emitted_event_gets_the_same_verdict(deployment: Deployment) -> None:
    task = await claimed(deployment)
    await deployment.embedded.cancel(task["job_id"])
    event = {
        "job_id": task["job_id"],
        "node_id": "work",
        "event_type": "action_completed",
        "result": 1,
    }

    answer = await deployment.post("/event/emit", event)

    assert not answer["accepted"]
    assert await outcome_events(deployment, task["job_id"]) == ["result_ignored"]


async def test_a_result_that_is_not_applied_in_time_is_stored(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await claimed(deployment)
    monkeypatch.setattr("windlass.engine.job_control.APPLIED_SECONDS_MAX", 0.0)
    monkeypatch.setattr("windlass.engine.shard.advance", _fail)

    answer = await deployment.post("/callbacks/task-result", result(task, 1), 202)

    assert answer == {"accepted": True, "duplicate": False, "reason": "stored, but not applied yet"}
    shard = (await deployment.store.jobs.get(task["job_id"])).spec.shard
    [stored] = await deployment.store.jobs.results(shard, 10)
    assert stored.message.job_id == task["job_id"]


def _fail(*arguments: object, **options: object) -> None:
    raise RuntimeError("the shard cannot decide")
