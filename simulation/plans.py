"""Small plans for tests of the core and the engine that need no document."""

from array import array
from collections.abc import Mapping, Sequence

from windlass.core.plan import NodeKind, NodePlan, Plan


def plan_of(
    edges: Mapping[str, Sequence[str]],
    nodes: Mapping[str, NodePlan] | None = None,
    *,
    workflow_id: str = "test",
    fail_fast: bool = True,
    timeout_seconds: float | None = None,
) -> Plan:
    """Return a plan from node id -> dependencies, in topological order. `start` and `end` are START and END nodes."""
    special = {"start": NodeKind.START, "end": NodeKind.END}
    index = {node_id: number for number, node_id in enumerate(edges)}
    parents = [tuple(index[parent] for parent in dependencies) for dependencies in edges.values()]
    children: list[list[int]] = [[] for _ in edges]
    for child, numbers in enumerate(parents):
        for parent in numbers:
            children[parent].append(child)
    given = nodes or {}
    return Plan(
        workflow_id=workflow_id,
        version=1,
        nodes=[
            given.get(node_id)
            or NodePlan(id=node_id, kind=special.get(node_id, NodeKind.TASK), handler="echo")
            for node_id in edges
        ],
        index=index,
        parents=parents,
        children=[tuple(numbers) for numbers in children],
        dependency_counts=array("l", [len(numbers) for numbers in parents]),
        fail_fast=fail_fast,
        timeout_seconds=timeout_seconds,
        has_pagination=any(node.on_success is not None for node in given.values()),
    )
