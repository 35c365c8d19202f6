"""Schedules: listed, shown with the times to come, paused, resumed, started now and backfilled."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.pagination import cut, place_of
from windlass.api.policy import Policy
from windlass.api.problems import invalid
from windlass.api.requests import Cursor, Limit, body_of, id_of, instant_of, no_query, query_of, shown
from windlass.api.routes.submits import conflict, digest_of
from windlass.api.state import ApiState
from windlass.core.errors import ScheduleNotFound
from windlass.core.runs.rows import ScheduleRow
from windlass.ports.control import Submit
from windlass.ports.runs import RunStore, ScheduleFilter
from windlass.spec import check_input
from windlass.views.runs import next_times, schedule_shape, slots_of
from windlass.wire import Backfilled, BackfillRequest, NextTimes, Page, Schedule, Submitted, TriggerRequest, instant

TAG = "schedules"
PAGE = 50
TIMES = 5
TIMES_MAX = 1_000

_SCHEDULE = {
    "workflow_id": "nightly", "version": 3, "enabled": True, "paused": False, "timezone": "Europe/Paris",
    "cron": "30 2 * * *", "every_seconds": None, "at": None, "jitter_seconds": 30.0,
    "next_at": "2026-05-02T00:30:00.000000Z", "slot_at": "2026-05-01T00:30:00.000000Z",
    "changed_at": "2026-04-28T09:12:44.120000Z", "input_data": {"day": "yesterday"},
}  # fmt: skip
_NEXT = {
    "workflow_id": "nightly", "timezone": "Europe/Paris",
    "times": ["2026-05-02T00:30:00.000000Z"], "local_times": ["2026-05-02T02:30:00+02:00"],
}  # fmt: skip

_trigger = msgspec.json.Decoder(TriggerRequest)
_backfill = msgspec.json.Decoder(BackfillRequest)


class ListQuery(Struct, forbid_unknown_fields=True):
    """A part of a list."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


class NextQuery(Struct, forbid_unknown_fields=True):
    """How many slots to come are wanted."""

    count: Annotated[int, Meta(ge=1, le=TIMES_MAX)] = TIMES


