"""`/metrics` in the Prometheus format."""

import re

import httpx2

from tests.api.harness import System
from windlass.api.routes.metrics import Metric, prometheus_text

DOCUMENT = {
    "workflow_id": "counted",
    "nodes": {"a": {"handler": "echo"}, "b": {"handler": "echo", "needs": ["a"]}},
}
SAMPLE = re.compile(r'windlass_[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? [-+.e0-9]+')


async def numbers(client: httpx2.AsyncClient) -> dict[str, float]:
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert [line for line in samples if not SAMPLE.fullmatch(line)] == []
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in samples)}


async def test_a_job_is_counted_with_its_tasks_and_events(
    system: System, client: httpx2.AsyncClient
) -> None:
    before = await numbers(client)

    await client.post("/api/v1/workflows", json=DOCUMENT)
    job = (await client.post("/api/v1/jobs", json={"workflow_id": "counted"})).json()
    await client.get(f"/api/v1/jobs/{job['job_id']}?wait=10s")
    after = await numbers(client)

    assert after["windlass_tasks_total"] - before["windlass_tasks_total"] == 2
    assert after['windlass_jobs_ended_total{status="completed"}'] == 1
    # All but the first event, which comes with the submit.
    assert after["windlass_events_total"] - before["windlass_events_total"] == 10
    assert after["windlass_shards"] == 1


async def test_runs_are_counted_by_workflow_and_state(
    system: System, client: httpx2.AsyncClient
) -> None:
    document = {**DOCUMENT, "workflow_id": "bound", "constraints": {"max_concurrent_runs": 1}}
    await client.post("/api/v1/workflows", json=document)
    job = (await client.post("/api/v1/jobs", json={"workflow_id": "bound"})).json()
    await client.get(f"/api/v1/jobs/{job['job_id']}?wait=10s")
    found = await numbers(client)

    assert found['windlass_runs_ended_total{workflow_id="bound",state="completed"}'] == 1
    assert found['windlass_run_seconds_total{workflow_id="bound",phase="total"}'] > 0
    assert found['windlass_run_violations_total{workflow_id="bound"}'] == 0


def test_labels_are_escaped() -> None:
    text = prometheus_text([Metric("x", "gauge", "Help.", [({"name": 'a"b\\c\nd'}, 2)])])

    assert text.splitlines()[-1] == 'windlass_x{name="a\\"b\\\\c\\nd"} 2'


def test_large_numbers_keep_all_their_digits() -> None:
    assert (
        prometheus_text([Metric("x", "counter", "Help.", [({}, 123_456_789)])]).splitlines()[-1]
        == "windlass_x 123456789"
    )
