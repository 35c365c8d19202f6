"""The nodes of a job, those included that have not begun: shown, their loops' tasks, their whole outputs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import JSON, Operation, answer, declare
from windlass.api.pagination import cursor_of, cut, place_of
from windlass.api.policy import Policy
from windlass.api.rendered_params import ParamsQuery, Rendering
from windlass.api.requests import Cursor, Limit, Number, id_of, no_query, query_of
from windlass.api.state import ApiState, Slots
from windlass.core.changes import NodeRow
from windlass.core.errors import NodeNotFound, NotFound
from windlass.core.plan import Plan
from windlass.views.job_detail import in_order, nodes_shown, values_shown
from windlass.views.jobs import pending_node
from windlass.views.loops import ROWS_READ_MAX, WantedTasks, iteration, loop_place, tasks_of
from windlass.views.outputs import Outputs, whole
from windlass.wire import Node, Page, Params, Task

TAG = "jobs"
PAGE = 1_000
TASKS_PAGE = 100
# Outputs that are read whole at one time; each may be as large as the artifact store takes.
OUTPUTS_READ_MAX = 8
_Place = Annotated[int, Meta(ge=0, le=2**31)]


class NodesQuery(Struct, forbid_unknown_fields=True):
    """A part of the list."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


class TasksQuery(Struct, forbid_unknown_fields=True):
    """Which tasks of a node, by index."""

    status: (
        Literal["pending", "dispatched", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
        | UnsetType
    ) = UNSET
    cursor: Cursor | UnsetType = UNSET
    limit: Limit = TASKS_PAGE


class OutputQuery(Struct, forbid_unknown_fields=True):
    """Of which iteration; without one, of the node."""

    index: Number | UnsetType = UNSET


class Nodes:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._reads = Slots(OUTPUTS_READ_MAX, "places for reading large outputs")
        self._rendering = Rendering(state, self._reads)

    async def list(self, request: Request) -> Response:
        """Nodes in the order of the plan."""
        query = query_of(request, NodesQuery)
        first: int = 0 if query.cursor is UNSET else place_of(query.cursor, _Place)
        store = self._state.store
        job = await store.job(id_of(request, "job_id"))
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        outputs = Outputs(self._state.artifacts)
        after = first + query.limit
        items: list[Node] = []
        for start in range(first, min(after, len(plan.nodes)), ROWS_READ_MAX):
            limit = min(ROWS_READ_MAX, after - start)
            rows = await store.node_page(job.spec.job_id, start, limit)
            shown = await nodes_shown(store, plan, rows, await values_shown(outputs, rows))
            items += in_order(plan, shown, start, limit)
        return answer(Page(items, cursor_of(after) if after < len(plan.nodes) else None))

    async def show(self, request: Request) -> Response:
        """One node."""
        no_query(request)
        plan, row = await self._found(request)
        if row is None:
            return answer(pending_node(id_of(request, "node_id")))
        values = await values_shown(Outputs(self._state.artifacts), [row])
        (node,) = await nodes_shown(self._state.store, plan, [row], values)
        return answer(node)

    async def tasks(self, request: Request) -> Response:
        """The iterations of a loop; a node without one is a single task."""
        query = query_of(request, TasksQuery)
        after: int = -1 if query.cursor is UNSET else place_of(query.cursor, _Place)
        plan, row = await self._found(request)
        wanted = WantedTasks(query.status or None, after, query.limit + 1)
        found = await tasks_of(self._state.store, Outputs(self._state.artifacts), plan, row, wanted)
        page, following = cut(found, query.limit, lambda iteration: iteration.index)
        return answer(Page(list(page), following))

    async def output(self, request: Request) -> Response:
        """One output, whole."""
        query = query_of(request, OutputQuery)
        plan, row = await self._found(request)
        index = None if query.index is UNSET else query.index
        output = await self._output(plan, row, index)
        if output is None:
            which = id_of(request, "node_id") + ("" if index is None else f"[{index}]")
            raise NotFound(f"{which} has no output: it has not completed, or there is no such iteration")
        with self._reads.held():
            return Response(await whole(self._state.artifacts, output), media_type=JSON)

    async def _output(self, plan: Plan, row: NodeRow | None, index: int | None) -> Raw | None:
        if row is None:
            return None
        if index is None or (index == 0 and plan.nodes[plan.index[row.node_id]].loop is None):
            return row.output
        place = loop_place(plan, row)
        found = None if place is None else await iteration(self._state.store, place, index)
        return None if found is None else found.output

    async def params(self, request: Request) -> Response:
        """What a node gets."""
        return answer(await self._rendering.shown(request))

    async def _found(self, request: Request) -> tuple[Plan, NodeRow | None]:
        """The plan of a job, and the row of its node if that has begun; JobNotFound, NodeNotFound."""
        job_id, node_id = id_of(request, "job_id"), id_of(request, "node_id")
        job = await self._state.store.job(job_id)
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.spec.workflow_id} version {job.spec.version} has no node {node_id!r}")
        rows = await self._state.store.nodes(job_id, node_id)
        return plan, rows[0] if rows else None


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/nodes`, each of them, and what is below it."""
    routes = APIRouter()
    calls = Nodes(state)
    one = "/jobs/{job_id}/nodes/{node_id}"
    declare(routes, "GET", "/jobs/{job_id}/nodes", calls.list, Operation(
        policy=Policy.READ, tag=TAG, summary="List the nodes of a job, in an order in which they may run",
        query=NodesQuery, answers={200: Page[Node]}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "GET", one, calls.show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show a node of a job", answers={200: Node}, refusals=(404, 422),
        answer_example=_NODE,
    ))  # fmt: skip
    declare(routes, "GET", one + "/tasks", calls.tasks, Operation(
        policy=Policy.READ, tag=TAG, summary="List the iterations of a loop by index, those not begun too",
        query=TasksQuery, answers={200: Page[Task]}, refusals=(404, 422), answer_example=_TASKS,
    ))  # fmt: skip
    declare(routes, "GET", one + "/output", calls.output, Operation(
        policy=Policy.READ, tag=TAG, summary="The whole output of a node, or of one iteration, however large",
        query=OutputQuery, answers={200: Any}, refusals=(404, 422, 503), answer_example=[{"id": 1}, {"id": 2}],
    ))  # fmt: skip
    declare(routes, "GET", one + "/params", calls.params, Operation(
        policy=Policy.READ, tag=TAG, query=ParamsQuery,
        summary="What a node, or one iteration, gets: its templates rendered from the input and the outputs recorded",
        answers={200: Params}, refusals=(404, 422, 503), answer_example=_PARAMS,
    ))  # fmt: skip
    return routes


_PARAMS = {"params": {"url": "https://example.org/reports/7", "headers": {"accept": "text/csv"}}, "rendered": True}
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
_TASKS = {
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
