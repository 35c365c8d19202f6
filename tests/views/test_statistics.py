"""Statistics: durations, critical path, nodes and activity."""

from collections.abc import Sequence

import pytest

from windlass.core.plan import Plan
from windlass.ports.store.overview import JobBrief, NodeSpan
from windlass.spec import compile_plan, read_definition
from windlass.views.statistics import (
    BUCKETS_MAX,
    CriticalPath,
    activity_buckets,
    bucket_seconds,
    critical_path,
    duration_percentiles,
    median_job,
    node_statistics,
)
from windlass.wire import DurationsView

T0 = 1_700_000_000_000_000
SECOND = 1_000_000
DIAMOND = """
workflow_id: diamond
nodes:
  start: {type: start, next: [first]}
  first: {handler: echo}
  left: {handler: echo, dependencies: [first]}
  right: {handler: echo, dependencies: [first]}
  join: {handler: echo, dependencies: [left, right]}
  end: {type: end, dependencies: [join]}
"""


def plan(text: str = DIAMOND) -> Plan:
    return compile_plan(read_definition(text)[0], 1)


def job(
    job_id: str, status: str = "completed", start: float | None = 0.0, end: float | None = 1.0
) -> JobBrief:
    started = None if start is None else T0 + round(start * SECOND)
    ended = None if end is None else T0 + round(end * SECOND)
    return JobBrief(job_id, "diamond", 1, status, T0, started, ended)


def span(
    node_id: str,
    start: float | None,
    end: float | None,
    status: str = "completed",
    *,
    job_id: str = "j",
    attempt: int = 1,
) -> NodeSpan:
    started = None if start is None else T0 + round(start * SECOND)
    ended = None if end is None else T0 + round(end * SECOND)
    return NodeSpan(job_id, node_id, status, attempt, started, ended)


# Durations


def test_nothing_has_no_durations() -> None:
    assert duration_percentiles([]) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([3.0], DurationsView(3.0, 3.0, 3.0)),
        ([2.0, 1.0], DurationsView(1.0, 2.0, 2.0)),
        ([float(n) for n in range(100, 0, -1)], DurationsView(50.0, 95.0, 100.0)),
    ],
)
def test_percentiles_are_measured_values(given: Sequence[float], expected: DurationsView) -> None:
    assert duration_percentiles(given) == expected


def test_the_median_job_is_of_the_completed_ones() -> None:
    jobs = [
        job("slow", end=9),
        job("quick", end=1),
        job("middle", end=4),
        job("broken", "failed", end=2),
    ]

    assert median_job(jobs) == jobs[2]
    assert median_job([job("a", "failed", end=2), job("b", "cancelled", start=None)]) == job(
        "a", "failed", end=2
    )
    assert median_job([job("b", "cancelled", start=None)]) is None


# The critical path


def test_the_critical_path_follows_the_dependency_that_finished_last() -> None:
    spans = [
        span("start", None, 0.0), span("first", 0.0, 1.0), span("left", 1.0, 2.0), span("right", 1.0, 7.0),
        span("join", 7.0, 10.0), span("end", None, 10.0),
    ]  # fmt: skip

    path = critical_path(plan(), spans, T0)

    assert path.node_ids == ["first", "right", "join"]
    assert path.shares == pytest.approx({"first": 0.1, "right": 0.6, "join": 0.3})


def test_a_failed_job_has_the_path_to_its_last_node() -> None:
    spans = [
        span("first", 0.0, 1.0),
        span("left", 1.0, 4.0, "failed"),
        span("right", 1.0, None, "cancelled"),
    ]

    assert critical_path(plan(), spans, T0).node_ids == ["first", "left"]


def test_no_nodes_have_no_critical_path() -> None:
    assert critical_path(plan(), [], T0) == CriticalPath([], {})


def test_a_critical_path_without_duration_has_no_shares() -> None:
    assert critical_path(plan(), [span("first", 0.0, 0.0)], T0).shares == {"first": 0.0}


# Nodes


def test_node_statistics_are_in_the_order_of_the_plan() -> None:
    spans = [
        span("first", 0, 1), span("first", 0, 3, "failed", job_id="k"), span("left", 1, 2, attempt=3),
        span("start", None, 0), span("right", None, 2, "skipped"),
    ]  # fmt: skip

    found = node_statistics(
        plan(), spans, CriticalPath(["first", "left"], {"first": 0.25, "left": 0.75})
    )

    assert [
        (one.node_id, one.runs, one.failed, one.retried, one.share_of_critical_path)
        for one in found
    ] == [
        ("first", 2, 1, 0, 0.25),
        ("left", 1, 0, 1, 0.75),
        ("right", 0, 0, 0, 0.0),
        ("join", 0, 0, 0, 0.0),
    ]
    assert [one.duration_seconds for one in found[:3]] == [
        DurationsView(1.0, 3.0, 3.0),
        DurationsView(1.0, 1.0, 1.0),
        None,
    ]


def test_nodes_of_earlier_versions_are_last() -> None:
    found = node_statistics(
        plan(), [span("before", 0, 2), span("begin", None, 0)], CriticalPath([], {})
    )

    assert [one.node_id for one in found][-2:] == ["join", "before"]


# Charts


@pytest.mark.parametrize(
    ("minutes", "step"), [(1, 1), (2, 1), (3, 2), (60, 30), (61, 60), (1_440, 720)]
)
def test_a_chart_has_as_many_intervals_as_allowed(minutes: int, step: int) -> None:
    assert bucket_seconds(minutes * 60) == step
    assert minutes * 60 <= step * BUCKETS_MAX


def test_jobs_are_counted_in_their_interval() -> None:
    jobs = [
        JobBrief("a", "w", 1, "completed", T0, T0, T0 + 12 * SECOND),
        JobBrief("b", "w", 1, "failed", T0 + 5 * SECOND, T0 + 6 * SECOND, T0 + 14 * SECOND),
        JobBrief("c", "w", 1, "cancelled", T0 + 19 * SECOND, T0 + 19 * SECOND, T0 + 25 * SECOND),
        JobBrief("d", "w", 1, "running", T0 + 29 * SECOND, T0 + 29 * SECOND),
        JobBrief("earlier", "w", 1, "completed", T0 - SECOND, T0 - SECOND, T0),
        JobBrief("later", "w", 1, "completed", T0, T0, T0 + 30 * SECOND),
    ]

    first, second, third = activity_buckets(jobs, T0, 10, 3)

    assert (first.at, second.at) == ("2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:30.000000Z")
    assert (first.submitted, first.completed, first.p50_seconds, first.p95_seconds) == (
        3,
        1,
        1.0,
        1.0,
    )
    assert (second.submitted, second.completed, second.failed) == (1, 1, 1)
    assert (second.p50_seconds, second.p95_seconds) == (8.0, 12.0)
    assert (third.submitted, third.cancelled, third.completed, third.p50_seconds) == (1, 1, 0, None)


def test_empty_intervals_are_included() -> None:
    found = activity_buckets([], T0, 5, 12)

    assert len(found) == 12
    assert {(one.submitted, one.completed, one.p50_seconds) for one in found} == {(0, 0, None)}


def test_the_duration_of_a_node_covers_all_its_attempts() -> None:
    spans = [
        NodeSpan("j", "first", "completed", 4, T0 + SECOND, T0 + SECOND, first_started_at=T0),
    ]

    first = node_statistics(plan(), spans, CriticalPath([], {}))[0]

    assert first.duration_seconds == DurationsView(p50=1.0, p95=1.0, max=1.0)
