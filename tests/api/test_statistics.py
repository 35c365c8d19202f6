"""Routes of statistics and activity."""

from typing import Any

import pytest

from tests.api.harness import API, System
from windlass.api.routes import statistics

FAILING = """
workflow_id: failing
nodes:
  first: {handler: echo}
  second: {handler: fail, dependencies: [first], params: {message: "no", retryable: false}}
"""


async def answer(system: System, path: str, **query: Any) -> dict[str, Any]:
    response = await system.client.get(f"{API}{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_statistics_cover_the_last_jobs(system: System) -> None:
    await system.deploy()
    for _ in range(3):
        await system.ended(await system.submit())

    result = await answer(system, "/workflows/chain/statistics")

    assert {name: result[name] for name in ("workflow_id", "jobs", "completed", "failed", "cancelled")} == {
        "workflow_id": "chain", "jobs": 3, "completed": 3, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    durations = result["duration_seconds"]
    assert 0 < durations["p50"] <= durations["p95"] <= durations["max"]
    assert [(node["node_id"], node["runs"]) for node in result["nodes"]] == [
        ("first", 3),
        ("second", 3),
    ]
    assert result["critical_path"] == ["first", "second"]
    assert sum(node["share_of_critical_path"] for node in result["nodes"]) == pytest.approx(
        1.0, abs=0.001
    )


async def test_statistics_count_failures_and_apply_filters(system: System) -> None:
    await system.deploy_text(FAILING)
    for _ in range(2):
        await system.ended(await system.submit("failing"))
    await system.deploy_text(FAILING + "  third: {handler: echo, dependencies: [second]}\n")
    await system.ended(await system.submit("failing"))

    whole = await answer(system, "/workflows/failing/statistics")
    assert (whole["jobs"], whole["failed"], [node["failed"] for node in whole["nodes"]]) == (
        3,
        3,
        [0, 3, 0],
    )
    assert (await answer(system, "/workflows/failing/statistics", version=1))["jobs"] == 2
    assert (await answer(system, "/workflows/failing/statistics", jobs=1))["jobs"] == 1


async def test_a_workflow_that_never_ran_has_no_durations(system: System) -> None:
    await system.deploy()

    result = await answer(system, "/workflows/chain/statistics")

    assert (result["jobs"], result["duration_seconds"], result["critical_path"]) == (0, None, [])
    assert [node["runs"] for node in result["nodes"]] == [0, 0]


async def test_statistics_cover_fewer_jobs_with_many_nodes(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    await system.deploy()
    for _ in range(3):
        await system.ended(await system.submit())
    # The chain has four nodes.
    monkeypatch.setattr(statistics, "NODE_ROWS_MAX", 8)

    assert (await answer(system, "/workflows/chain/statistics"))["jobs"] == 2


async def test_statistics_of_an_unknown_workflow_are_not_found(system: System) -> None:
    await system.deploy()

    for path in ("nothing/statistics", "chain/statistics?version=2"):
        assert (await system.client.get(f"{API}/workflows/{path}")).status_code == 404
    assert (
        await system.client.get(f"{API}/workflows/chain/statistics?jobs=201")
    ).status_code == 422


async def test_activity_counts_submitted_and_finished_jobs(system: System) -> None:
    await system.deploy()
    await system.deploy_text(FAILING)
    for workflow_id in ("chain", "chain", "failing"):
        await system.ended(await system.submit(workflow_id))
    waiting = await system.submit("chain", scheduled_at="2999-01-01T00:00:00Z")

    result = await answer(system, "/activity")

    buckets = result["buckets"]
    assert (result["bucket_seconds"], len(buckets), result["truncated"], result["unfinished"]) == (
        30,
        120,
        False,
        1,
    )
    counts = [
        sum(one[name] for one in buckets)
        for name in ("submitted", "completed", "failed", "cancelled")
    ]
    assert counts == [4, 2, 1, 0]
    assert max(one["p95_seconds"] or 0 for one in buckets) > 0
    assert [one["at"] for one in buckets] == sorted(one["at"] for one in buckets)
    await system.client.post(f"{API}/jobs/{waiting}/cancel")
    assert (
        sum(one["cancelled"] for one in (await answer(system, "/activity", minutes=2))["buckets"])
        == 1
    )


async def test_activity_is_marked_as_truncated_with_too_many_jobs(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    await system.deploy()
    for _ in range(3):
        await system.ended(await system.submit())
    monkeypatch.setattr(statistics, "ACTIVE_MAX", 2)

    result = await answer(system, "/activity", minutes=1)

    assert (result["truncated"], sum(one["submitted"] for one in result["buckets"])) == (True, 2)


@pytest.mark.parametrize("minutes", [0, 1_441, "x"])
async def test_activity_covers_at_most_a_day(system: System, minutes: object) -> None:
    assert (await system.client.get(f"{API}/activity?minutes={minutes}")).status_code == 422
