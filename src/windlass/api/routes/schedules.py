"""Routes of schedules."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.problems import invalid
from windlass.api.requests import (
    Cursor,
    Limit,
    path_id,
    quoted,
    read_json,
    read_query,
    reject_query,
)
from windlass.api.routes.runs import RunEventsQuery
from windlass.api.routes.submits import submitted_response
from windlass.api.state import ApiState
from windlass.core.instants import parse_instant
from windlass.core.runs.rows import ScheduleRow
from windlass.ports.store.runs import RunStore
from windlass.views.pagination import schedule_event_page, schedule_page
from windlass.views.runs import next_slots_view, schedule_of, schedule_view
from windlass.wire import (
    BackfillRequest,
    BackfillView,
    NextSlotsView,
    Page,
    RunEventView,
    ScheduleView,
    SubmitRequest,
    SubmittedView,
    TriggerRequest,
    instant,
)

TAG = "schedules"
PAGE = 50
NEXT_SLOTS = 5
NEXT_SLOTS_MAX = 1_000

_trigger = msgspec.json.Decoder(TriggerRequest)
_backfill = msgspec.json.Decoder(BackfillRequest)


class SchedulesQuery(Struct, forbid_unknown_fields=True):
    """The page of a list of schedules."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


class NextSlotsQuery(Struct, forbid_unknown_fields=True):
    """The number of slots to list."""

    count: Annotated[int, Meta(ge=1, le=NEXT_SLOTS_MAX)] = NEXT_SLOTS


