"""Schedules, runs and deliveries through `windlass.Client`."""

import pytest

from windlass.client import Client
from windlass.core.errors import (
    DeliveryNotFound,
    IdempotencyConflict,
    InputInvalid,
    RequestRefused,
    RunNotFound,
    ScheduleNotFound,
)

YEARLY = """
workflow_id: yearly
input: {type: object, properties: {n: {type: integer}}}
schedule: {cron: "0 3 1 1 *", timezone: Europe/Paris, input: {n: 2}}
nodes: {a: {handler: echo}}
"""
TELLING = """
workflow_id: telling
nodes: {tell: {handler: webhook, params: {url: "http://127.0.0.1:1/in"}, retry: 1}}
"""


@pytest.fixture(autouse=True)
async def deployed(client: Client) -> None:
    for document in (YEARLY, TELLING):
        await client.workflows.deploy(document)


async def test_schedules_are_read(client: Client) -> None:
    listed = [schedule.workflow_id async for schedule in client.schedules.list()]
    shown = await client.schedules.get("yearly")
    times = await client.schedules.next_slots("yearly", 2)

    assert listed == ["yearly"]
    assert (shown.cron, shown.timezone) == ("0 3 1 1 *", "Europe/Paris")
    assert len(times.times) == 2


async def test_schedules_are_paused_and_resumed(client: Client) -> None:
    assert (await client.schedules.pause("yearly")).paused
    assert not (await client.schedules.resume("yearly")).paused


async def test_a_triggered_run_is_found_by_its_job(client: Client) -> None:
    job = await client.schedules.trigger("yearly", {"n": 3}, idempotency_key="k")
    await client.jobs.wait(job.job_id)

    run = await client.runs.get(f"yearly:{job.job_id}")
    page = await client.runs.page(workflow_id="yearly", limit=1)

    assert run.job_id == job.job_id
    assert len(page.items) == 1


async def test_a_finished_run_stays_as_it_is(client: Client) -> None:
    job = await client.schedules.trigger("yearly")
    await client.jobs.wait(job.job_id)

    run = await client.runs.cancel(f"yearly:{job.job_id}", "late")

    assert run.state == "completed"


async def test_error_responses_raise_windlass_errors(client: Client) -> None:
    for missing, error in (
        (client.schedules.get("nobody"), ScheduleNotFound),
        (client.runs.get("yearly:none"), RunNotFound),
        (client.deliveries.get("none"), DeliveryNotFound),
        (client.schedules.trigger("yearly", {"n": "x"}), InputInvalid),
        (
            client.schedules.backfill("yearly", "2090-01-01T00:00:00Z", "2091-02-01T00:00:00Z"),
            RequestRefused,
        ),
    ):
        with pytest.raises(error):
            await missing


async def test_a_key_with_another_request_is_a_conflict(client: Client) -> None:
    await client.schedules.trigger("yearly", {"n": 1}, idempotency_key="k")

    with pytest.raises(IdempotencyConflict):
        await client.schedules.trigger("yearly", {"n": 2}, idempotency_key="k")


async def test_deliveries_are_read_and_redelivered(client: Client) -> None:
    job = await client.jobs.submit("telling")
    await client.jobs.wait(job.job_id)
    [failed] = (await client.deliveries.page(job_id=job.job_id)).items

    again = await client.deliveries.redeliver(failed.delivery_id)

    assert (await client.deliveries.get(failed.delivery_id)).outcome == "failed"
    assert (await client.jobs.wait(again.job_id)).status == "failed"
