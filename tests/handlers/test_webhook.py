"""Deliveries of webhooks: signatures, reports of each attempt, and the address rules of HTTP nodes."""

import json
from typing import Any

import msgspec
import pytest
from handler_harness import Request, answer, running, serving
from standardwebhooks import Webhook

from windlass.connections.secrets import Secrets
from windlass.core.messages import Failed, Succeeded, TaskFinished
from windlass.core.runs.webhooks import refusal_of
from windlass.core.webhooks import Delivery, delivery_of

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRETS = Secrets({"hook_key": KEY, "plain": "any text will do", "broken": "whsec_?"})


def reported(finished: TaskFinished) -> Delivery:
    assert isinstance(finished.outcome, Succeeded | Failed)
    delivery = delivery_of(finished.outcome.meta)
    assert delivery is not None
    return delivery


def verified(request: Request, key: str = KEY) -> Any:
    return Webhook(key).verify(request.body, request.headers)


async def test_the_signature_passes_the_reference_library() -> None:
    async with serving(lambda request: answer(200)) as server, running(secrets=SECRETS) as runner:
        await runner.run(
            "webhook",
            {"url": server.url, "type": "user.made", "data": {"é": 1}, "secret": "HOOK_KEY"},
        )

    body = verified(server.requests[0])
    assert (body["type"], body["data"]) == ("user.made", {"é": 1})
    assert body["timestamp"].endswith("Z")


async def test_a_payload_is_sent_unchanged() -> None:
    async with serving(lambda request: answer(200)) as server, running(secrets=SECRETS) as runner:
        await runner.run(
            "webhook", {"url": server.url, "payload": {"own": [1]}, "secret": "hook_key"}
        )

    assert verified(server.requests[0]) == {"own": [1]}


async def test_a_secret_may_be_any_text() -> None:
    async with serving(lambda request: answer(200)) as server, running(secrets=SECRETS) as runner:
        await runner.run("webhook", {"url": server.url, "secret": "plain"})

    request = server.requests[0]
    assert Webhook(b"any text will do").verify(request.body, request.headers)


async def test_the_fourth_attempt_reaches_a_receiver_that_failed_three_times() -> None:
    left = [500, 503, 429]

    def failing_three_times(request: Request) -> bytes:
        return answer(left.pop(0), '{"error": "not now"}') if left else answer(204)

    params = {"data": {"n": 1}, "secret": "hook_key"}
    async with serving(failing_three_times) as server, running(secrets=SECRETS) as runner:
        attempts = [
            await runner.run(
                "webhook", {"url": server.url, **params}, attempt=attempt, idempotency_key="j1_n"
            )
            for attempt in range(1, 5)
        ]

    assert [reported(attempt).status for attempt in attempts] == [500, 503, 429, 204]
    assert [isinstance(attempt.outcome, Succeeded) for attempt in attempts] == [
        False,
        False,
        False,
        True,
    ]
    assert all(
        attempt.outcome.error.retryable
        for attempt in attempts
        if isinstance(attempt.outcome, Failed)
    )
    assert {request.headers["webhook-id"] for request in server.requests} == {"msg_j1_n"}
    assert all(verified(request) for request in server.requests)


async def test_an_attempt_is_reported_without_secrets() -> None:
    def refusing(request: Request) -> bytes:
        return answer(400, "no " + "x" * 2_000, "text/plain")

    async with serving(refusing) as server, running(secrets=SECRETS) as runner:
        finished = await runner.run(
            "webhook", {"url": f"{server.url}/in?token=hidden", "secret": "hook_key"}
        )

    delivery = reported(finished)
    assert (delivery.url, delivery.status) == (f"{server.url}/in", 400)
    assert delivery.response is not None
    assert len(delivery.response) == 1_000
    assert delivery.error is not None
    assert delivery.duration_seconds > 0
    assert isinstance(finished.outcome, Failed)
    assert not finished.outcome.error.retryable
    for hidden in ("hidden", KEY.removeprefix("whsec_")):
        assert hidden not in msgspec.json.encode(finished).decode()


