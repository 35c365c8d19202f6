"""Runs: listed, shown with their story, stopped."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.pagination import cut, place_of
from windlass.api.policy import Policy
from windlass.api.requests import RUN_ID, Cursor, Id, body_of, no_query, query_of, text_of_path
from windlass.api.state import ApiState
from windlass.core.runs.states import RunState
from windlass.ports.store.runs import RunFilter, RunStore
from windlass.views.runs import run_shape
from windlass.wire import CancelRequest, Page, Run

TAG = "runs"
PAGE = 50
PAGE_MAX = 100

_RUN = {
    "run_id": "nightly:2026-05-01T00:30:00Z", "workflow_id": "nightly", "version": 3,
    "scheduled_at": "2026-05-01T00:30:00.000000Z", "state": "completed", "previous_state": "terminating",
    "job_id": "1m7gjrzmd8447yh6bp63mp70-0d2db8f0", "attempt": 0,
    "transitions": [{"state": "pre_run", "at": "2026-04-30T00:30:00.004000Z"},
                    {"state": "pending", "at": "2026-05-01T00:30:00.003000Z"}],
    "violations": [], "metrics": {"execution_seconds": 12.5, "success": True}, "origin": "schedule",
    "created_at": "2026-04-30T00:30:00.004000Z", "completed_at": "2026-05-01T00:30:12.600000Z",
    "reason": None, "skipped": False,
}  # fmt: skip

_cancel = msgspec.json.Decoder(CancelRequest)


class ListQuery(Struct, forbid_unknown_fields=True):
    """Which runs a list shows."""

    workflow_id: Id | UnsetType = UNSET
    state: RunState | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE


class Runs:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    @property
    def _store(self) -> RunStore:
        return self._state.store.runs

    async def list(self, request: Request) -> Response:
        """Runs, newest slot first."""
        query = query_of(request, ListQuery)
        before: tuple[int, str] | None = None if query.cursor is UNSET else place_of(query.cursor, tuple[int, str])
        wanted = RunFilter(query.workflow_id or None, query.state or None, before, query.limit + 1)
        found = await self._store.list(wanted)
        page, after = cut(found, query.limit, lambda row: (row.scheduled_at, row.run_id))
        return answer(Page([run_shape(row) for row in page], after))

    async def show(self, request: Request) -> Response:
        """One run."""
        no_query(request)
        return answer(run_shape(await self._store.get(text_of_path(request, "run_id", RUN_ID))))

    async def cancel(self, request: Request) -> Response:
        """Stop a run."""
        no_query(request)
        wanted = await body_of(request, _cancel, CancelRequest())
        run_id = (await self._store.get(text_of_path(request, "run_id", RUN_ID))).run_id
        await self._state.control.runs.cancel(run_id, wanted.reason)
        return answer(run_shape(await self._store.get(run_id)))


def router(state: ApiState) -> APIRouter:
    """`/runs` and what is below it."""
    routes = APIRouter()
    calls = Runs(state)
    one = "/runs/{run_id}"
    declare(routes, "GET", "/runs", calls.list, Operation(
        policy=Policy.READ, tag=TAG, summary="List runs, newest slot first",
        query=ListQuery, answers={200: Page[Run]}, refusals=(422,),
    ))  # fmt: skip
    declare(routes, "GET", one, calls.show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show a run: its states, violations and metrics",
        answers={200: Run}, refusals=(404, 422), answer_example=_RUN,
    ))  # fmt: skip
    declare(routes, "POST", one + "/cancel", calls.cancel, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Stop a run and its job; one that has ended stays as it is",
        body=CancelRequest, body_required=False, example={"reason": "not needed any more"},
        answers={200: Run}, refusals=(404, 422, 503),
    ))  # fmt: skip
    return routes
