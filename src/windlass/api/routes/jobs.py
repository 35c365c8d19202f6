"""Routes of jobs, except submits."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field, structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.problems import invalid
from windlass.api.requests import (
    Cursor,
    Flag,
    path_id,
    read_duration,
    read_json,
    read_query,
    reject_query,
)
from windlass.api.routes.submits import submitted_response
from windlass.api.state import ApiState
from windlass.core.durations import Duration
from windlass.core.fields import Id, whole
from windlass.core.jobs import JobSelection
from windlass.core.submit_request import rerun_request
from windlass.ports.store.jobs import JobFilter
from windlass.views.job_detail import node_views, nodes_in_order, output_values, result_data
from windlass.views.jobs import job_view
from windlass.views.outputs import NULL, OutputReader
from windlass.views.pagination import job_page
from windlass.wire import (
    CancelRequest,
    JobView,
    Page,
    RerunRequest,
    RetryRequest,
    SubmittedView,
)

TAG = "jobs"
PAGE = 50
# A list includes inputs, which may have a megabyte each.
PAGE_MAX = 100
WAIT_SECONDS_MAX = 60.0
# The nodes of a larger job are only listed page by page.
NODES_SHOWN_MAX = 10_000

# The start of an id, or an idempotency key.
Search = Annotated[str, Meta(pattern=whole("[!-~]{1,128}"), max_length=128)]

_cancel = msgspec.json.Decoder(CancelRequest)
_retry = msgspec.json.Decoder(RetryRequest)
_rerun = msgspec.json.Decoder(RerunRequest)


class JobsQuery(JobSelection, frozen=True, forbid_unknown_fields=True):
    """The filter and page of a list of jobs."""

    search: Search | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE


class JobQuery(Struct, forbid_unknown_fields=True):
    """How long to wait for the job to finish, and whether to include its nodes."""

    wait: Duration | UnsetType = UNSET
    nodes: Flag = "false"


class RetryQuery(Struct, forbid_unknown_fields=True):
    """The node to run again, with all downstream nodes."""

    from_node: Id | UnsetType = field(default=UNSET, name="from")


class JobRoutes:
    """Handlers of jobs."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def list(self, request: Request) -> Response:
        """List jobs, newest first, without results."""
        query = read_query(request, JobsQuery)
        wanted = JobFilter(limit=query.limit, search=given(query.search), **query.selected())
        return json_response(await job_page(self._state.store.jobs, wanted, given(query.cursor)))

    async def show(self, request: Request) -> Response:
        """Show a job, with `wait` once it has finished or the time is over."""
        query = read_query(request, JobQuery)
        job_id = path_id(request, "job_id")
        if query.wait is not UNSET:
            seconds = read_duration(query.wait, "wait", WAIT_SECONDS_MAX)
            # Only wait for a job that exists and is not finished.
            if seconds > 0 and not (await self._state.store.jobs.get(job_id)).state.is_final:
                await self._wait(job_id, seconds)
        return await self._job_response(job_id, with_nodes=query.nodes == "true")

    async def _wait(self, job_id: str, seconds: float) -> None:
        """Return when the job has finished, the time is over or the server stops; JobNotFound."""
        finished = asyncio.create_task(self._state.control.jobs.wait(job_id))
        closing = asyncio.create_task(self._state.closing.wait())
        try:
            await asyncio.wait(
                (finished, closing), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if finished.done():
                finished.result()
        finally:
            finished.cancel()
            closing.cancel()
            await asyncio.gather(finished, closing, return_exceptions=True)

    async def _job_response(
        self, job_id: str, status: int = 200, *, with_nodes: bool = False
    ) -> Response:
        job = await self._state.store.jobs.get(job_id)
        if not with_nodes and not job.state.is_final:
            return json_response(job_view(job), status)
        # Read the job again together with its nodes, so that both are of the same moment.
        snapshot = await self._state.store.jobs.snapshot(job_id)
        rows = snapshot.all_nodes()
        values = await output_values(OutputReader(self._state.artifacts), rows)
        result = NULL
        if snapshot.job.state.is_final and rows:
            result = result_data(rows, values)
        if not with_nodes:
            return json_response(job_view(snapshot.job, result))
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        if len(plan.nodes) > NODES_SHOWN_MAX:
            message = f"too many nodes to show with the job: {len(plan.nodes)}"
            raise invalid(
                "nodes", message, f"read them page by page at /api/v1/jobs/{job_id}/nodes"
            )
        nodes = await node_views(self._state.store, plan, rows, values)
        return json_response(job_view(snapshot.job, result, nodes_in_order(plan, nodes)), status)

    async def cancel(self, request: Request) -> Response:
        """Cancel a job."""
        reject_query(request)
        job_id = path_id(request, "job_id")
        body = await read_json(request, _cancel, CancelRequest())
        await self._state.store.jobs.get(job_id)
        is_applied = await self._state.control.jobs.cancel(job_id, body.reason)
        return await self._job_response(job_id, 200 if is_applied else 202)

    async def retry(self, request: Request) -> Response:
        """Run failed and cancelled nodes again, or a node and all downstream nodes."""
        query = read_query(request, RetryQuery)
        body = await read_json(request, _retry, RetryRequest())
        job_id = path_id(request, "job_id")
        from_node = given(query.from_node)
        if from_node is not None and body.from_node not in (None, from_node):
            raise invalid("from", "conflicting nodes in the body and the parameter", "send one")
        is_applied = await self._state.control.jobs.retry(job_id, from_node or body.from_node)
        return await self._job_response(job_id, 200 if is_applied else 202)

    async def rerun(self, request: Request) -> Response:
        """Start a new job with the same input, of the same version or of another one."""
        reject_query(request)
        body = await read_json(request, _rerun, RerunRequest())
        job = await self._state.store.jobs.get(path_id(request, "job_id"))
        repeated = rerun_request(job.spec)
        if body.version is not None:
            repeated = structs.replace(repeated, version=body.version)
        return submitted_response(
            await self._state.control.jobs.submit(repeated, repeats=job.spec.job_id)
        )


def routes(state: ApiState) -> list[Route]:
    """Return the routes of jobs, except submits."""
    handlers = JobRoutes(state)
    return [
        route("GET", "/api/v1/jobs", handlers.list, Operation(
            policy=Policy.READ, tag=TAG, summary="List jobs, newest first, without results",
            query=JobsQuery, responses={200: Page[JobView]}, errors=(422,),
        )),
        route("GET", "/api/v1/jobs/{job_id}", handlers.show, Operation(
            policy=Policy.READ, tag=TAG, summary="Show a job; with `wait`, once it has finished or the time is over",
            query=JobQuery, responses={200: JobView}, errors=(404, 422),
        )),
        route("POST", "/api/v1/jobs/{job_id}/cancel", handlers.cancel, Operation(
            policy=Policy.OPERATE, tag=TAG,
            summary="Cancel a job; a finished job stays as it is; 202 if it is not done yet",
            body=CancelRequest, body_required=False, request_example={"reason": "no longer needed"},
            responses={200: JobView, 202: JobView}, errors=(404, 422, 503),
        )),
        route("POST", "/api/v1/jobs/{job_id}/retry", handlers.retry, Operation(
            policy=Policy.OPERATE, tag=TAG, query=RetryQuery,
            summary="Retry failed and cancelled nodes, or a node and all downstream nodes; 202 if it is not done yet",
            body=RetryRequest, body_required=False, request_example={"from": "load"},
            responses={200: JobView, 202: JobView}, errors=(404, 409, 422, 503),
        )),
        route("POST", "/api/v1/jobs/{job_id}/rerun", handlers.rerun, Operation(
            policy=Policy.OPERATE, tag=TAG,
            summary="Start a new job with the same input, of the same version or of another one",
            body=RerunRequest, body_required=False, request_example={"version": 4},
            responses={201: SubmittedView}, errors=(404, 422, 503),
        )),
    ]  # fmt: skip
