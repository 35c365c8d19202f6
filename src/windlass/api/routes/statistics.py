"""Routes of statistics: of a workflow's last jobs, and of the activity of the last minutes."""

import asyncio
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.requests import path_id, read_query
from windlass.api.state import ApiState
from windlass.core.instants import MICROSECONDS
from windlass.views.statistics import (
    activity_buckets,
    bucket_seconds,
    critical_path,
    median_job,
    workflow_statistics,
)
from windlass.wire import ActivityView, Version, WorkflowStatisticsView

JOBS = 50
JOBS_MAX = 200
# Nodes of all jobs together; fewer jobs are considered if they have many nodes.
NODE_ROWS_MAX = 50_000
# Jobs of a workflow that are scanned for finished ones.
SCANNED_MAX = 10_000
MINUTES = 60
MINUTES_MAX = 1_440
ACTIVE_MAX = 50_000
UNFINISHED_JOBS_MAX = 100_000


class StatisticsQuery(Struct, forbid_unknown_fields=True):
    """The number of jobs to consider, and their version."""

    jobs: Annotated[int, Meta(ge=1, le=JOBS_MAX)] = JOBS
    version: Version | UnsetType = UNSET


class ActivityQuery(Struct, forbid_unknown_fields=True):
    """The length of the period."""

    minutes: Annotated[int, Meta(ge=1, le=MINUTES_MAX)] = MINUTES


class StatisticsRoutes:
    """Handlers of statistics."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def workflow(self, request: Request) -> Response:
        """Show statistics of the last finished jobs of a workflow."""
        query = read_query(request, StatisticsQuery)
        overview, control = self._state.store.overview, self._state.control
        version = given(query.version)
        stored = await self._state.store.workflows.get(path_id(request, "workflow_id"), version)
        jobs = await overview.ended_jobs(stored.workflow_id, version, query.jobs, SCANNED_MAX)
        if not jobs:
            plan = await control.plan(stored.workflow_id, stored.version)
            return json_response(workflow_statistics(plan, [], [], critical_path(plan, [], 0)))
        plan = await control.plan(stored.workflow_id, jobs[0].version)
        jobs = jobs[: max(1, NODE_ROWS_MAX // max(1, len(plan.nodes)))]
        spans = await overview.node_spans([job.job_id for job in jobs], NODE_ROWS_MAX)
        path = critical_path(plan, [], 0)
        median = median_job(jobs)
        if median is not None:
            median_plan = await control.plan(median.workflow_id, median.version)
            median_spans = [span for span in spans if span.job_id == median.job_id]
            path = critical_path(median_plan, median_spans, median.started_at or 0)
        return json_response(workflow_statistics(plan, jobs, spans, path))

    async def activity(self, request: Request) -> Response:
        """Show how many jobs were submitted and finished in each interval."""
        query = read_query(request, ActivityQuery)
        overview = self._state.store.overview
        period_seconds = query.minutes * 60
        interval = bucket_seconds(period_seconds)
        count = -(-period_seconds // interval)
        # Intervals start at multiples of their length, so that a chart does not shift each time it is drawn.
        last = self._state.clock.now() // (interval * MICROSECONDS)
        first_at = (last - count + 1) * interval * MICROSECONDS
        jobs = await overview.active_jobs(first_at, ACTIVE_MAX + 1)
        # In a thread: counting tens of thousands of jobs would block the event loop.
        buckets = await asyncio.to_thread(
            activity_buckets, jobs[:ACTIVE_MAX], first_at, interval, count
        )
        unfinished = await overview.unfinished_count(UNFINISHED_JOBS_MAX)
        return json_response(
            ActivityView(interval, buckets, unfinished, truncated=len(jobs) > ACTIVE_MAX)
        )


def routes(state: ApiState) -> list[Route]:
    """Return the routes of statistics."""
    handlers = StatisticsRoutes(state)
    return [
        route("GET", "/api/v1/workflows/{workflow_id}/statistics", handlers.workflow, Operation(
            policy=Policy.READ, tag="workflows", summary="Show durations, failures and critical path of the last jobs",
            query=StatisticsQuery, responses={200: WorkflowStatisticsView}, errors=(404, 422),
            response_example=_STATISTICS,
        )),
        route("GET", "/api/v1/activity", handlers.activity, Operation(
            policy=Policy.READ, tag="jobs", summary="Show how many jobs were submitted and finished per interval",
            query=ActivityQuery, responses={200: ActivityView}, errors=(422,), response_example=_ACTIVITY,
        )),
    ]  # fmt: skip


_DURATIONS = {"p50": 12.5, "p95": 31.0, "max": 44.2}
_STATISTICS = {
    "workflow_id": "nightly",
    "jobs": 50,
    "completed": 47,
    "failed": 2,
    "cancelled": 1,
    "duration_seconds": _DURATIONS,
    "nodes": [
        {
            "node_id": "report",
            "runs": 50,
            "failed": 2,
            "retried": 4,
            "duration_seconds": _DURATIONS,
            "share_of_critical_path": 1.0,
        }
    ],
    "critical_path": ["report"],
}
_ACTIVITY = {
    "bucket_seconds": 30,
    "buckets": [
        {
            "at": "2026-01-31T08:00:00.000000Z",
            "submitted": 12,
            "completed": 10,
            "failed": 1,
            "cancelled": 0,
            "p50_seconds": 0.8,
            "p95_seconds": 2.5,
        }
    ],
    "unfinished": 3,
    "truncated": False,
}
