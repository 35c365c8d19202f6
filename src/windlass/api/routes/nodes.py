"""Routes of a job's nodes, their iterations, outputs and params."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import JSON, Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.rendered_params import ParamsQuery, ParamsRenderer
from windlass.api.requests import Cursor, Limit, Number, path_id, read_query, reject_query
from windlass.api.state import ApiState, ConcurrencyLimit
from windlass.api.stored_node import read_node
from windlass.core.changes import NodeRow
from windlass.core.errors import NotFound
from windlass.core.plan import Plan
from windlass.views.job_detail import node_views, nodes_in_order, output_values
from windlass.views.jobs import pending_node
from windlass.views.loops import (
    ROWS_READ_MAX,
    IterationSelection,
    IterationStatus,
    iteration_row,
    iteration_views,
    stored_loop,
)
from windlass.views.outputs import OutputReader, read_output
from windlass.views.pagination import decode_cursor, encode_cursor, paginate
from windlass.wire import IterationView, NodeView, Page, ParamsView

TAG = "jobs"
PAGE = 1_000
ITERATIONS_PAGE = 100
# Whole outputs that are read at once; each may be as large as the artifact store accepts.
OUTPUTS_READ_MAX = 8

_Position = Annotated[int, Meta(ge=0, le=2**31)]


class NodesQuery(Struct, forbid_unknown_fields=True):
    """The page of a list of nodes."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


class IterationsQuery(Struct, forbid_unknown_fields=True):
    """The filter and page of a list of iterations."""

    status: IterationStatus | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Limit = ITERATIONS_PAGE


class OutputQuery(Struct, forbid_unknown_fields=True):
    """The iteration; without one, the node."""

    index: Number | UnsetType = UNSET


