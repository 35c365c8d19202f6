"""The HTTP sink: requests, responses and addresses that it must not reach."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.handlers.handler_harness import Answer, Server, answer, serving
from tests.sinks.targets import raw, sink_spec
from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.handlers.sender import GuardedSender
from windlass.ports.sink import SinkReceipt
from windlass.sinks.http import HttpSink
from windlass.sinks.rows import OptionsInvalid


@asynccontextmanager
async def endpoint(
    answers: Answer, allow_private: bool = True
) -> AsyncIterator[tuple[HttpSink, Server]]:
    sink = HttpSink(GuardedSender(allow_private))
    async with serving(answers) as server:
        try:
            yield sink, server
        finally:
            await sink.aclose()


def to(server: Server, **options: Any) -> Any:
    return sink_spec("http", **{"url": f"{server.url}/in?token=hidden", **options})


async def test_the_output_is_posted_with_the_identity_of_its_task() -> None:
    async with endpoint(lambda _: answer(204)) as (sink, server):
        receipt = await sink.write(to(server), raw([{"id": 1}, {"id": 2}]), "job_node[3]")

    request = server.requests[0]
    assert receipt == SinkReceipt(2)
    assert (request.method, request.target) == ("POST", "/in?token=hidden")
    assert request.headers["idempotency-key"] == "job_node[3]"
    assert request.headers["content-type"] == "application/json"
    assert msgspec.json.decode(request.body) == [{"id": 1}, {"id": 2}]


async def test_a_repeated_request_has_the_same_identity() -> None:
    async with endpoint(lambda _: answer(200)) as (sink, server):
        for _ in range(2):
            await sink.write(to(server), raw({"id": 1}), "task-1")

    assert [request.headers["idempotency-key"] for request in server.requests] == [
        "task-1",
        "task-1",
    ]


async def test_method_headers_and_rows_path_are_options() -> None:
    headers = {"X-Tenant": "shop", "idempotency-key": "forged"}
    async with endpoint(lambda _: answer(200)) as (sink, server):
        await sink.write(
            to(server, method="PUT", headers=headers, rows="data"),
            raw({"data": [1], "more": 2}),
            "task-1",
        )

    request = server.requests[0]
    assert (request.method, request.headers["x-tenant"]) == ("PUT", "shop")
    assert request.headers["idempotency-key"] == "task-1"
    assert request.body == b"[1]"


async def test_pages_are_sent_by_their_merged_part() -> None:
    async with endpoint(lambda _: answer(200)) as (sink, server):
        await sink.write(
            to(server, merged_at=("data",)), raw({"data": [1, 2], "paging": {}}), "task-1"
        )

    assert server.requests[0].body == b"[1,2]"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_statuses_that_may_change_are_retryable(status: int) -> None:
    async with endpoint(lambda _: answer(status, "busy", retry_after="7")) as (sink, server):
        with pytest.raises(RetryableError, match=f"returned {status}") as caught:
            await sink.write(to(server), raw({}), "task-1")

    assert (caught.value.status, caught.value.retry_after) == (status, 7.0)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 400, 401, 409, 422])
async def test_other_statuses_are_final(status: int) -> None:
    async with endpoint(lambda _: answer(status, "no", location="/elsewhere")) as (sink, server):
        with pytest.raises(FatalError, match=f"returned {status}"):
            await sink.write(to(server), raw({}), "task-1")

    assert len(server.requests) == 1


async def test_a_closed_connection_is_retryable() -> None:
    async with endpoint(lambda _: b"") as (sink, server):
        with pytest.raises(RetryableError, match="no response"):
            await sink.write(to(server), raw({}), "task-1")


async def test_private_addresses_are_rejected_unless_permitted() -> None:
    async with endpoint(lambda _: answer(200), allow_private=False) as (sink, server):
        with pytest.raises(FatalError, match=r"http\.allow_private"):
            await sink.write(to(server), raw({}), "task-1")

    assert server.connections == 0


@pytest.mark.parametrize("timeout", ["soon", 0, "2d", -1, "5 s"])
async def test_an_invalid_timeout_is_rejected(timeout: object) -> None:
    async with endpoint(lambda _: answer(200)) as (sink, server):
        with pytest.raises(OptionsInvalid, match="timeout"):
            await sink.write(to(server, timeout=timeout), raw({}), "task-1")


@pytest.mark.parametrize("timeout", ["500ms", "5s", 5, "1m", "5", "1h"])
async def test_a_timeout_is_seconds_or_a_duration(timeout: object) -> None:
    async with endpoint(lambda _: answer(200)) as (sink, server):
        await sink.write(to(server, timeout=timeout), raw({}), "task-1")

    assert len(server.requests) == 1


async def test_a_url_of_another_kind_is_rejected() -> None:
    sink = HttpSink(GuardedSender(True))
    with pytest.raises(ParamsInvalid, match="http://"):
        await sink.write(sink_spec("http", url="file:///etc/passwd"), raw({}), "task-1")
    await sink.aclose()
