"""Views of a job's nodes with their outputs and loops, and the result of the job."""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec
from msgspec import Raw

from windlass.core.changes import NodeRow
from windlass.core.plan import Plan
from windlass.ports.store import Store
from windlass.views.jobs import node_view, pending_node
from windlass.views.loops import loop_view
from windlass.views.outputs import OutputReader
from windlass.wire import NodeView


async def node_views(
    store: Store, plan: Plan, rows: Sequence[NodeRow], values: Sequence[Raw]
) -> list[NodeView]:
    """Return views of started nodes with the given outputs."""
    views: list[NodeView] = []
    for row, value in zip(rows, values, strict=True):
        views.append(node_view(row, value, await loop_view(store, plan, row)))
    return views


async def output_values(outputs: OutputReader, rows: Sequence[NodeRow]) -> list[Raw]:
    """Read the outputs of nodes; large ones are replaced by a marker."""
    return await outputs.read([row.output for row in rows])


def nodes_in_order(
    plan: Plan, started: Iterable[NodeView], first: int = 0, limit: int | None = None
) -> list[NodeView]:
    """Return a range of a job's nodes in the order of its plan, including those that have not started."""
    by_id = {node.node_id: node for node in started}
    selected = islice(plan.nodes, first, None)
    return [by_id.get(node.id) or pending_node(node.id) for node in islice(selected, limit)]


def result_data(rows: Sequence[NodeRow], values: Sequence[Raw]) -> Raw:
    """Return the outputs of a job's nodes as one object. START and END have none."""
    outputs = {
        row.node_id: value
        for row, value in zip(rows, values, strict=True)
        if row.output is not None
    }
    return Raw(msgspec.json.encode(outputs))
