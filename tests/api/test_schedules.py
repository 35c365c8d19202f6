"""Schedules: show, pause, trigger and backfill."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from tests.api.harness import API, System
from tests.api.run_harness import HOURLY, YEARLY, found


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with System.running(tmp_path) as running:
        for text in (YEARLY, HOURLY):
            await running.deploy_text(text)
        await running.deploy()
        yield running


async def test_schedules_are_listed_with_their_next_slots(client: httpx2.AsyncClient) -> None:
    items = (await client.get(f"{API}/schedules")).json()["items"]

    assert [item["workflow_id"] for item in items] == ["hourly", "yearly"]
    assert items[0]["every_seconds"] == 3600
    assert items[0]["next_at"].endswith(":30:00.000000Z")
    assert items[1]["next_at"].endswith("-01-01T02:00:00.000000Z")


async def test_a_list_can_be_read_page_by_page(client: httpx2.AsyncClient) -> None:
    first = (await client.get(f"{API}/schedules", params={"limit": 1})).json()

    second = (
        await client.get(f"{API}/schedules", params={"limit": 1, "cursor": first["next_cursor"]})
    ).json()

    assert [page["items"][0]["workflow_id"] for page in (first, second)] == ["hourly", "yearly"]
    assert second["next_cursor"] is None


async def test_a_schedule_shows_its_definition(client: httpx2.AsyncClient) -> None:
    shown = (await client.get(f"{API}/schedules/yearly")).json()

    assert shown["cron"] == "0 3 1 1 *"
    assert (shown["timezone"], shown["enabled"], shown["paused"]) == ("Europe/Paris", True, False)
    assert shown["input_data"] == {"n": 1, "m": 2}


async def test_next_slots_are_in_utc_and_local_time(client: httpx2.AsyncClient) -> None:
    times = (await client.get(f"{API}/schedules/yearly/next", params={"count": 3})).json()

    assert len(times["times"]) == 3
    assert all(time.endswith("-01-01T02:00:00.000000Z") for time in times["times"])
    assert all(time.endswith("-01-01T03:00:00+01:00") for time in times["local_times"])


@pytest.mark.parametrize(("path", "status"), [
    ("/schedules/chain", 404), ("/schedules/absent", 404), ("/schedules/chain/next", 404),
    ("/schedules/yearly/next?count=0", 422), ("/schedules/yearly/next?count=1001", 422), ("/schedules/a.b", 422),
    ("/schedules?cursor=x", 422),
])  # fmt: skip
async def test_invalid_requests_for_schedules_are_refused(
    client: httpx2.AsyncClient, path: str, status: int
) -> None:
    assert (await client.get(f"{API}{path}")).status_code == status


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger"])
async def test_actions_on_a_workflow_without_schedule_are_refused(
    client: httpx2.AsyncClient, verb: str
) -> None:
    assert (await client.post(f"{API}/schedules/chain/{verb}")).status_code == 404


async def test_a_paused_schedule_has_no_next_slot_until_resumed(client: httpx2.AsyncClient) -> None:
    paused = (await client.post(f"{API}/schedules/hourly/pause")).json()

    resumed = (await client.post(f"{API}/schedules/hourly/resume")).json()

    assert (paused["paused"], paused["next_at"]) == (True, None)
    assert resumed["paused"] is False
    assert resumed["next_at"] is not None


async def test_a_run_can_be_started_now_with_the_schedules_input(
    system: System, client: httpx2.AsyncClient
) -> None:
    response = await client.post(f"{API}/schedules/yearly/trigger")

    assert response.status_code == 201
    job = await system.ended(response.json()["job_id"])
    assert (job["status"], job["input_data"]) == ("completed", {"n": 1, "m": 2})


async def test_a_run_can_be_started_now_with_another_input(
    system: System, client: httpx2.AsyncClient
) -> None:
    response = await client.post(f"{API}/schedules/yearly/trigger", json={"input_data": {"n": 5}})

    assert (await system.ended(response.json()["job_id"]))["input_data"] == {"n": 5}


async def test_a_trigger_with_a_bad_input_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(f"{API}/schedules/yearly/trigger", json={"input_data": {"n": "x"}})

    assert response.status_code == 422


async def test_a_trigger_with_a_key_starts_one_run(client: httpx2.AsyncClient) -> None:
    first = await client.post(f"{API}/schedules/yearly/trigger", json={"idempotency_key": "k"})

    again = await client.post(f"{API}/schedules/yearly/trigger", json={"idempotency_key": "k"})
    other = await client.post(
        f"{API}/schedules/yearly/trigger", json={"idempotency_key": "k", "input_data": {"n": 9}}
    )

    assert [first.status_code, again.status_code, other.status_code] == [201, 200, 409]
    assert first.json() == again.json() | {"status": first.json()["status"]}


async def test_a_trigger_key_is_independent_of_new_defaults(
    system: System, client: httpx2.AsyncClient
) -> None:
    first = await client.post(f"{API}/schedules/yearly/trigger", json={"idempotency_key": "k"})
    newer = {"workflow_id": "yearly", "schedule": {"cron": "0 0 1 1 *", "input": {"n": 77}}}
    await client.post(f"{API}/workflows", json={**newer, "nodes": {"a": {"handler": "echo"}}})

    again = await client.post(f"{API}/schedules/yearly/trigger", json={"idempotency_key": "k"})

    assert (again.status_code, again.json()["job_id"]) == (200, first.json()["job_id"])


def yesterday() -> tuple[str, str]:
    """Return three hours of yesterday, which have three slots of the hourly workflow."""
    start = (datetime.now(UTC) - timedelta(days=1)).replace(
        hour=6, minute=30, second=0, microsecond=0
    )
    return f"{start:%Y-%m-%dT%H:%M:%SZ}", f"{start + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"


async def test_a_past_range_is_backfilled(system: System, client: httpx2.AsyncClient) -> None:
    since, until = yesterday()

    response = await client.post(
        f"{API}/schedules/hourly/backfill", json={"since": since, "until": until}
    )

    assert response.status_code == 200
    slots = response.json()["slots"]
    assert [slot[11:16] for slot in slots] == ["06:30", "07:30", "08:30"]
    page = await found(
        system,
        "/runs",
        lambda page: len(page["items"]) == 3,
        workflow_id="hourly",
        state="completed",
    )
    assert [run["scheduled_at"] for run in page["items"]] == slots[::-1]
    assert {run["origin"] for run in page["items"]} == {"backfill"}


async def test_a_backfilled_range_is_not_run_again(
    system: System, client: httpx2.AsyncClient
) -> None:
    since, until = yesterday()
    body = {"since": since, "until": until}
    await client.post(f"{API}/schedules/hourly/backfill", json=body)
    await found(
        system,
        "/runs",
        lambda page: len(page["items"]) == 3,
        workflow_id="hourly",
        state="completed",
    )

    await client.post(f"{API}/schedules/hourly/backfill", json=body)
    triggered = (await client.post(f"{API}/schedules/hourly/trigger")).json()["job_id"]
    await system.ended(triggered)

    page = (await client.get(f"{API}/runs", params={"workflow_id": "hourly"})).json()
    assert sum(run["origin"] == "backfill" for run in page["items"]) == 3


async def test_a_dry_run_lists_slots_and_starts_none(
    system: System, client: httpx2.AsyncClient
) -> None:
    since, until = yesterday()
    body = {"since": since, "until": until, "dry_run": True}
    path = f"{API}/schedules/hourly/backfill"

    preview = (await client.post(path, json=body)).json()

    assert [slot[11:16] for slot in preview["slots"]] == ["06:30", "07:30", "08:30"]
    assert preview["dry_run"] is True
    page = await client.get(f"{API}/runs", params={"workflow_id": "hourly", "state": "completed"})
    assert page.json()["items"] == []
    filled = (
        await client.post(path, json={"since": preview["slots"][1], "until": preview["slots"][1]})
    ).json()
    assert filled == {
        "workflow_id": "hourly",
        "slots": [preview["slots"][1]],
        "dry_run": False,
        "left_out": {},
    }
    again = (await client.post(path, json=body)).json()
    assert again["slots"] == [preview["slots"][0], preview["slots"][2]]
    assert sum(again["left_out"].values()) == 1
    refused = await client.post(path, json={**body, "until": "2090-05-02T00:00:00Z"})
    assert refused.status_code == 409


@pytest.mark.parametrize(("since", "until", "status"), [
    ("2026-05-02T00:00:00Z", "2026-05-01T00:00:00Z", 422),
    ("2026-05-01", "2026-05-02T00:00:00Z", 422),
    ("2026-13-01T00:00:00Z", "2026-05-02T00:00:00Z", 422),
    ("1990-05-01T00:00:00Z", "2026-05-02T00:00:00Z", 409),
    ("2090-05-01T00:00:00Z", "2090-05-02T00:00:00Z", 409),
])  # fmt: skip
async def test_an_invalid_range_is_refused(
    client: httpx2.AsyncClient, since: str, until: str, status: int
) -> None:
    response = await client.post(
        f"{API}/schedules/hourly/backfill", json={"since": since, "until": until}
    )

    assert response.status_code == status, response.text


async def test_the_events_of_a_schedule_are_listed(
    system: System, client: httpx2.AsyncClient
) -> None:
    await found(
        system, "/runs", lambda page: bool(page["items"]), workflow_id="hourly", state="pre_run"
    )
    await client.post(f"{API}/schedules/hourly/pause")

    events = await found(system, "/schedules/hourly/events", lambda page: bool(page["items"]))

    assert [event["event_type"] for event in events["items"]] == ["schedule_stopped"]
    assert events["items"][0]["data"]["planned"].endswith("Z")
    assert (await client.get(f"{API}/schedules/none/events")).status_code == 404


async def test_a_deploy_warns_about_the_past_and_about_cycles(client: httpx2.AsyncClient) -> None:
    def trigger(name: str, other: str) -> dict[str, object]:
        action = {"type": "trigger_job", "parameters": {"workflow_id": other}}
        nodes = {"a": {"handler": "echo"}}
        return {"workflow_id": name, "nodes": nodes, "actions": {"on_success": action}}

    past = {**trigger("ping", "pong"), "schedule": {"at": "2020-01-01T00:00:00Z"}}
    first = (await client.post(f"{API}/workflows", json=past)).json()
    second = (await client.post(f"{API}/workflows", json=trigger("pong", "ping"))).json()

    assert ["in the past" in one["message"] for one in first["warnings"]] == [True]
    [cycle] = second["warnings"]
    assert "pong → ping → pong" in cycle["message"]
