"""Jobs and nodes as they are shown: their rows, their outputs as far as bounds go, their loops in numbers."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw

from windlass.core.changes import NodeRow
from windlass.core.plan import Plan
from windlass.ports.store import Store
from windlass.views.jobs import node_view, pending_node
from windlass.views.loops import loop_view
from windlass.views.outputs import OutputReader
from windlass.wire import NodeView


async def node_views(store: Store, plan: Plan, rows: Sequence[NodeRow], values: Sequence[Raw]) -> list[NodeView]:
    """Nodes that have begun, with what is shown of their outputs."""
    loops = [await loop_view(store, plan, row) for row in rows]
    return [node_view(row, value, loop) for row, value, loop in zip(rows, values, loops, strict=True)]


async def output_values(outputs: OutputReader, rows: Sequence[NodeRow]) -> list[Raw]:
    """What is shown of the outputs of nodes."""
    return await outputs.shown([row.output for row in rows])


def nodes_in_order(plan: Plan, shown: Iterable[NodeView], first: int = 0, limit: int | None = None) -> list[NodeView]:
    """The nodes of a job in the order of its plan, or a part of them, those included that have not begun."""
    found = {node.node_id: node for node in shown}
    wanted = plan.nodes[first:] if limit is None else plan.nodes[first : first + limit]
    return [found.get(node.id) or pending_node(node.id) for node in wanted]


def result_data(rows: Sequence[NodeRow], values: Sequence[Raw]) -> Raw:
    """What is shown of each output there is, as one object. START and END have none."""
    shown = zip(rows, values, strict=True)
    return Raw(msgspec.json.encode({row.node_id: value for row, value in shown if row.output is not None}))
