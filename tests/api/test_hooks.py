"""Incoming webhooks: signatures and idempotency."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from standardwebhooks import Webhook

from tests.api.harness import API, System
from windlass.connections.secrets import Secrets

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = f"{API}/hooks/paid"
PAID = """
workflow_id: paid
input: {type: object, properties: {order: {type: integer}}, required: [order]}
hook: {secret: shop_key}
nodes: {note: {handler: echo, params: {order: "{{ input.order }}"}}}
"""
UNKEYED = "workflow_id: unkeyed\nhook: {secret: nowhere}\nnodes: {a: {handler: echo}}\n"


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with System.running(tmp_path, secrets=Secrets({"SHOP_KEY": KEY})) as running:
        for text in (PAID, UNKEYED):
            await running.deploy_text(text)
        await running.deploy()
        yield running


def signed(
    body: bytes, webhook_id: str = "msg_1", *, late: float = 0.0, key: str = KEY
) -> dict[str, str]:
    at = datetime.now(UTC) - timedelta(seconds=late)
    return {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(key).sign(webhook_id, at, body.decode()),
    }


async def sent(
    client: httpx2.AsyncClient, value: Any, path: str = HOOK, **options: Any
) -> httpx2.Response:
    body = msgspec.json.encode(value)
    return await client.post(path, content=body, headers=signed(body, **options))


async def test_a_signed_body_becomes_the_input_of_a_job(
    system: System, client: httpx2.AsyncClient
) -> None:
    response = await sent(client, {"order": 7})

    assert response.status_code == 201
    job = await system.ended(response.json()["job_id"])
    assert (job["status"], job["input_data"]) == ("completed", {"order": 7})
    assert response.headers["location"] == f"{API}/jobs/{job['job_id']}"


async def test_a_repeated_webhook_starts_no_job(client: httpx2.AsyncClient) -> None:
    first = await sent(client, {"order": 7})

    again = await sent(client, {"order": 7})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["job_id"] == first.json()["job_id"]


async def test_concurrent_repeats_of_a_webhook_start_one_job(client: httpx2.AsyncClient) -> None:
    answers = await asyncio.gather(*(sent(client, {"order": 7}) for _ in range(20)))

    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers).count(201) == 1


async def test_different_webhooks_start_different_jobs(client: httpx2.AsyncClient) -> None:
    first = await sent(client, {"order": 7}, webhook_id="msg_1")

    second = await sent(client, {"order": 7}, webhook_id="msg_2")

    assert first.json()["job_id"] != second.json()["job_id"]


async def test_an_id_with_another_body_is_a_conflict(client: httpx2.AsyncClient) -> None:
    await sent(client, {"order": 7})

    assert (await sent(client, {"order": 8})).status_code == 409


async def test_an_invalid_webhook_input_is_refused(client: httpx2.AsyncClient) -> None:
    response = await sent(client, {"order": "seven"})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "order"


@pytest.mark.parametrize("late", [-310.0, 310.0])
async def test_an_outdated_webhook_is_refused(client: httpx2.AsyncClient, late: float) -> None:
    assert (await sent(client, {"order": 7}, late=late)).status_code == 401


async def test_a_webhook_signed_with_another_key_is_refused(client: httpx2.AsyncClient) -> None:
    response = await sent(client, {"order": 7}, key="whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")

    assert (response.status_code, response.json()["type"]) == (401, "urn:windlass:problem:unsigned")


async def test_an_unsigned_webhook_is_refused_before_it_is_parsed(
    client: httpx2.AsyncClient,
) -> None:
    response = await client.post(
        HOOK, content=b"not json", headers={"content-type": "application/json"}
    )

    assert response.status_code == 401
    assert (await client.get(f"{API}/jobs")).json()["items"] == []


async def test_a_signed_body_that_is_not_json_is_refused(client: httpx2.AsyncClient) -> None:
    body = b"not json"

    assert (await client.post(HOOK, content=body, headers=signed(body))).status_code == 400


async def test_a_body_over_the_limit_is_refused(client: httpx2.AsyncClient) -> None:
    body = b'"' + b"x" * (1 << 20) + b'"'

    assert (await client.post(HOOK, content=body, headers=signed(body))).status_code == 413


@pytest.mark.parametrize("workflow", ["chain", "absent"])
async def test_a_webhook_for_a_workflow_without_hook_is_not_found(
    client: httpx2.AsyncClient, workflow: str
) -> None:
    assert (await sent(client, {}, f"{API}/hooks/{workflow}")).status_code == 404


async def test_a_hook_with_a_missing_secret_is_unavailable(client: httpx2.AsyncClient) -> None:
    response = await sent(client, {}, f"{API}/hooks/unkeyed")

    assert response.status_code == 503
    assert "nowhere" not in response.text


async def test_the_secret_is_never_shown(system: System, client: httpx2.AsyncClient) -> None:
    shown = [
        (await sent(client, {"order": 7})).text,
        (await client.get(f"{API}/workflows/paid")).text,
        (await client.get(f"{API}/jobs")).text,
        repr(system.state.secrets),
    ]

    assert not any(KEY.removeprefix("whsec_") in text for text in shown)
