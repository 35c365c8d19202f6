"""The node of a job that a request names."""

from msgspec import Struct
from starlette.requests import Request

from windlass.api.requests import path_id
from windlass.api.state import ApiState
from windlass.core.changes import NodeRow
from windlass.core.errors import NodeNotFound
from windlass.core.jobs import JobRecord
from windlass.core.plan import NodePlan, Plan


class StoredNode(Struct, frozen=True):
    """A node of a job, and its row if it has started."""

    job: JobRecord
    plan: Plan
    node: NodePlan
    row: NodeRow | None


async def read_node(state: ApiState, request: Request) -> StoredNode:
    """Read the node in the path of a request; JobNotFound, NodeNotFound."""
    node_id = path_id(request, "node_id")
    job = await state.store.jobs.get(path_id(request, "job_id"))
    plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
    number = plan.index.get(node_id)
    if number is None:
        raise NodeNotFound(
            f"workflow {job.spec.workflow_id} version {job.spec.version} has no node {node_id!r}"
        )
    rows = await state.store.jobs.nodes(job.spec.job_id, node_id)
    return StoredNode(job, plan, plan.nodes[number], next(iter(rows), None))