class ScheduleRoutes:
    """Handlers of schedules."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    @property
    def _store(self) -> RunStore:
        return self._state.store.runs

    async def list(self, request: Request) -> Response:
        """List schedules by workflow id."""
        query = read_query(request, SchedulesQuery)
        page = await schedule_page(
            self._store,
            self._state.control.plan,
            limit=query.limit,
            cursor=given(query.cursor),
            now=self._state.clock.wall(),
        )
        return json_response(page)

    async def show(self, request: Request) -> Response:
        """Show a schedule."""
        reject_query(request)
        return json_response(await self._view(await self._row(request)))

    async def next_slots(self, request: Request) -> Response:
        """List the next slots."""
        query = read_query(request, NextSlotsQuery)
        row = await self._row(request)
        schedule = await schedule_of(self._state.control.plan, row)
        return json_response(
            next_slots_view(row.workflow_id, schedule, self._state.clock.wall(), query.count)
        )

    async def pause(self, request: Request) -> Response:
        """Pause a schedule."""
        reject_query(request)
        row = await self._row(request)
        return json_response(
            await self._view(await self._state.control.runs.pause(row.workflow_id))
        )

    async def resume(self, request: Request) -> Response:
        """Resume a schedule with its next slot."""
        reject_query(request)
        row = await self._row(request)
        return json_response(
            await self._view(await self._state.control.runs.resume(row.workflow_id))
        )

    async def trigger(self, request: Request) -> Response:
        """Start a run now."""
        reject_query(request)
        body = await read_json(request, _trigger, TriggerRequest())
        row = await self._row(request)
        schedule = await schedule_of(self._state.control.plan, row)
        input_data = schedule.input_data if body.input_data is None else body.input_data
        submit = SubmitRequest(row.workflow_id, input_data, idempotency_key=body.idempotency_key)
        # A schedule with a new input does not make the same request another one.
        return submitted_response(
            await self._state.control.jobs.submit(submit, (row.workflow_id, body.input_data))
        )

    async def backfill(self, request: Request) -> Response:
        """Run the past slots of a range that have no run, or whose run was cancelled or ended without a job."""
        reject_query(request)
        body = await read_json(request, _backfill)
        workflow_id = (await self._row(request)).workflow_id
        since, until = parse_instant(body.since, "since"), parse_instant(body.until, "until")
        if until < since:
            message = f"empty range: {quoted(body.until)} is before {quoted(body.since)}"
            raise invalid("until", message, "swap since and until")
        runs = self._state.control.runs
        fill = runs.unfilled if body.dry_run else runs.backfill
        # `since` is included; the engine excludes the start of the range.
        found = await fill(workflow_id, max(0, since - 1), until)
        slots = [instant(slot) for slot in found.slots]
        return json_response(BackfillView(workflow_id, slots, body.dry_run, dict(found.left_out)))

    async def events(self, request: Request) -> Response:
        """List the events of a schedule in order."""
        query = read_query(request, RunEventsQuery)
        workflow_id = path_id(request, "workflow_id")
        return json_response(
            await schedule_event_page(
                self._store, workflow_id, after=query.after, limit=query.limit
            )
        )

    async def _row(self, request: Request) -> ScheduleRow:
        return await self._store.schedule(path_id(request, "workflow_id"))

    async def _view(self, row: ScheduleRow) -> ScheduleView:
        schedule = await schedule_of(self._state.control.plan, row)
        return schedule_view(row, schedule, self._state.clock.wall())


def routes(state: ApiState) -> list[Route]:
    """Return the routes of schedules."""
    handlers = ScheduleRoutes(state)
    return [
        route("GET", "/api/v1/schedules", handlers.list, Operation(
            policy=Policy.READ, tag=TAG, summary="List schedules by workflow id, with their next slots",
            query=SchedulesQuery, responses={200: Page[ScheduleView]}, errors=(422,),
        )),
        route("GET", "/api/v1/schedules/{workflow_id}", handlers.show, Operation(
            policy=Policy.READ, tag=TAG, summary="Show the schedule of a workflow",
            responses={200: ScheduleView}, errors=(404, 422), response_example=_SCHEDULE,
        )),
        route("GET", "/api/v1/schedules/{workflow_id}/next", handlers.next_slots, Operation(
            policy=Policy.READ, tag=TAG, summary="List the next slots, in UTC and in the schedule's time zone",
            query=NextSlotsQuery, responses={200: NextSlotsView}, errors=(404, 422), response_example=_NEXT_SLOTS,
        )),
        route("GET", "/api/v1/schedules/{workflow_id}/events", handlers.events, Operation(
            policy=Policy.READ, tag=TAG, summary="List the events of a schedule, with the slots it missed",
            query=RunEventsQuery, responses={200: Page[RunEventView]}, errors=(404, 422),
        )),
        route("POST", "/api/v1/schedules/{workflow_id}/pause", handlers.pause, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Pause a schedule; its runs in progress continue",
            responses={200: ScheduleView}, errors=(404, 422, 503),
        )),
        route("POST", "/api/v1/schedules/{workflow_id}/resume", handlers.resume, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Resume a schedule with its next slot",
            responses={200: ScheduleView}, errors=(404, 422, 503),
        )),
        route("POST", "/api/v1/schedules/{workflow_id}/trigger", handlers.trigger, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Start a run now; the input defaults to that of the schedule",
            body=TriggerRequest, body_required=False, request_example={"input_data": {"message": "now"}},
            responses={200: SubmittedView, 201: SubmittedView}, errors=(404, 409, 422, 503),
        )),
        route("POST", "/api/v1/schedules/{workflow_id}/backfill", handlers.backfill, Operation(
            policy=Policy.OPERATE, tag=TAG,
            summary="Run the past slots of a range that have no run, or whose run was cancelled or ended without a job",
            body=BackfillRequest,
            request_example={"since": "2026-05-01T00:00:00Z", "until": "2026-05-02T00:00:00Z", "dry_run": True},
            responses={200: BackfillView}, errors=(404, 409, 422, 503),
        )),
    ]  # fmt: skip


_SCHEDULE = {
    "workflow_id": "nightly",
    "version": 3,
    "enabled": True,
    "paused": False,
    "timezone": "Europe/Paris",
    "cron": "30 2 * * *",
    "every_seconds": None,
    "at": None,
    "jitter_seconds": 30.0,
    "next_at": "2026-05-02T00:30:00.000000Z",
    "slot_at": "2026-05-01T00:30:00.000000Z",
    "changed_at": "2026-04-28T09:12:44.120000Z",
    "input_data": {"day": "yesterday"},
}
_NEXT_SLOTS = {
    "workflow_id": "nightly",
    "timezone": "Europe/Paris",
    "times": ["2026-05-02T00:30:00.000000Z"],
    "local_times": ["2026-05-02T02:30:00+02:00"],
}
