"""Results and events reported by HTTP workers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.api.worker_server import PAIR, RETRIED, WORKFLOW, Server, result, serving
from windlass import wire
from windlass.core.messages import Succeeded, TaskFinished
from windlass.core.report_limits import TRACEBACK_CHARS_MAX
from windlass.ports.store.jobs import StoredResult


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        for document in (WORKFLOW, RETRIED, PAIR):
            await server.deploy(document)
        yield server


# Results


async def test_a_reported_output_completes_the_job(server: Server) -> None:
    task = await server.claimed()

    answer = await server.post(
        "/callbacks/task-result", result(task, {"boat": [1, 2.5, None, "ü"]})
    )

    assert answer == {"accepted": True, "duplicate": False}
    assert (await server.ended(task["job_id"])).state.status == "completed"
    assert await server.output(task["job_id"], "work") == {"boat": [1, 2.5, None, "ü"]}


async def test_an_applied_result_is_not_applied_again(server: Server) -> None:
    task = await server.claimed()

    await server.post("/callbacks/task-result", result(task, 1))

    await server.ended(task["job_id"])
    assert await server.store.jobs.results(0, 10) == []


async def test_a_repeated_result_changes_nothing(server: Server) -> None:
    task = await server.claimed()
    await server.post("/callbacks/task-result", result(task, "first"))
    await server.ended(task["job_id"])
    before = await server.events(task["job_id"])

    answer = await server.post("/callbacks/task-result", result(task, "second"))

    assert answer == {"accepted": True, "duplicate": True}
    assert await server.output(task["job_id"], "work") == "first"
    assert await server.events(task["job_id"]) == before


async def test_one_of_many_concurrent_results_is_accepted(server: Server) -> None:
    task = await server.claimed()

    answers = await asyncio.gather(
        *(server.post("/callbacks/task-result", result(task, number)) for number in range(50))
    )

    assert sorted(answer["duplicate"] for answer in answers) == [False] + [True] * 49
    assert (await server.ended(task["job_id"])).state.status == "completed"
    winner = next(number for number, answer in enumerate(answers) if not answer["duplicate"])
    assert await server.output(task["job_id"], "work") == winner
    assert (await server.events(task["job_id"])).count("node_completed") == 1


async def test_a_result_whose_message_was_lost_still_completes_the_job(server: Server) -> None:
    task = await server.claimed()
    now = server.clock.now()
    message = TaskFinished(
        task["job_id"],
        "work",
        1,
        "worker-xyz",
        now,
        now,
        Succeeded(Raw(b'"kept"')),
        result_id=task["task_id"],
    )

    await server.store.jobs.put_result(StoredResult(task["task_id"], 0, message, now))

    assert (await server.ended(task["job_id"])).state.status == "completed"
    assert await server.output(task["job_id"], "work") == "kept"


async def test_a_reported_failure_fails_the_job(server: Server) -> None:
    task = await server.claimed()

    await server.post(
        "/callbacks/task-result", result(task, status="failed", error="the blade broke")
    )

    assert (await server.ended(task["job_id"])).state.status == "failed"
    error = await server.error(task["job_id"], "work")
    assert (error["type"], error["message"]) == ("task_failed", "the blade broke")


async def test_an_error_may_have_details(server: Server) -> None:
    task = await server.claimed()
    error = {
        "type": "BladeBroken",
        "message": "again",
        "retryable": False,
        "status": 503,
        "retry_after": "2s",
    }

    await server.post("/callbacks/task-result", result(task, status="failed", error=error))

    await server.ended(task["job_id"])
    stored = await server.error(task["job_id"], "work")
    assert stored["type"] == "BladeBroken"
    assert stored["status"] == 503
    assert stored["retry_after_seconds"] == 2.0


async def test_the_end_of_a_long_traceback_is_kept(server: Server) -> None:
    task = await server.claimed()
    error = {
        "type": "BladeBroken",
        "message": "again",
        "traceback": "x" * 10_000 + "BladeBroken: again",
    }

    await server.post("/callbacks/task-result", result(task, status="failed", error=error))

    await server.ended(task["job_id"])
    traceback = (await server.error(task["job_id"], "work"))["traceback"]
    assert len(traceback) == TRACEBACK_CHARS_MAX
    assert traceback.endswith("xBladeBroken: again")


async def test_a_failed_attempt_is_followed_by_another(server: Server) -> None:
    first = await server.claimed("retried")
    await server.post("/callbacks/task-result", result(first, status="failed", error="once"))

    (second,) = await server.claim()

    assert (second["attempt"], second["retry_count"]) == (2, 1)
    assert second["idempotency_key"] == first["idempotency_key"]


async def test_a_fatal_error_is_not_retried(server: Server) -> None:
    task = await server.claimed("retried")
    error = {"message": "no wood", "retryable": False}

    await server.post("/callbacks/task-result", result(task, status="failed", error=error))

    assert (await server.ended(task["job_id"])).state.status == "failed"


async def test_a_result_after_the_job_was_cancelled_is_recorded_and_ignored(server: Server) -> None:
    task = await server.claimed()
    await server.engine.jobs.cancel(task["job_id"])

    answer = await server.post("/callbacks/task-result", result(task, "too late"))

    assert (answer["accepted"], answer["duplicate"]) == (False, False)
    assert "closed before this result arrived" in answer["reason"]
    assert (await server.events(task["job_id"])).count("result_ignored") == 1
    assert (await server.store.jobs.get(task["job_id"])).state.status == "cancelled"
    assert await server.output(task["job_id"], "work") is None


async def test_the_worker_reports_the_duration(server: Server) -> None:
    task = await server.claimed()
    await server.post("/callbacks/task-result", result(task, 1, execution_duration_ms=250))
    await server.ended(task["job_id"])

    (completed,) = [
        e for e in await server.store.jobs.events(task["job_id"]) if e.type == "node_completed"
    ]

    assert completed.meta is not None
    assert msgspec.json.decode(completed.meta) == {"execution": {"duration_seconds": 0.25}}


async def test_the_meta_of_a_result_is_stored(server: Server) -> None:
    task = await server.claimed()

    await server.post("/callbacks/task-result", result(task, 1, meta={"tool": "knife"}))

    await server.ended(task["job_id"])
    (row,) = await server.store.jobs.nodes(task["job_id"], "work")
    assert row.meta is not None
    assert msgspec.json.decode(row.meta) == {"tool": "knife"}


async def test_an_encoded_result_request_is_accepted(server: Server) -> None:
    task = await server.claimed()
    shape = wire.TaskResultRequest(
        task["task_id"], task["job_id"], "work", "completed", "worker-xyz", Raw(b"[7]")
    )

    answer = await server.client.post(
        "/callbacks/task-result",
        content=msgspec.json.encode(shape),
        headers={"content-type": "application/json"},
    )

    assert answer.status_code == 200, answer.text
    await server.ended(task["job_id"])
    assert await server.output(task["job_id"], "work") == [7]


async def test_a_result_of_an_unknown_job_is_refused(server: Server) -> None:
    body = {
        "task_id": "nope_work_1",
        "job_id": "nope",
        "node_id": "work",
        "status": "completed",
        "worker_id": "w",
    }

    await server.post("/callbacks/task-result", body, 404)


async def test_a_result_of_an_unknown_node_is_refused(server: Server) -> None:
    task = await server.claimed()
    body = result(task) | {"node_id": "other", "task_id": f"{task['job_id']}_other_1"}

    await server.post("/callbacks/task-result", body, 404)


async def test_a_result_of_a_future_attempt_is_refused(server: Server) -> None:
    task = await server.claimed("retried")
    ahead = result(task, "forged") | {"task_id": f"{task['job_id']}_work_2"}
    await server.post("/callbacks/task-result", ahead, 409)
    await server.post("/callbacks/task-result", result(task, status="failed", error="once"))
    (second,) = await server.claim()

    await server.post("/callbacks/task-result", result(second, "honest"))

    await server.ended(task["job_id"])
    assert await server.output(task["job_id"], "work") == "honest"


async def test_a_result_of_an_iteration_of_a_plain_node_is_refused(server: Server) -> None:
    task = await server.claimed()

    await server.post(
        "/callbacks/task-result", result(task) | {"task_id": f"{task['job_id']}_work[3]_1"}, 409
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"task_id": "JOB_work"},
        {"task_id": "JOB_work_x"},
        {"task_id": "JOB_works_1"},
        {"task_id": "other_work_1"},
        {"task_id": "JOB_work_1_1"},
        {"task_id": "JOB_work_9999999999"},
        {"task_id": "../../etc/passwd"},
        {"attempt": 2},
        {"index": 1},
        {"status": "done"},
        {"worker_id": "a\nb"},
        {"execution_duration_ms": -1},
        {"execution_duration_ms": 1e300},
        {"error": 5, "status": "failed"},
        {"error": {"retry_after": -1}, "status": "failed"},
        {"error": {"retry_after": "soon"}, "status": "failed"},
        {"meta": [1]},
        {"meta": {"x": "y" * 70_000}},
        {"output": 2**64},
    ],
)
async def test_a_malformed_result_is_refused_and_leaves_no_trace(
    server: Server, wrong: dict[str, Any]
) -> None:
    task = await server.claimed()
    body = result(task, "x") | wrong
    body["task_id"] = str(body["task_id"]).replace("JOB", task["job_id"])

    refused = await server.post("/callbacks/task-result", body, 422)

    assert refused["errors"]
    assert await server.store.jobs.results(0, 10) == []


@pytest.mark.parametrize(
    ("output", "status"),
    [
        (b"NaN", 400),
        (b"[Infinity]", 400),
        (b"1e999", 422),
        (b'"\\ud800"', 400),
        (b'"\xff"', 422),
        (b"[" * 65 + b"]" * 65, 422),
        (b"[" * 100_000 + b"]" * 100_000, 422),
    ],
)
async def test_an_output_that_is_not_plain_json_is_refused(
    server: Server, output: bytes, status: int
) -> None:
    task = await server.claimed()
    head = msgspec.json.encode({**result(task), "output": "HERE"})

    answer = await server.client.post(
        "/callbacks/task-result",
        content=head.replace(b'"HERE"', output),
        headers={"content-type": "application/json"},
    )

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_output_of_the_maximum_depth_is_accepted(server: Server) -> None:
    task = await server.claimed()
    output: list[Any] = []
    for _ in range(63):
        output = [output]

    await server.post("/callbacks/task-result", result(task, output))

    await server.ended(task["job_id"])
    assert await server.output(task["job_id"], "work") == output


async def test_a_refused_result_after_a_restart_leaves_its_task_in_the_queue(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as before:
        await before.deploy(WORKFLOW)
        job_id = await before.submit("far_work")
        await before.happened(job_id, "node_dispatched")
    task = {"task_id": f"{job_id}_work_1", "job_id": job_id, "node_id": "work"}
    async with serving(tmp_path) as server:
        await server.post("/callbacks/task-result", result(task, 1), 409)

        (claimed,) = await server.claim()

        assert claimed["task_id"] == task["task_id"]


async def test_the_result_of_a_worker_from_before_a_restart_counts_and_its_task_is_withdrawn(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as before:
        await before.deploy(WORKFLOW)
        task = await before.claimed()
        await before.happened(task["job_id"], "node_started")
    async with serving(tmp_path) as server:
        (again,) = await server.claim(worker_id="second")

        answer = await server.post("/callbacks/task-result", result(task, 1))

        assert answer == {"accepted": True, "duplicate": False}
        heartbeat = {"worker_id": "second", "task_ids": [again["task_id"]]}
        asked = await server.post("/tasks/heartbeat", heartbeat)
        assert asked["stop"] == [task["task_id"]]
        events = await server.store.jobs.events(task["job_id"])
        handed_back = [event.data for event in events if event.type == "task_redelivered"]
        assert [msgspec.json.decode(data or b"") for data in handed_back] == [
            {"attempt_number": 1, "worker_id": "worker-xyz"}
        ]


# Events of workers


def emitted(task: dict[str, Any], event_type: str, **rest: object) -> dict[str, object]:
    """Return an event as workers of another system send it, with fields that are ignored."""
    return {
        "execution_id": task["job_id"],
        "catalog_id": 789,
        "node_id": "work",
        "node_name": "work",
        "event_type": event_type,
        "status": event_type.removeprefix("action_").upper(),
        "node_type": "http",
        "duration": 1.25,
        "context": {"workload": {"api_url": "https://api.example.com"}},
        "meta": {
            "retry": {"has_config": True},
            "queue_meta": {"queue_id": 456789, "worker_id": "worker-1"},
        },
        "parent_event_id": "789012",
        **rest,
    }


async def test_an_emitted_completion_completes_the_node(server: Server) -> None:
    task = await server.claimed()

    answer = await server.post(
        "/event/emit", emitted(task, "action_completed", result={"status": "success"})
    )

    assert answer == {"accepted": True, "duplicate": False}
    await server.ended(task["job_id"])
    assert await server.output(task["job_id"], "work") == {"status": "success"}


async def test_an_emitted_result_may_be_in_the_events_data(server: Server) -> None:
    task = await server.claimed()

    await server.post(
        "/event/emit", emitted(task, "action_completed", data={"result": [1], "attempt_number": 1})
    )

    await server.ended(task["job_id"])
    assert await server.output(task["job_id"], "work") == [1]


async def test_an_emitted_failure_fails_the_node(server: Server) -> None:
    task = await server.claimed()

    await server.post(
        "/event/emit", emitted(task, "action_failed", error={"type": "Timeout", "message": "slow"})
    )

    assert (await server.ended(task["job_id"])).state.status == "failed"
    assert (await server.error(task["job_id"], "work"))["message"] == "slow"


async def test_an_emitted_start_does_not_start_twice(server: Server) -> None:
    task = await server.claimed()

    await server.post("/event/emit", emitted(task, "action_started"))

    await server.post("/event/emit", emitted(task, "action_completed", result=1))
    await server.ended(task["job_id"])
    assert (await server.events(task["job_id"])).count("node_started") == 1


async def test_a_repeated_completion_is_a_duplicate(server: Server) -> None:
    task = await server.claimed()
    await server.post("/event/emit", emitted(task, "action_completed", result=1))

    answer = await server.post("/event/emit", emitted(task, "action_completed", result=2))

    assert answer == {"accepted": True, "duplicate": True}
    await server.ended(task["job_id"])
    assert await server.output(task["job_id"], "work") == 1


async def test_an_event_about_an_earlier_attempt_does_not_finish_the_current_one(
    server: Server,
) -> None:
    first = await server.claimed("retried")
    await server.post("/callbacks/task-result", result(first, status="failed", error="once"))
    (second,) = await server.claim()

    late = emitted(second, "action_completed", result="late", data={"attempt_number": 1})
    answer = await server.post("/event/emit", late)

    assert answer["duplicate"]
    await server.post("/callbacks/task-result", result(second, "now"))
    await server.ended(second["job_id"])
    assert await server.output(second["job_id"], "work") == "now"


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"event_type": "action_paused"}, 422),
        ({"execution_id": None}, 422),
        ({"execution_id": 123456}, 404),
        ({"node_id": "nowhere"}, 404),
        ({"data": {"attempt_number": 7}}, 409),
        ({"result": 2**70}, 422),
        ({"duration": -1}, 422),
    ],
)
async def test_an_event_without_a_matching_attempt_is_refused(
    server: Server, wrong: dict[str, object], status: int
) -> None:
    task = await server.claimed()

    await server.post("/event/emit", emitted(task, "action_completed") | wrong, status)


async def test_a_start_of_an_attempt_that_does_not_exist_is_refused(server: Server) -> None:
    task = await server.claimed()
    unknown = emitted(task, "action_started") | {"data": {"attempt_number": 7}}

    refused = await server.post("/event/emit", unknown, 409)

    assert "no such attempt" in refused["detail"]


async def test_a_start_of_an_attempt_that_has_ended_is_not_accepted(server: Server) -> None:
    task = await server.claimed()
    await server.post("/callbacks/task-result", result(task, 1))

    answer = await server.post("/event/emit", emitted(task, "action_started"))

    assert answer == {"accepted": False, "duplicate": False, "reason": "the attempt has ended"}


async def test_a_result_whose_attempt_is_counted_from_zero_is_refused(server: Server) -> None:
    task = await server.claimed()
    body = result(task, 1) | {"task_id": f"{task['job_id']}_work_0", "attempt": None}

    refused = await server.post("/callbacks/task-result", body, 422)

    assert "attempts are counted from 1" in str(refused)
    assert await server.post("/callbacks/task-result", result(task, 1)) == {
        "accepted": True,
        "duplicate": False,
    }


async def test_a_result_of_a_task_that_nobody_claimed_is_refused(server: Server) -> None:
    task = await server.claimed("retried")
    await server.post("/callbacks/task-result", result(task, status="failed", error="once"))
    unclaimed = result(task, 1) | {"task_id": f"{task['job_id']}_work_2", "attempt": 2}
    refused: dict[str, Any] = {}
    for _ in range(200):
        refused = await server.post("/callbacks/task-result", unclaimed, 409)
        if "node_dispatched" in (await server.events(task["job_id"]))[4:]:
            break

    assert "nobody claimed it" in refused["detail"]
