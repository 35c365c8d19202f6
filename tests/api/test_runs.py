"""Runs: list, show and cancel."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.api.harness import API, System
from tests.api.run_harness import SINGLE, YEARLY, found


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with System.running(tmp_path) as running:
        for text in (YEARLY, SINGLE):
            await running.deploy_text(text)
        await running.deploy()
        yield running


async def run_of(system: System, job_id: str, state: str) -> dict:
    """Wait until the run of a job is in a state and return it."""
    page = await found(
        system,
        "/runs",
        lambda page: any(run["job_id"] == job_id for run in page["items"]),
        state=state,
    )
    return next(run for run in page["items"] if run["job_id"] == job_id)


async def test_a_submitted_job_of_a_scheduled_workflow_is_a_run(system: System) -> None:
    job_id = await system.submit("yearly")

    run = await run_of(system, job_id, "completed")

    assert run["run_id"] == f"yearly:{job_id}"
    assert [one["state"] for one in run["transitions"]] == [
        "pre_run", "pending", "container_creating", "running", "terminating", "completed",
    ]  # fmt: skip
    assert run["previous_state"] == "terminating"
    assert run["metrics"]["success"] is True
    assert run["metrics"]["total_seconds"] > 0
    assert run["violations"] == []


async def test_a_job_of_a_plain_workflow_is_not_a_run(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.ended(await system.submit("chain"))

    assert (await client.get(f"{API}/runs", params={"workflow_id": "chain"})).json()["items"] == []


async def test_a_run_can_be_shown_by_its_id(system: System, client: httpx2.AsyncClient) -> None:
    run = await run_of(system, await system.submit("yearly"), "completed")

    shown = await client.get(f"{API}/runs/{run['run_id']}")

    assert shown.json() == run


async def test_a_concurrent_run_is_skipped_with_its_reason(system: System) -> None:
    first = await system.submit("single")
    await run_of(system, first, "running")

    second = await run_of(system, await system.submit("single"), "completed")

    assert second["skipped"]
    assert [one["constraint"] for one in second["violations"]] == ["max_concurrent_runs"]
    assert "of at most 1 runs" in second["reason"]


async def test_a_run_is_cancelled(system: System, client: httpx2.AsyncClient) -> None:
    run = await run_of(system, await system.submit("single"), "running")

    response = await client.post(f"{API}/runs/{run['run_id']}/cancel", json={"reason": "enough"})

    assert response.status_code == 200
    stopped = await run_of(system, run["job_id"], "cancelled")
    assert "enough" in stopped["reason"]
    assert (await system.ended(run["job_id"]))["status"] == "cancelled"


async def test_cancelling_a_finished_run_changes_nothing(
    system: System, client: httpx2.AsyncClient
) -> None:
    run = await run_of(system, await system.submit("yearly"), "completed")

    again = await client.post(f"{API}/runs/{run['run_id']}/cancel")

    assert again.json() == run


async def test_runs_are_listed_page_by_page_newest_first(
    system: System, client: httpx2.AsyncClient
) -> None:
    jobs = [await system.submit("yearly") for _ in range(3)]
    for job_id in jobs:
        await run_of(system, job_id, "completed")

    listed: list[str] = []
    params: dict[str, str] = {"limit": "2", "state": "completed"}
    while True:
        page = (await client.get(f"{API}/runs", params=params)).json()
        listed += [run["job_id"] for run in page["items"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]

    assert listed == jobs[::-1]


@pytest.mark.parametrize(("path", "status"), [
    ("/runs/yearly:2026-01-01T02:00:00Z", 404), ("/runs/absent", 422), ("/runs/a b:c", 422), ("/runs/a:b%0a", 422),
    ("/runs?state=walking", 422), ("/runs?limit=0", 422), ("/runs?cursor=x", 422),
])  # fmt: skip
async def test_invalid_requests_for_runs_are_refused(
    client: httpx2.AsyncClient, path: str, status: int
) -> None:
    assert (await client.get(f"{API}{path}")).status_code == status


async def test_an_unknown_run_cannot_be_cancelled(client: httpx2.AsyncClient) -> None:
    assert (await client.post(f"{API}/runs/yearly:none/cancel")).status_code == 404


async def test_the_events_of_a_run_are_listed_page_by_page(
    system: System, client: httpx2.AsyncClient
) -> None:
    run = await run_of(system, await system.submit("yearly"), "completed")
    path = f"{API}/runs/{run['run_id']}/events"

    first = (await client.get(path, params={"limit": 2})).json()
    rest = (await client.get(path, params={"after": first["next_cursor"]})).json()

    events = [*first["items"], *rest["items"]]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["event_type"] == "run_created"
    assert events[0]["data"]["scheduled_at"] == run["scheduled_at"]
    assert events[-1]["data"]["state"] == "completed"
    assert rest["next_cursor"] is None
    assert (await client.get(f"{API}/runs/yearly:none/events")).status_code == 404


async def test_a_run_under_way_has_metrics(system: System, client: httpx2.AsyncClient) -> None:
    run = await run_of(system, await system.submit("single"), "running")

    metrics = (await client.get(f"{API}/runs/{run['run_id']}")).json()["metrics"]

    assert metrics["total_seconds"] > 0
    assert metrics["final_state"] is None


async def test_a_page_of_runs_and_of_deliveries_has_up_to_1000_entries(
    client: httpx2.AsyncClient,
) -> None:
    for path in ("runs", "deliveries"):
        assert (await client.get(f"{API}/{path}", params={"limit": 1_000})).status_code == 200
        assert (await client.get(f"{API}/{path}", params={"limit": 1_001})).status_code == 422
