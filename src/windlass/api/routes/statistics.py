"""Figures across jobs: the statistics of a workflow, and the activity of the last minutes."""

import asyncio
from typing import Annotated

from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import id_of, query_of
from windlass.api.state import ApiState
from windlass.views.statistics import (
    MICROSECONDS,
    buckets_of,
    critical_path,
    durations_of,
    median_job,
    node_statistics,
    seconds_of,
    step_for,
)
from windlass.wire import Activity, Version, WorkflowStatistics

JOBS = 50
JOBS_MAX = 200
# Of all nodes of the jobs together: jobs with many nodes count for fewer.
NODE_ROWS_MAX = 50_000
# Jobs of a workflow that are looked at to find those that have ended.
LOOKED_AT_MAX = 10_000
MINUTES = 60
MINUTES_MAX = 1_440
ACTIVE_MAX = 50_000
UNFINISHED_MAX = 100_000

_DURATIONS = {"p50": 12.5, "p95": 31.0, "max": 44.2}
_STATISTICS = {
    "workflow_id": "nightly", "jobs": 50, "completed": 47, "failed": 2, "cancelled": 1, "duration_seconds": _DURATIONS,
    "nodes": [{"node_id": "report", "runs": 50, "failed": 2, "retried": 4, "duration_seconds": _DURATIONS,
               "share_of_critical_path": 1.0}],
    "critical_path": ["report"],
}  # fmt: skip
_ACTIVITY = {
    "bucket_seconds": 30,
    "buckets": [{"at": "2026-01-31T08:00:00.000000Z", "submitted": 12, "completed": 10, "failed": 1, "cancelled": 0,
                 "p50_seconds": 0.8, "p95_seconds": 2.5}],
    "unfinished": 3, "truncated": False,
}  # fmt: skip


class StatisticsQuery(Struct, forbid_unknown_fields=True):
    """Over how many of the last jobs, and of which version."""

    jobs: Annotated[int, Meta(ge=1, le=JOBS_MAX)] = JOBS
    version: Version | UnsetType = UNSET


class ActivityQuery(Struct, forbid_unknown_fields=True):
    """How far back."""

    minutes: Annotated[int, Meta(ge=1, le=MINUTES_MAX)] = MINUTES


class Figures:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def statistics(self, request: Request) -> Response:
        """What the last jobs of a workflow tell."""
        query = query_of(request, StatisticsQuery)
        overview, control = self._state.store.overview, self._state.control
        version = None if query.version is UNSET else query.version
        stored = await self._state.store.workflows.get(id_of(request, "workflow_id"), version)
        jobs = await overview.ended_jobs(stored.workflow_id, version, query.jobs, LOOKED_AT_MAX)
        plan = await control.plan(stored.workflow_id, jobs[0].version if jobs else stored.version)
        jobs = jobs[: max(1, NODE_ROWS_MAX // max(1, len(plan.nodes)))]
        spans = await overview.node_spans([job.job_id for job in jobs], NODE_ROWS_MAX) if jobs else ()
        median = median_job(jobs)
        of_median = plan if median is None else await control.plan(median.workflow_id, median.version)
        its_spans = [] if median is None else [span for span in spans if span.job_id == median.job_id]
        path = critical_path(of_median, its_spans, 0 if median is None else median.started_at or 0)
        return answer(
            WorkflowStatistics(
                workflow_id=stored.workflow_id,
                jobs=len(jobs),
                completed=sum(job.status == "completed" for job in jobs),
                failed=sum(job.status == "failed" for job in jobs),
                cancelled=sum(job.status == "cancelled" for job in jobs),
                duration_seconds=durations_of(seconds for job in jobs if (seconds := seconds_of(job)) is not None),
                nodes=node_statistics(plan, spans, path),
                critical_path=path.node_ids,
            )
        )

    async def activity(self, request: Request) -> Response:
        """What came and what ended lately."""
        query = query_of(request, ActivityQuery)
        overview = self._state.store.overview
        step = step_for(query.minutes * 60)
        count = -(-query.minutes * 60 // step)
        # Steps begin where a clock's do, so that a chart does not shift by a second each time it is drawn.
        last = self._state.clock.now() // (step * MICROSECONDS)
        first_at = (last - count + 1) * step * MICROSECONDS
        jobs = await overview.active_jobs(first_at, ACTIVE_MAX + 1)
        # Tens of thousands of jobs take a while, in which the loop has other things to do.
        buckets = await asyncio.to_thread(buckets_of, jobs[:ACTIVE_MAX], first_at, step, count)
        unfinished = await overview.unfinished_count(UNFINISHED_MAX)
        return answer(Activity(step, buckets, unfinished, len(jobs) > ACTIVE_MAX))


def router(state: ApiState) -> APIRouter:
    """`/workflows/{workflow_id}/statistics` and `/activity`."""
    routes = APIRouter()
    calls = Figures(state)
    declare(routes, "GET", "/workflows/{workflow_id}/statistics", calls.statistics, Operation(
        policy=Policy.READ, tag="workflows", summary="What the last jobs of a workflow tell: durations, failures, path",
        query=StatisticsQuery, answers={200: WorkflowStatistics}, refusals=(404, 422), answer_example=_STATISTICS,
    ))  # fmt: skip
    declare(routes, "GET", "/activity", calls.activity, Operation(
        policy=Policy.READ, tag="jobs", summary="How many jobs came and ended in each step of the last minutes",
        query=ActivityQuery, answers={200: Activity}, refusals=(422,), answer_example=_ACTIVITY,
    ))  # fmt: skip
    return routes
