"""A loop with pagination and retries, seen by a client over a real connection."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.api.worker_server import serving
from windlass import Context, RetryableError, handler
from windlass.client import Client
from windlass.core.errors import NotFound
from windlass.ports.handler_declaration import declared
from windlass.wire import EventView

ITEMS = 40
PAGES = 3
STOCK = """
workflow_id: stock
nodes:
  shops: {handler: shops, params: {count: "{{ input.count }}"}}
  stock:
    handler: stock
    dependencies: [shops]
    loop: {collection: "{{ shops.output }}", element: shop, concurrency: 7}
    params: {shop: "{{ shop }}", page: 1}
    retry:
      on_error: {max_attempts: 3, initial_delay: 0.01, jitter: 0}
      on_success:
        while: "{{ response.paging.hasMore }}"
        next_call: {page: "{{ response.paging.page + 1 }}"}
        collect: append
        merge_path: data
  total: {handler: echo, dependencies: [stock], params: {shops: "{{ stock.output | length }}"}}
"""


@handler("shops")
async def shops(ctx: Context, count: int) -> list[dict[str, int]]:
    return [{"id": number} for number in range(count)]


@handler("stock")
async def stock(ctx: Context, shop: dict[str, int], page: int) -> dict[str, Any]:
    # The second page of every tenth shop fails once.
    if shop["id"] % 10 == 0 and page == 2 and ctx.attempt == 2:
        raise RetryableError("closed", status=503)
    ctx.log(f"page {page} of {shop['id']}")
    return {"data": [f"{shop['id']}.{page}"], "paging": {"page": page, "hasMore": page < PAGES}}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path, {"shops": declared(shops), "stock": declared(stock)}) as server:
        await server.deploy(STOCK)
        async with Client(server.url) as client:
            yield client


@pytest.fixture
async def job_id(client: Client) -> str:
    return (await client.jobs.submit("stock", {"count": ITEMS, "api_token": "t0ken"})).job_id


def index_counts(events: list[EventView], event_type: str) -> list[int]:
    """Return how many events of this type each item has."""
    found = [event.index for event in events if event.event_type == event_type]
    return [found.count(index) for index in range(ITEMS)]


async def test_every_page_of_every_iteration_is_streamed(client: Client, job_id: str) -> None:
    events = [event async for event in client.jobs.watch(job_id)]

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    tries = [PAGES + (index % 10 == 0) for index in range(ITEMS)]
    assert index_counts(events, "iteration_started") == tries
    assert index_counts(events, "iteration_completed") == [1] * ITEMS
    assert index_counts(events, "iteration_retrying") == [count - 1 for count in tries]
    assert index_counts(events, "retry_sequence_completed") == [1] * ITEMS
    assert b"t0ken" not in b"".join(bytes(event.context) for event in events)


async def test_streamed_and_listed_events_are_the_same(client: Client, job_id: str) -> None:
    live = [event async for event in client.jobs.watch(job_id)]

    stored = [event async for event in client.jobs.events(job_id)]

    assert [msgspec.structs.replace(event, context=msgspec.Raw()) for event in stored] == [
        msgspec.structs.replace(event, context=msgspec.Raw()) for event in live
    ]
    ends = [
        one for one in zip(live, stored, strict=True) if one[0].event_type.endswith("_completed")
    ]
    assert [bytes(one.context) for one, _ in ends] == [bytes(one.context) for _, one in ends]


async def test_attempts_of_an_iteration_are_linked_to_its_first(
    client: Client, job_id: str
) -> None:
    await client.jobs.wait(job_id)

    of_item = [event async for event in client.jobs.events(job_id) if event.index == 10]

    first = next(event for event in of_item if event.event_type == "iteration_started")
    later = [event for event in of_item if event.event_type == "iteration_started"][1:]
    assert len(later) == PAGES
    assert {event.parent_event_id for event in later} == {first.event_id}
    kinds = [
        msgspec.json.decode(event.meta)["retry"]
        for event in of_item
        if event.event_type == "iteration_retrying"
    ]
    assert [kind.get("type", kind.get("retry_type")) for kind in kinds] == [
        "on_success",
        "on_error",
        "on_success",
    ]
    (done,) = [
        msgspec.json.decode(event.meta)
        for event in of_item
        if event.event_type == "iteration_completed"
    ]
    assert done["retry"] == {
        "has_config": True,
        "attempt_number": 4,
        "max_attempts": 100,
        "retry_type": "on_success",
        "will_retry": False,
        "page": 3,
    }


async def test_iterations_and_outputs_are_complete_and_in_order(
    client: Client, job_id: str
) -> None:
    job = await client.jobs.wait(job_id)

    tasks = [task async for task in client.jobs.iterations(job_id, "stock")]
    whole = msgspec.json.decode(await client.jobs.output(job_id, "stock"))
    one = msgspec.json.decode(await client.jobs.output(job_id, "stock", index=12))

    assert job.status == "completed"
    expected = [[f"{index}.{page}" for page in range(1, PAGES + 1)] for index in range(ITEMS)]
    assert [msgspec.json.decode(task.output) for task in tasks] == expected
    assert [task.attempt for task in tasks] == [PAGES + (index % 10 == 0) for index in range(ITEMS)]
    assert (whole, one) == (expected, expected[12])


async def test_iterations_are_filtered_by_status(client: Client, job_id: str) -> None:
    await client.jobs.wait(job_id)

    assert [
        task.index async for task in client.jobs.iterations(job_id, "stock", status="completed")
    ] == list(range(ITEMS))
    assert [task async for task in client.jobs.iterations(job_id, "stock", status="failed")] == []


async def test_a_missing_output_is_not_found(client: Client, job_id: str) -> None:
    await client.jobs.wait(job_id)

    with pytest.raises(NotFound, match=r"stock\[40\]"):
        await client.jobs.output(job_id, "stock", index=ITEMS)


async def test_log_lines_are_filtered_by_iteration(client: Client, job_id: str) -> None:
    await client.jobs.wait(job_id)

    lines = [line.message async for line in client.jobs.follow_logs(job_id, node="stock", index=7)]

    assert lines == [f"page {page} of 7" for page in range(1, PAGES + 1)]


async def test_the_job_is_shown_with_its_loop(client: Client, job_id: str) -> None:
    job = await client.jobs.wait(job_id)

    loops = {node.node_id: node.loop for node in job.nodes or []}

    assert loops["stock"] is not None
    assert (loops["stock"].total, loops["stock"].completed, loops["total"]) == (ITEMS, ITEMS, None)
