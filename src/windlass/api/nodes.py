"""The nodes of a job, those included that have not begun."""

from typing import Annotated

from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import Cursor, Limit, id_of, no_query, query_of
from windlass.api.shapes import cursor_of, node_shape, node_shapes, pending_node, place_of
from windlass.api.state import ApiState
from windlass.core.errors import NodeNotFound
from windlass.wire import Node, Page

TAG = "jobs"
PAGE = 1_000
_Place = Annotated[int, Meta(ge=0, le=2**31)]


class NodesQuery(Struct, forbid_unknown_fields=True):
    """A part of the list."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/nodes` and each of them."""
    routes = APIRouter()

    async def listed(request: Request) -> Response:
        query = query_of(request, NodesQuery)
        first: int = 0 if query.cursor is UNSET else place_of(query.cursor, _Place)
        job, rows = await state.store.restore(id_of(request, "job_id"))
        plan = await state.control.plan(job.workflow_id, job.version)
        after = first + query.limit
        items = node_shapes(plan, rows, first, query.limit)
        return answer(Page(items, cursor_of(after) if after < len(plan.nodes) else None))

    async def show(request: Request) -> Response:
        no_query(request)
        job_id, node_id = id_of(request, "job_id"), id_of(request, "node_id")
        job = await state.store.job(job_id)
        rows = await state.store.nodes(job_id, node_id)
        if rows:
            return answer(node_shape(rows[0]))
        plan = await state.control.plan(job.workflow_id, job.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.workflow_id} version {job.version} has no node {node_id!r}")
        return answer(pending_node(node_id))

    declare(routes, "GET", "/jobs/{job_id}/nodes", listed, Operation(
        policy=Policy.READ, tag=TAG, summary="List the nodes of a job, in an order in which they may run",
        query=NodesQuery, answers={200: Page[Node]}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "GET", "/jobs/{job_id}/nodes/{node_id}", show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show a node of a job", answers={200: Node}, refusals=(404, 422),
    ))  # fmt: skip
    return routes