class NodeRoutes:
    """Handlers of nodes."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._reads = ConcurrencyLimit(OUTPUTS_READ_MAX, "reads of large outputs")
        self._params = ParamsRenderer(state, self._reads)

    async def list(self, request: Request) -> Response:
        """List nodes in the order of the plan."""
        query = read_query(request, NodesQuery)
        first: int = decode_cursor(given(query.cursor), _Position) or 0
        store = self._state.store
        job = await store.jobs.get(path_id(request, "job_id"))
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        outputs = OutputReader(self._state.artifacts)
        end = first + query.limit
        views: list[NodeView] = []
        for start in range(first, min(end, len(plan.nodes)), ROWS_READ_MAX):
            limit = min(ROWS_READ_MAX, end - start)
            rows = await store.jobs.node_page(job.spec.job_id, start, limit)
            started = await node_views(store, plan, rows, await output_values(outputs, rows))
            views += nodes_in_order(plan, started, start, limit)
        next_cursor = encode_cursor(end) if end < len(plan.nodes) else None
        return json_response(Page(views, next_cursor))

    async def show(self, request: Request) -> Response:
        """Show a node."""
        reject_query(request)
        plan, row = await self._plan_and_row(request)
        if row is None:
            return json_response(pending_node(path_id(request, "node_id")))
        values = await output_values(OutputReader(self._state.artifacts), [row])
        (view,) = await node_views(self._state.store, plan, [row], values)
        return json_response(view)

    async def iterations(self, request: Request) -> Response:
        """List the iterations of a loop; a node without a loop has one."""
        query = read_query(request, IterationsQuery)
        after: int | None = decode_cursor(given(query.cursor), _Position)
        plan, row = await self._plan_and_row(request)
        selection = IterationSelection(
            status=given(query.status),
            after=-1 if after is None else after,
            limit=query.limit + 1,
        )
        outputs = OutputReader(self._state.artifacts)
        views = await iteration_views(self._state.store, outputs, plan, row, selection)
        page, next_cursor = paginate(views, query.limit, lambda view: encode_cursor(view.index))
        return json_response(Page([*page], next_cursor))

    async def output(self, request: Request) -> Response:
        """Return a whole output."""
        query = read_query(request, OutputQuery)
        plan, row = await self._plan_and_row(request)
        index = given(query.index)
        output = await self._output(plan, row, index)
        if output is None:
            name = path_id(request, "node_id")
            if index is not None:
                name += f"[{index}]"
            raise NotFound(
                f"{name} has no output: it has not completed, or the iteration does not exist"
            )
        with self._reads.acquire():
            return Response(await read_output(self._state.artifacts, output), media_type=JSON)

    async def _output(self, plan: Plan, row: NodeRow | None, index: int | None) -> Raw | None:
        if row is None:
            return None
        has_loop = plan.nodes[plan.index[row.node_id]].loop is not None
        if index is None or (index == 0 and not has_loop):
            return row.output
        loop = stored_loop(plan, row)
        if loop is None:
            return None
        iteration = await iteration_row(self._state.store, loop, index)
        return None if iteration is None else iteration.output

    async def params(self, request: Request) -> Response:
        """Show the params of a node."""
        return json_response(await self._params.render(request))

    async def _plan_and_row(self, request: Request) -> tuple[Plan, NodeRow | None]:
        """Return the plan of a job and the row of a node, if it has started; JobNotFound, NodeNotFound."""
        stored = await read_node(self._state, request)
        return stored.plan, stored.row


def routes(state: ApiState) -> list[Route]:
    """Return the routes of nodes."""
    handlers = NodeRoutes(state)
    return [
        route("GET", "/api/v1/jobs/{job_id}/nodes", handlers.list, Operation(
            policy=Policy.READ, tag=TAG, summary="List the nodes of a job in topological order",
            query=NodesQuery, responses={200: Page[NodeView]}, errors=(404, 422),
        )),
        route("GET", "/api/v1/jobs/{job_id}/nodes/{node_id}", handlers.show, Operation(
            policy=Policy.READ, tag=TAG, summary="Show a node of a job",
            responses={200: NodeView}, errors=(404, 422), response_example=_NODE,
        )),
        route("GET", "/api/v1/jobs/{job_id}/nodes/{node_id}/iterations", handlers.iterations, Operation(
            policy=Policy.READ, tag=TAG, summary="List the iterations of a loop by index, including those not started",
            query=IterationsQuery, responses={200: Page[IterationView]}, errors=(404, 422),
            response_example=_ITERATIONS,
        )),
        route("GET", "/api/v1/jobs/{job_id}/nodes/{node_id}/output", handlers.output, Operation(
            policy=Policy.READ, tag=TAG, summary="Show the whole output of a node or of one iteration",
            query=OutputQuery, responses={200: Any}, errors=(404, 422, 503),
            response_example=[{"id": 1}, {"id": 2}],
        )),
        route("GET", "/api/v1/jobs/{job_id}/nodes/{node_id}/params", handlers.params, Operation(
            policy=Policy.READ, tag=TAG, summary="Show the rendered params of a node or of one iteration",
            query=ParamsQuery, responses={200: ParamsView}, errors=(404, 422, 503), response_example=_PARAMS,
        )),
    ]  # fmt: skip


_PARAMS = {
    "params": {"url": "https://example.org/reports/7", "headers": {"accept": "text/csv"}},
    "rendered": True,
}
_NODE = {
    "node_id": "each",
    "status": "running",
    "attempt": 1,
    "output": None,
    "error": None,
    "meta": None,
    "started_at": "2026-01-31T08:00:00.120000Z",
    "completed_at": None,
    "loop": {
        "total": 10_000,
        "begun": 3_424,
        "completed": 3_410,
        "failed": 2,
        "skipped": 0,
        "running": 10,
        "waiting": 2,
        "cancelled": 0,
    },
}
_ITERATIONS = {
    "items": [
        {
            "index": 17,
            "status": "failed",
            "attempt": 3,
            "output": None,
            "error": {"type": "http_status", "message": "404 Not Found", "status": 404},
            "meta": None,
            "started_at": "2026-01-31T08:00:00.120000Z",
            "completed_at": "2026-01-31T08:00:01.370000Z",
        }
    ],
    "next_cursor": None,
}