class Schedules:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    @property
    def _store(self) -> RunStore:
        return self._state.store.runs

    async def list(self, request: Request) -> Response:
        """Schedules by workflow id."""
        query = query_of(request, ListQuery)
        after: str | None = None if query.cursor is UNSET else place_of(query.cursor, str)
        found = await self._store.schedules(ScheduleFilter(after, query.limit + 1))
        page, following = cut(found, query.limit, lambda row: row.workflow_id)
        items: list[Schedule] = []
        for row in page:
            # Its workflow may have been deleted, or deployed without a schedule, a moment ago.
            try:
                items.append(await self._shape(row))
            except ScheduleNotFound:
                continue
        return answer(Page(items, following))

    async def show(self, request: Request) -> Response:
        """One schedule."""
        no_query(request)
        return answer(await self._shape(await self._store.schedule(id_of(request, "workflow_id"))))

    async def next(self, request: Request) -> Response:
        """The slots to come."""
        query = query_of(request, NextQuery)
        row = await self._store.schedule(id_of(request, "workflow_id"))
        slots = await slots_of(self._state.control.plan, row)
        return answer(next_times(row.workflow_id, slots, self._state.clock.now(), query.count))

    async def pause(self, request: Request) -> Response:
        """Let a schedule start no further runs."""
        no_query(request)
        row = await self._store.schedule(id_of(request, "workflow_id"))
        return answer(await self._shape(await self._state.control.runs.pause(row.workflow_id)))

    async def resume(self, request: Request) -> Response:
        """Let a schedule go on with the next slot."""
        no_query(request)
        row = await self._store.schedule(id_of(request, "workflow_id"))
        return answer(await self._shape(await self._state.control.runs.resume(row.workflow_id)))

    async def trigger(self, request: Request) -> Response:
        """Start a run now."""
        no_query(request)
        wanted = await body_of(request, _trigger, TriggerRequest())
        row = await self._store.schedule(id_of(request, "workflow_id"))
        slots = await slots_of(self._state.control.plan, row)
        plan = await self._state.control.plan(row.workflow_id, row.version)
        given = slots.input_data if wanted.input_data is None else wanted.input_data
        checked = check_input(plan.input_schema, given)
        key = wanted.idempotency_key
        digest = None if key is None else digest_of((row.workflow_id, wanted.input_data))
        made = Submit(row.workflow_id, row.version, checked, idempotency_key=key, request_digest=digest)
        submission = (await self._state.control.submit_all([made]))[0]
        if submission.conflict:
            raise conflict(submission)
        job = submission.job
        location = {"location": f"/api/v1/jobs/{job.spec.job_id}"}
        return answer(Submitted(job.spec.job_id, job.state.status), 201 if submission.created else 200, location)

    async def backfill(self, request: Request) -> Response:
        """Run the slots of a range in the past that have no run."""
        no_query(request)
        wanted = await body_of(request, _backfill)
        workflow_id = (await self._store.schedule(id_of(request, "workflow_id"))).workflow_id
        since, until = instant_of(wanted.since, "since"), instant_of(wanted.until, "until")
        if until < since:
            raise invalid("until", f"{shown(wanted.until)} is before {shown(wanted.since)}", "give the earlier first")
        runs = self._state.control.runs
        fill = runs.unfilled if wanted.dry_run else runs.backfill
        # The range begins with its first instant; the engine counts from after one.
        slots = await fill(workflow_id, max(0, since - 1), until)
        return answer(Backfilled(workflow_id, [instant(slot) or "" for slot in slots], wanted.dry_run))

    async def _shape(self, row: ScheduleRow) -> Schedule:
        slots = await slots_of(self._state.control.plan, row)
        return schedule_shape(row, slots, self._state.clock.now())


def router(state: ApiState) -> APIRouter:
    """`/schedules` and what is below it."""
    routes = APIRouter()
    calls = Schedules(state)
    one = "/schedules/{workflow_id}"
    declare(routes, "GET", "/schedules", calls.list, Operation(
        policy=Policy.READ, tag=TAG, summary="List schedules by workflow id, with the next slot of each",
        query=ListQuery, answers={200: Page[Schedule]}, refusals=(422,),
    ))  # fmt: skip
    declare(routes, "GET", one, calls.show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show the schedule of a workflow",
        answers={200: Schedule}, refusals=(404, 422), answer_example=_SCHEDULE,
    ))  # fmt: skip
    declare(routes, "GET", one + "/next", calls.next, Operation(
        policy=Policy.READ, tag=TAG, summary="Show the slots to come, in UTC and on the schedule's clock",
        query=NextQuery, answers={200: NextTimes}, refusals=(404, 422), answer_example=_NEXT,
    ))  # fmt: skip
    declare(routes, "POST", one + "/pause", calls.pause, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Let a schedule start no further runs; those under way go on",
        answers={200: Schedule}, refusals=(404, 422, 503),
    ))  # fmt: skip
    declare(routes, "POST", one + "/resume", calls.resume, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Let a paused schedule go on with the next slot",
        answers={200: Schedule}, refusals=(404, 422, 503),
    ))  # fmt: skip
    declare(routes, "POST", one + "/trigger", calls.trigger, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Start a run now, with the schedule's input unless another is given",
        body=TriggerRequest, body_required=False, example={"input_data": {"message": "now"}},
        answers={200: Submitted, 201: Submitted}, refusals=(404, 409, 422, 503),
    ))  # fmt: skip
    declare(routes, "POST", one + "/backfill", calls.backfill, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Run the slots of a range in the past that have no run yet",
        body=BackfillRequest,
        example={"since": "2026-05-01T00:00:00Z", "until": "2026-05-02T00:00:00Z", "dry_run": True},
        answers={200: Backfilled}, refusals=(404, 409, 422, 503),
    ))  # fmt: skip
    return routes
