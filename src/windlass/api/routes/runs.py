"""Routes of runs."""

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.requests import (
    RUN_ID,
    Cursor,
    Limit,
    Number,
    path_text,
    read_json,
    read_query,
    reject_query,
)
from windlass.api.state import ApiState
from windlass.core.fields import Id
from windlass.core.runs.rows import RunRow
from windlass.core.runs.states import RunState
from windlass.ports.store.runs import RunFilter, RunStore
from windlass.views.pagination import run_event_page, run_page
from windlass.views.runs import load_run_view
from windlass.wire import CancelRequest, Page, RunEventView, RunView

TAG = "runs"
PAGE = 50
EVENTS_PAGE = 500

_cancel = msgspec.json.Decoder(CancelRequest)


class RunsQuery(Struct, forbid_unknown_fields=True):
    """The filter and page of a list of runs."""

    workflow_id: Id | UnsetType = UNSET
    state: RunState | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


class RunEventsQuery(Struct, forbid_unknown_fields=True):
    """The page of a list of events of a run or a schedule."""

    after: Number = 0
    limit: Limit = EVENTS_PAGE


class RunRoutes:
    """Handlers of runs."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    @property
    def _store(self) -> RunStore:
        return self._state.store.runs

    async def list(self, request: Request) -> Response:
        """List runs, newest slot first."""
        query = read_query(request, RunsQuery)
        wanted = RunFilter(given(query.workflow_id), given(query.state), limit=query.limit)
        now = self._state.clock.now()
        return json_response(await run_page(self._store, wanted, given(query.cursor), now))

    async def show(self, request: Request) -> Response:
        """Show a run."""
        reject_query(request)
        return await self._respond(await self._row(request))

    async def events(self, request: Request) -> Response:
        """List the events of a run in order."""
        query = read_query(request, RunEventsQuery)
        run_id = path_text(request, "run_id", RUN_ID)
        return json_response(
            await run_event_page(self._store, run_id, after=query.after, limit=query.limit)
        )

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        reject_query(request)
        body = await read_json(request, _cancel, CancelRequest())
        run_id = (await self._row(request)).run_id
        is_applied = await self._state.control.runs.cancel(run_id, body.reason)
        return await self._respond(await self._store.get(run_id), 200 if is_applied else 202)

    async def _respond(self, row: RunRow, status: int = 200) -> Response:
        now = self._state.clock.now()
        return json_response(await load_run_view(self._store, row, now), status)

    async def _row(self, request: Request) -> RunRow:
        return await self._store.get(path_text(request, "run_id", RUN_ID))


def routes(state: ApiState) -> list[Route]:
    """Return the routes of runs."""
    handlers = RunRoutes(state)
    return [
        route("GET", "/api/v1/runs", handlers.list, Operation(
            policy=Policy.READ, tag=TAG, summary="List runs, newest slot first",
            query=RunsQuery, responses={200: Page[RunView]}, errors=(422,),
        )),
        route("GET", "/api/v1/runs/{run_id}", handlers.show, Operation(
            policy=Policy.READ, tag=TAG, summary="Show a run with its states, violations and metrics",
            responses={200: RunView}, errors=(404, 422), response_example=_RUN,
        )),
        route("GET", "/api/v1/runs/{run_id}/events", handlers.events, Operation(
            policy=Policy.READ, tag=TAG, summary="List the events of a run in order",
            query=RunEventsQuery, responses={200: Page[RunEventView]}, errors=(404, 422),
        )),
        route("POST", "/api/v1/runs/{run_id}/cancel", handlers.cancel, Operation(
            policy=Policy.OPERATE, tag=TAG,
            summary="Cancel a run and its job; a finished run stays as it is; 202 if it is not done yet",
            body=CancelRequest, body_required=False, request_example={"reason": "no longer needed"},
            responses={200: RunView, 202: RunView}, errors=(404, 422, 503),
        )),
    ]  # fmt: skip


_RUN = {
    "run_id": "nightly:2026-05-01T00:30:00Z",
    "workflow_id": "nightly",
    "version": 3,
    "scheduled_at": "2026-05-01T00:30:00.000000Z",
    "state": "completed",
    "previous_state": "terminating",
    "job_id": "1m7gjrzmd8447yh6bp63mp70",
    "attempt": 0,
    "transitions": [
        {"state": "pre_run", "at": "2026-04-30T00:30:00.004000Z"},
        {"state": "pending", "at": "2026-05-01T00:30:00.003000Z"},
    ],
    "violations": [],
    "metrics": {"execution_seconds": 12.5, "success": True},
    "origin": "schedule",
    "created_at": "2026-04-30T00:30:00.004000Z",
    "completed_at": "2026-05-01T00:30:12.600000Z",
    "reason": None,
    "skipped": False,
}