async def test_a_request_without_a_response_is_recorded() -> None:
    async with serving(lambda request: b"") as server, running() as runner:
        finished = await runner.run("webhook", {"url": server.url})

    delivery = reported(finished)
    assert delivery.status is None
    assert "no response" in (delivery.error or "")


async def test_a_slow_receiver_times_out() -> None:
    def incomplete(request: Request) -> bytes:
        return b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx"

    async with serving(incomplete) as server, running() as runner:
        finished = await runner.run("webhook", {"url": server.url, "timeout": 0.3})

    assert isinstance(finished.outcome, Failed)
    assert (finished.outcome.error.type, finished.outcome.error.retryable) == ("timeout", True)
    assert "within 0.3 s" in (reported(finished).error or "")


async def test_a_redirect_is_not_a_delivery() -> None:
    async with (
        serving(lambda request: answer(302, location="/elsewhere")) as server,
        running() as runner,
    ):
        error = await runner.error("webhook", {"url": server.url})

    assert (error.status, error.retryable, len(server.requests)) == (302, False, 1)


async def test_retry_after_of_a_server_is_respected() -> None:
    async with serving(lambda request: answer(503, retry_after="7")) as server, running() as runner:
        error = await runner.error("webhook", {"url": server.url})

    assert (error.retryable, error.retry_after_seconds) == (True, 7.0)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/", "http://[::ffff:169.254.169.254]/", "http://localhost/", "ftp://x/"],
)
async def test_hooks_have_the_address_rules_of_http_nodes(url: str) -> None:
    async with running(allow_private=False) as runner:
        error = await runner.error("webhook", {"url": url})

    assert not error.retryable


@pytest.mark.parametrize(
    ("name", "kind"), [("hook_kye", "secret_unknown"), ("broken", "FatalError")]
)
async def test_a_secret_that_cannot_be_used_fails_the_attempt_permanently(
    name: str, kind: str
) -> None:
    async with serving(lambda request: answer(200)) as server, running(secrets=SECRETS) as runner:
        error = await runner.error("webhook", {"url": server.url, "secret": name})

    assert (error.type, error.retryable, server.requests) == (kind, False, [])


async def test_without_a_secret_nothing_is_signed() -> None:
    async with serving(lambda request: answer(200)) as server, running() as runner:
        await runner.run("webhook", {"url": server.url})

    assert "webhook-signature" not in server.requests[0].headers


async def test_custom_headers_are_sent_but_do_not_replace_signature_headers() -> None:
    headers = {"X-Own": "v", "Webhook-Id": "forged"}
    async with serving(lambda request: answer(200)) as server, running() as runner:
        await runner.run("webhook", {"url": server.url, "headers": headers, "id": "msg_1"})

    sent = server.requests[0].headers
    assert (sent["x-own"], sent["webhook-id"]) == ("v", "msg_1")


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ('{"allow": false, "reason": "frozen"}', "frozen"),
        ('{"allow": false}', "the hook does not allow the run"),
        ('{"allow": true}', None),
        ('{"allow": "false"}', None),
        ("", None),
        ("ok", None),
    ],
)
async def test_a_response_may_deny_the_run(body: str, refusal: str | None) -> None:
    async with serving(lambda request: answer(200, body)) as server, running() as runner:
        finished = await runner.run("webhook", {"url": server.url})

    assert isinstance(finished.outcome, Succeeded)
    assert refusal_of(finished.outcome.output) == refusal


async def test_a_long_response_is_truncated() -> None:
    async with (
        serving(lambda request: answer(200, json.dumps(["x" * 100_000]))) as server,
        running() as runner,
    ):
        output = await runner.output("webhook", {"url": server.url})

    assert len(output["response"]) == 1_000


def test_secrets_are_not_in_their_repr() -> None:
    assert KEY not in f"{SECRETS!r} {SECRETS!s}"
