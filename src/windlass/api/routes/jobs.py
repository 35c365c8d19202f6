"""Jobs: listed, shown (also once they have ended), stopped, retried and run again."""

import asyncio
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.pagination import cut, place_of
from windlass.api.policy import Policy
from windlass.api.problems import invalid
from windlass.api.requests import Cursor, Duration, Flag, Id, body_of, id_of, no_query, query_of, seconds_of
from windlass.api.state import ApiState
from windlass.ports.control import Submit
from windlass.ports.store import JobFilter
from windlass.views.job_detail import in_order, nodes_shown, result_of, values_shown
from windlass.views.jobs import has_ended, job_shape
from windlass.views.outputs import NULL, Outputs
from windlass.wire import CancelRequest, Job, Page, Submitted

TAG = "jobs"
PAGE = 50
# Inputs come with the list, and one may have a megabyte.
PAGE_MAX = 100
WAIT_SECONDS_MAX = 60.0
# More nodes than this are read page by page.
NODES_SHOWN_MAX = 10_000

# The start of an id, or a whole idempotency key.
Search = Annotated[str, Meta(pattern="^[!-~]{1,128}$", max_length=128)]

_cancel = msgspec.json.Decoder(CancelRequest)


class ListQuery(Struct, forbid_unknown_fields=True):
    """Which jobs a list shows."""

    workflow_id: Id | UnsetType = UNSET
    status: Literal["pending", "running", "completed", "failed", "cancelled"] | UnsetType = UNSET
    search: Search | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE


class ShowQuery(Struct, forbid_unknown_fields=True):
    """How long to wait for the job's end, and whether its nodes are wanted."""

    wait: Duration | UnsetType = UNSET
    nodes: Flag = "false"


class RetryQuery(Struct, forbid_unknown_fields=True):
    """The node to run again, with everything after it."""

    from_node: Id | UnsetType = field(default=UNSET, name="from")


class Jobs:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def list(self, request: Request) -> Response:
        """Jobs, newest first, without their results."""
        query = query_of(request, ListQuery)
        before: tuple[int, str] | None = None if query.cursor is UNSET else place_of(query.cursor, tuple[int, str])
        filters = (query.workflow_id or None, query.status or None)
        wanted = JobFilter(*filters, before, query.limit + 1, query.search or None)
        found = await self._state.store.jobs(wanted)
        page, after = cut(found, query.limit, lambda job: (job.spec.created_at, job.spec.job_id))
        return answer(Page([job_shape(job) for job in page], after))

    async def show(self, request: Request) -> Response:
        """One job; with `wait`, once it has ended or the time is up."""
        query = query_of(request, ShowQuery)
        job_id = id_of(request, "job_id")
        seconds = 0.0 if query.wait is UNSET else seconds_of(query.wait, "wait", WAIT_SECONDS_MAX)
        # First a look: the engine is asked to wait only for what exists and goes on.
        if seconds > 0 and not has_ended(await self._state.store.job(job_id)):
            await self._wait(job_id, seconds)
        return await self._shown(job_id, with_nodes=query.nodes == "true")

    async def _wait(self, job_id: str, seconds: float) -> None:
        """Until the job has ended, the time is up, or the server is to stop; JobNotFound."""
        ended = asyncio.create_task(self._state.control.wait(job_id))
        closing = asyncio.create_task(self._state.closing.wait())
        try:
            await asyncio.wait((ended, closing), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
        finally:
            ended.cancel()
            closing.cancel()
            await asyncio.gather(ended, closing, return_exceptions=True)

    async def _shown(self, job_id: str, *, with_nodes: bool = False) -> Response:
        job = await self._state.store.job(job_id)
        if not (with_nodes or has_ended(job)):
            return answer(job_shape(job))
        # Again, together with the nodes: both are to tell of the same moment.
        found = await self._state.store.snapshot(job_id)
        rows = found.all_nodes()
        values = await values_shown(Outputs(self._state.artifacts), rows)
        result = result_of(rows, values) if has_ended(found.job) and rows else NULL
        if not with_nodes:
            return answer(job_shape(found.job, result))
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        if len(plan.nodes) > NODES_SHOWN_MAX:
            message = f"the job has {len(plan.nodes)} nodes, more than {NODES_SHOWN_MAX}"
            raise invalid("nodes", message, f"read them page by page at /api/v1/jobs/{job_id}/nodes")
        nodes = await nodes_shown(self._state.store, plan, rows, values)
        return answer(job_shape(found.job, result, in_order(plan, nodes)))

    async def cancel(self, request: Request) -> Response:
        """Stop a job."""
        no_query(request)
        job_id = id_of(request, "job_id")
        wanted = await body_of(request, _cancel, CancelRequest())
        await self._state.store.job(job_id)
        await self._state.control.cancel(job_id, wanted.reason)
        return await self._shown(job_id)

    async def retry(self, request: Request) -> Response:
        """Run what failed or was cancelled again, or a node and everything after it."""
        query = query_of(request, RetryQuery)
        job_id = id_of(request, "job_id")
        await self._state.control.retry(job_id, query.from_node or None)
        return await self._shown(job_id)

    async def rerun(self, request: Request) -> Response:
        """Start a new job of the same version with the same input."""
        no_query(request)
        job = await self._state.store.job(id_of(request, "job_id"))
        # Refuses when the workflow was deleted since.
        await self._state.store.workflow(job.spec.workflow_id)
        again = await self._state.control.submit(
            Submit(job.spec.workflow_id, job.spec.version, job.spec.input, job.spec.priority)
        )
        return answer(
            Submitted(again.spec.job_id, again.state.status), 201, {"location": f"/api/v1/jobs/{again.spec.job_id}"}
        )


def router(state: ApiState) -> APIRouter:
    """`/jobs`, apart from submits."""
    routes = APIRouter()
    calls = Jobs(state)
    one = "/jobs/{job_id}"
    declare(routes, "GET", "/jobs", calls.list, Operation(
        policy=Policy.READ, tag=TAG, summary="List jobs, newest first, without their results",
        query=ListQuery, answers={200: Page[Job]}, refusals=(422,),
    ))  # fmt: skip
    declare(routes, "GET", one, calls.show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show a job; with `wait`, once it has ended or the time is up",
        query=ShowQuery, answers={200: Job}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "POST", one + "/cancel", calls.cancel, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Stop a job; one that has ended stays as it is",
        body=CancelRequest, body_required=False, example={"reason": "not needed any more"},
        answers={200: Job}, refusals=(404, 422, 503),
    ))  # fmt: skip
    declare(routes, "POST", one + "/retry", calls.retry, Operation(
        policy=Policy.OPERATE, tag=TAG, query=RetryQuery,
        summary="Run again what failed or was cancelled, or a node and everything after it",
        answers={200: Job}, refusals=(404, 409, 422, 503),
    ))  # fmt: skip
    declare(routes, "POST", one + "/rerun", calls.rerun, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Start a new job of the same version with the same input",
        answers={201: Submitted}, refusals=(404, 422, 503),
    ))  # fmt: skip
    return routes
