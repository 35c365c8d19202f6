"""Lists and streams without events of iterations."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.api.harness import API, System
from windlass.api.routes import events, streams
from windlass.core.events import Event
from windlass.ports.store.overview import NodeEvents

MANY = """
workflow_id: many
nodes:
  each:
    handler: echo
    loop: {collection: "{{ input.items }}", element: n, concurrency: 100}
    params: {n: "{{ n }}"}
  last: {handler: echo, dependencies: [each], params: {}}
"""
ITEMS = 300


@pytest.fixture
async def looped(system: System) -> tuple[System, str]:
    """A job whose loop has ended."""
    await system.deploy_text(MANY)
    job_id = await system.submit("many", input_data={"items": list(range(ITEMS))})
    assert (await system.ended(job_id))["status"] == "completed"
    return system, job_id


async def page(system: System, job_id: str, **query: Any) -> dict[str, Any]:
    response = await system.client.get(
        f"{API}/jobs/{job_id}/events", params={"context": "false", **query}
    )
    assert response.status_code == 200, response.text
    return response.json()


async def of_nodes(system: System, job_id: str) -> list[dict[str, Any]]:
    whole = await page(system, job_id, limit=5_000)
    assert whole["next_cursor"] is None
    return [event for event in whole["items"] if event["index"] is None]


async def test_a_page_can_omit_events_of_iterations(looped: tuple[System, str]) -> None:
    system, job_id = looped

    shown = await page(system, job_id, iterations="false")

    assert shown == {"items": await of_nodes(system, job_id), "next_cursor": None}
    assert len(shown["items"]) < 20
    assert shown["items"][-1]["seq"] > ITEMS


async def test_pages_without_iterations_reach_the_last_event(looped: tuple[System, str]) -> None:
    system, job_id = looped

    seen: list[dict[str, Any]] = []
    after: str | None = "0"
    while after is not None:
        shown = await page(system, job_id, iterations="false", limit=2, after=after)
        seen += shown["items"]
        after = shown["next_cursor"]

    assert seen == await of_nodes(system, job_id)


async def test_a_page_of_nothing_but_iterations_does_not_end_the_list(
    looped: tuple[System, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, job_id = looped
    monkeypatch.setattr(events, "SCANNED_MAX", 10)
    monkeypatch.setattr(events, "SCANS_MAX", 2)
    first = next(
        event["seq"]
        for event in (await page(system, job_id))["items"]
        if event["index"] is not None
    )

    shown = await page(system, job_id, iterations="false", after=first)

    assert shown == {"items": [], "next_cursor": str(first + 20)}


async def test_a_page_of_events_may_be_long(looped: tuple[System, str]) -> None:
    system, job_id = looped

    assert len((await page(system, job_id, limit=5_000))["items"]) > 2 * ITEMS
    assert (await system.client.get(f"{API}/jobs/{job_id}/events?limit=5001")).status_code == 422


async def test_a_stream_without_iterations_sends_other_events_and_its_position(
    looped: tuple[System, str],
) -> None:
    system, job_id = looped
    events = await of_nodes(system, job_id)

    body = (
        await system.client.get(f"{API}/jobs/{job_id}/events/stream?iterations=false&context=false")
    ).text

    assert re.findall(r"^id: (\d+)\nevent: ", body, re.MULTILINE) == [
        str(event["seq"]) for event in events
    ]
    assert body.count("data: ") == len(events)


async def test_a_resumed_stream_continues_after_omitted_iterations(
    looped: tuple[System, str],
) -> None:
    system, job_id = looped
    job = await system.store.jobs.get(job_id)

    class IterationEventsOnly:
        """A store whose last events are all events of iterations."""

        async def node_events(
            self, job_id: str, after: int, limit: int, examined_max: int
        ) -> NodeEvents:
            return NodeEvents([], job.seq)

    state = system.state
    body = b"".join(
        [chunk async for chunk in streams.node_events(_with(state, IterationEventsOnly()), job, 5)]
    )

    assert body == b"id: %d\n\n" % job.seq
    again = await system.client.get(
        f"{API}/jobs/{job_id}/events/stream?iterations=false&after={job.seq}"
    )
    assert again.status_code == 204


async def test_omitted_iterations_are_polled_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = 0
    monkeypatch.setattr(streams, "ITERATIONS_SECONDS", 0.05)

    class BusyLoop:
        """A store whose loop has new events of iterations at every second query, and then ends."""

        async def node_events(
            self, job_id: str, after: int, limit: int, examined_max: int
        ) -> NodeEvents:
            nonlocal queries
            queries += 1
            if queries % 2 == 0:
                return NodeEvents([], after)
            if queries < 7:
                return NodeEvents([], after + 1_000)
            return NodeEvents([Event(after + 1, "node_completed", None, None, 0)], after + 1)

    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job = await system.store.jobs.get(await system.submit())
        source = streams.node_events(_with(system.state, BusyLoop()), job, 0)
        began = asyncio.get_running_loop().time()
        chunks = [await anext(source) for _ in range(4)]
        await source.aclose()

        assert [chunk[:9] for chunk in chunks] == [
            b"id: 1000\n",
            b"id: 2000\n",
            b"id: 3000\n",
            b"id: 3001\n",
        ]
        assert asyncio.get_running_loop().time() - began > 3 * streams.ITERATIONS_SECONDS


def _with(state: Any, overview: Any) -> Any:
    """Return the state with another overview of its store."""

    class Store:
        def __init__(self) -> None:
            self.overview = overview

        def __getattr__(self, name: str) -> Any:
            return getattr(state.store, name)

    class State:
        store = Store()
        control = state.control

    return State()
