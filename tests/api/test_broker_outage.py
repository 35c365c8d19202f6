"""The API while the broker does not answer: nothing waits for it for long, and nothing is lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.harness import API, System
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock

# The longest of the waits for the broker, and time for the rest of a request on a busy machine.
ANSWER_SECONDS_MAX = 3.0
ENDS_SECONDS = 30.0
CALLS = [
    "publish",
    "claim",
    "extend",
    "finish",
    "return_tasks",
    "cancel",
    "missing",
    "workers",
    "queues",
    "send",
    "receive_cancellations",
    "deregister",
    "register_owner",
    "incarnation",
    "reclaim",
    "forget_workers",
]
ONE = """
workflow_id: one
nodes:
  a: {handler: echo, queue: far, params: {}}
"""


class HangingBroker(MemoryBroker):
    """A broker whose calls do not return while `is_down`, except those that only concern this process."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.is_up = asyncio.Event()
        self.is_up.set()
        for name in CALLS:
            setattr(self, name, self._hanging(getattr(self, name)))

    def _hanging(self, call: Any) -> Any:
        async def answer(*arguments: Any, **options: Any) -> Any:
            if call.__name__ != "send" or arguments[1]:
                await self.is_up.wait()
            return await call(*arguments, **options)

        return answer


@pytest.fixture
async def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[System]:
    """A system without a worker, whose broker can be made to hang."""
    monkeypatch.setattr("tests.api.harness.MemoryBroker", lambda clock: HangingBroker())
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy_text(ONE)
        yield system
        broker_of(system).is_up.set()


def broker_of(system: System) -> HangingBroker:
    assert isinstance(system.broker, HangingBroker)
    return system.broker


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/workers", None),
        ("GET", "/queues", None),
        ("DELETE", "/workers/w1", None),
        ("POST", "/tasks/claim", {"worker_id": "w1", "queues": ["far"]}),
        ("POST", "/tasks/heartbeat", {"worker_id": "w1", "task_ids": ["j_a_1"]}),
    ],
)
async def test_calls_that_need_the_broker_answer_503_soon(
    system: System, method: str, path: str, body: Any
) -> None:
    broker_of(system).is_up.clear()
    began = time.monotonic()

    response = await system.client.request(method, f"{API}{path}", json=body)

    assert response.status_code == 503
    assert "the broker did not answer" in response.json()["detail"]
    assert time.monotonic() - began < ANSWER_SECONDS_MAX


async def test_a_server_is_not_ready_while_the_broker_is_down(system: System) -> None:
    broker_of(system).is_up.clear()
    began = time.monotonic()

    response = await system.client.get("/readyz")

    assert (response.status_code, response.json()["status"]) == (503, "degraded")
    assert time.monotonic() - began < ANSWER_SECONDS_MAX


async def test_a_submit_is_accepted_and_runs_when_the_broker_is_back(system: System) -> None:
    broker_of(system).is_up.clear()
    began = time.monotonic()
    response = await system.client.post(f"{API}/jobs", json={"workflow_id": "one"})
    assert (response.status_code, time.monotonic() - began < ANSWER_SECONDS_MAX) == (201, True)

    broker_of(system).is_up.set()
    async with asyncio.timeout(ENDS_SECONDS):
        await system.dispatched(response.json()["job_id"], "a")


async def test_a_cancel_is_stored_and_precedes_a_result_that_waits(system: System) -> None:
    job_id = await system.submit("one")
    await system.dispatched(job_id, "a")
    claim = {"worker_id": "w1", "queues": ["far"], "wait": "5s"}
    [task] = (await system.client.post(f"{API}/tasks/claim", json=claim)).json()["tasks"]
    broker_of(system).is_up.clear()

    began = time.monotonic()
    cancelled = await system.client.post(f"{API}/jobs/{job_id}/cancel")
    assert cancelled.status_code in {200, 202}
    assert time.monotonic() - began < ANSWER_SECONDS_MAX
    result = {"task_id": task["task_id"], "worker_id": "w1", "status": "success", "result": 1}
    await system.client.post(f"{API}/callbacks/task-result", json=result)

    broker_of(system).is_up.set()
    async with asyncio.timeout(ENDS_SECONDS):
        job = (await system.client.get(f"{API}/jobs/{job_id}?wait=20s")).json()
    assert job["status"] == "cancelled"
