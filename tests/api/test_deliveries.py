"""Deliveries: recorded attempts and redelivery."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from tests.api.harness import API, System
from tests.api.run_harness import found
from tests.handlers.handler_harness import Request, Server, answer, serving
from windlass.connections.secrets import Secrets
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOTIFYING = """
workflow_id: notifying
nodes:
  notify:
    handler: webhook
    params: {{url: "{url}/in?token=hidden", secret: hook_key, type: notified, data: {{n: "{{{{ input.n }}}}"}}}}
    retry: {{on_error: {{max_attempts: 4, initial_delay: 10ms}}}}
"""


class Receiver:
    """Fails a number of times, then accepts deliveries."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.server: Server | None = None

    def __call__(self, request: Request) -> bytes:
        self.failures -= 1
        return (
            answer(503, '{"error": "not now"}')
            if self.failures >= 0
            else answer(200, '{"taken": true}')
        )


@pytest.fixture
async def receiver() -> AsyncIterator[Server]:
    async with serving(Receiver(3)) as server:
        yield server


@pytest.fixture
async def system(tmp_path: Path, receiver: Server) -> AsyncIterator[System]:
    handlers = builtin_handlers(
        HandlerConfig(allow_private=True, secrets=Secrets({"hook_key": KEY}))
    )
    async with System.running(tmp_path, handlers=handlers) as running:
        await running.deploy_text(NOTIFYING.format(url=receiver.url))
        yield running


async def attempts(system: System, job_id: str, count: int) -> list[dict[str, Any]]:
    """Wait for a number of attempts of a job and return them, oldest first."""
    page = await found(
        system, "/deliveries", lambda page: len(page["items"]) == count, job_id=job_id
    )
    return page["items"][::-1]


async def test_all_attempts_of_a_delivery_are_recorded(system: System, receiver: Server) -> None:
    job_id = await system.submit("notifying", input_data={"n": 7})

    job = await system.ended(job_id)

    assert job["status"] == "completed"
    recorded = await attempts(system, job_id, 4)
    assert [(one["attempt"], one["status"], one["outcome"]) for one in recorded] == [
        (1, 503, "failed"), (2, 503, "failed"), (3, 503, "failed"), (4, 200, "delivered"),
    ]  # fmt: skip
    assert {one["url"] for one in recorded} == {f"{receiver.url}/in"}
    assert recorded[0]["response"] == '{"error": "not now"}'
    assert [
        Webhook(KEY).verify(request.body, request.headers)["data"] for request in receiver.requests
    ] == [{"n": 7}] * 4
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


async def test_a_redelivery_has_the_same_webhook_id(
    system: System, client: httpx2.AsyncClient, receiver: Server
) -> None:
    job_id = await system.submit("notifying", input_data={"n": 7})
    await system.ended(job_id)
    last = (await attempts(system, job_id, 4))[-1]

    response = await client.post(f"{API}/deliveries/{last['delivery_id']}/redeliver")

    assert response.status_code == 201
    assert (await system.ended(response.json()["job_id"]))["status"] == "completed"
    again, before = receiver.requests[-1], receiver.requests[-2]
    assert again.headers["webhook-id"] == before.headers["webhook-id"]
    assert Webhook(KEY).verify(again.body, again.headers)["data"] == {"n": 7}
    [recorded] = await attempts(system, response.json()["job_id"], 1)
    assert (recorded["outcome"], recorded["workflow_id"]) == ("delivered", "notifying")


async def test_recorded_deliveries_contain_no_secret(
    system: System, client: httpx2.AsyncClient
) -> None:
    job_id = await system.submit("notifying", input_data={"n": 7})
    await system.ended(job_id)
    await attempts(system, job_id, 4)

    shown = [
        (await client.get(f"{API}{path}")).text
        for path in (
            "/deliveries",
            f"/jobs/{job_id}/events",
            f"/jobs/{job_id}?nodes=true",
            f"/jobs/{job_id}/logs",
        )
    ]

    assert not any(KEY.removeprefix("whsec_") in text for text in shown)
    assert "hidden" not in shown[0]


async def test_deliveries_are_filtered_and_paginated(
    system: System, client: httpx2.AsyncClient
) -> None:
    job_id = await system.submit("notifying", input_data={"n": 7})
    await system.ended(job_id)
    recorded = await attempts(system, job_id, 4)

    failed = (
        await client.get(
            f"{API}/deliveries", params={"outcome": "failed", "workflow_id": "notifying"}
        )
    ).json()
    first = (await client.get(f"{API}/deliveries", params={"limit": 3})).json()
    second = (
        await client.get(f"{API}/deliveries", params={"limit": 3, "cursor": first["next_cursor"]})
    ).json()

    assert len(failed["items"]) == 3
    assert (first["items"] + second["items"])[::-1] == recorded


async def test_a_delivery_can_be_shown_by_its_id(
    system: System, client: httpx2.AsyncClient
) -> None:
    job_id = await system.submit("notifying", input_data={"n": 7})
    await system.ended(job_id)
    one = (await attempts(system, job_id, 4))[0]

    assert (await client.get(f"{API}/deliveries/{one['delivery_id']}")).json() == one


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/deliveries/none", 404), ("POST", "/deliveries/none/redeliver", 404), ("GET", "/deliveries/a.b", 422),
    ("GET", "/deliveries?outcome=lost", 422),
])  # fmt: skip
async def test_invalid_requests_for_deliveries_are_refused(
    client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    assert (await client.request(method, f"{API}{path}")).status_code == status


async def test_many_deliveries_at_once_are_all_recorded(
    system: System, client: httpx2.AsyncClient
) -> None:
    jobs = [await system.submit("notifying", input_data={"n": n}) for n in range(20)]

    ended = await asyncio.gather(*map(system.ended, jobs))

    assert {job["status"] for job in ended} == {"completed"}
    page = await found(system, "/deliveries", lambda page: len(page["items"]) == 23, limit=100)
    assert sum(one["outcome"] == "delivered" for one in page["items"]) == 20
