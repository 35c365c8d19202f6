"""Server-sent events: complete, without repeats, and independent of slow clients."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.harness import API, System, listening
from windlass.api import event_stream
from windlass.api.routes import streams
from windlass.api.state import ConcurrencyLimit


class ParsedStream:
    """The fields of the events of one connection."""

    def __init__(self, text: str) -> None:
        blocks = [block for block in text.split("\n\n") if block]
        self.comments = [block for block in blocks if block.startswith(":")]
        fields = [
            dict(line.split(": ", 1) for line in block.split("\n"))
            for block in blocks
            if block[0] != ":"
        ]
        self.ids = [int(one["id"]) for one in fields]
        self.types = [one["event"] for one in fields]
        self.data = [one["data"] for one in fields]


async def ended_job(system: System) -> str:
    await system.deploy()
    job_id = await system.submit()
    await system.ended(job_id)
    return job_id


async def test_a_stream_has_every_event_of_a_finished_job(
    system: System, client: httpx2.AsyncClient
) -> None:
    job_id = await ended_job(system)

    read = ParsedStream((await client.get(f"{API}/jobs/{job_id}/events/stream")).text)

    stored = (await client.get(f"{API}/jobs/{job_id}/events")).json()["items"]
    assert read.ids == [event["seq"] for event in stored]
    assert read.types == [event["event_type"] for event in stored]
    assert (read.types[0], read.types[-1]) == ("job_created", "job_completed")


async def test_a_stream_resumed_at_any_event_sends_each_once(
    system: System, client: httpx2.AsyncClient
) -> None:
    job_id = await ended_job(system)
    count = len((await client.get(f"{API}/jobs/{job_id}/events")).json()["items"])

    rests: list[list[int]] = []
    for seen in range(count + 1):
        response = await client.get(
            f"{API}/jobs/{job_id}/events/stream", headers={"last-event-id": str(seen)}
        )
        rests.append(ParsedStream(response.text).ids)

    assert count > 10
    assert rests == [list(range(seen + 1, count + 1)) for seen in range(count + 1)]


async def test_a_complete_stream_answers_204(system: System, client: httpx2.AsyncClient) -> None:
    job_id = await ended_job(system)
    count = len((await client.get(f"{API}/jobs/{job_id}/events")).json()["items"])

    response = await client.get(f"{API}/jobs/{job_id}/events/stream", params={"after": count})

    assert response.status_code == 204


async def test_repeated_reconnects_receive_each_event_once(tmp_path: Path) -> None:
    seen: list[int] = []
    async with System.running(tmp_path, worker=False) as system, listening(system.app) as url:
        await system.deploy()
        job_id = await system.submit()
        reading = asyncio.create_task(_read_by_reconnecting(url, job_id, seen))
        async with system.working():
            await system.ended(job_id)
            await asyncio.wait_for(reading, 30.0)
        stored = [event.seq for event in await system.store.jobs.events(job_id)]

    assert seen == stored


async def _read_by_reconnecting(url: str, job_id: str, seen: list[int]) -> None:
    """Read one event per connection until the stream is complete."""
    async with httpx2.AsyncClient(base_url=url, timeout=30.0) as client:
        while True:
            headers = {"last-event-id": str(seen[-1])} if seen else {}
            async with client.stream(
                "GET", f"{API}/jobs/{job_id}/events/stream", headers=headers
            ) as response:
                if response.status_code == 204:
                    return
                async for line in response.aiter_lines():
                    if line.startswith("id: "):
                        seen.append(int(line.removeprefix("id: ")))
                        break


async def test_a_stream_is_live_and_ends_with_the_job(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()
        reading = asyncio.create_task(system.client.get(f"{API}/jobs/{job_id}/events/stream"))
        await system.dispatched(job_id, "first")
        assert not reading.done()

        async with system.working():
            read = ParsedStream((await asyncio.wait_for(reading, 30.0)).text)

    assert read.types[-1] == "job_completed"
    assert read.ids == list(range(1, len(read.ids) + 1))


async def test_an_idle_stream_sends_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.01)
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()
        await system.dispatched(job_id, "first")
        job = await system.store.jobs.get(job_id)
        source = streams.job_events(system.state, job, 1_000)

        assert await asyncio.wait_for(anext(source), 10.0) == event_stream.HEARTBEAT
        await source.aclose()


async def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()
        reading = asyncio.create_task(system.client.get(f"{API}/jobs/{job_id}/events/stream"))
        await system.dispatched(job_id, "first")

        system.state.closing.set()

        assert (await asyncio.wait_for(reading, 10.0)).status_code == 200


async def test_the_number_of_streams_is_limited(tmp_path: Path) -> None:
    async with System.running(tmp_path, streams=ConcurrencyLimit(0, "streams")) as system:
        job_id = await ended_job(system)

        response = await system.client.get(f"{API}/jobs/{job_id}/events/stream")

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"


async def test_a_client_that_reads_nothing_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SEND_SECONDS_MAX", 0.05)
    async with System.running(tmp_path) as system:
        job_id = await ended_job(system)
        job = await system.store.jobs.get(job_id)
        never = asyncio.Event()
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if message.get("more_body"):
                await never.wait()

        async def receive() -> Any:
            await never.wait()

        response = event_stream.EventStream(system.state, streams.job_events(system.state, job, 0))
        await asyncio.wait_for(response({"type": "http"}, receive, send), 10.0)

    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    with system.state.streams.acquire():
        pass


async def test_a_disconnected_client_frees_its_stream(tmp_path: Path) -> None:
    async with System.running(
        tmp_path, worker=False, streams=ConcurrencyLimit(1, "streams")
    ) as system:
        await system.deploy()
        job_id = await system.submit()
        job = await system.store.jobs.get(job_id)
        response = event_stream.EventStream(system.state, streams.job_events(system.state, job, 0))

        async def send(message: Any) -> None:
            pass

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        await asyncio.wait_for(response({"type": "http"}, receive, send), 10.0)

        with system.state.streams.acquire():
            pass


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 16, "\u0661"])
async def test_a_wrong_last_event_id_is_refused(
    system: System, client: httpx2.AsyncClient, given: str
) -> None:
    job_id = await ended_job(system)

    response = await client.get(
        f"{API}/jobs/{job_id}/events/stream", headers=[(b"last-event-id", given.encode())]
    )

    assert response.status_code == 422


async def test_line_breaks_in_json_do_not_end_an_event() -> None:
    from msgspec import Raw

    text = event_stream.format_event(
        7, "node_completed", {"output": Raw(b'{\n"a":\r\n1}')}
    ).decode()

    assert text == 'id: 7\nevent: node_completed\ndata: {"output":{ "a":  1}}\n\n'


async def test_events_are_listed_page_by_page(system: System, client: httpx2.AsyncClient) -> None:
    job_id = await ended_job(system)

    found = [event async for event in _pages(client, job_id)]

    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert found[-1]["event_type"] == "job_completed"


async def _pages(client: httpx2.AsyncClient, job_id: str) -> AsyncIterator[dict[str, Any]]:
    after: str | None = "0"
    while after is not None:
        page = (
            await client.get(f"{API}/jobs/{job_id}/events", params={"after": after, "limit": 4})
        ).json()
        for event in page["items"]:
            yield event
        after = page["next_cursor"]
