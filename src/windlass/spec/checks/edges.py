"""Check the edges between nodes: unknown nodes, cycles, start and end nodes, and reachability."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NoReturn

from msgspec import Struct

from windlass.core.plan import NodeKind
from windlass.spec.checks.graph import children_of, find_cycle, reachable_from, topological_order
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array
from windlass.spec.sections.nodes import ReadNode

EDGES_MAX = 2_000_000
CYCLE_SHOWN_MAX = 12
NAME_SHOWN_MAX = 80


class Graph(Struct, frozen=True):
    """Numbers of nodes: for each node its parents and its children, and a topological order."""

    parents: Sequence[Sequence[int]]
    children: Sequence[Sequence[int]]
    order: Sequence[int]


def build_graph(
    findings: Findings, nodes: Sequence[ReadNode], index: Mapping[str, int], *, is_step_list: bool
) -> Graph:
    """Return the graph of the nodes. Reject it if it has too many edges or a cycle."""
    if is_step_list and not any(node.dependencies or node.following for node in nodes):
        parents = _chain(nodes)
    else:
        parents = _read_edges(findings, nodes, index)
    _check_markers(findings, nodes, parents)
    edges = sum(map(len, parents))
    if edges > EDGES_MAX:
        findings.reject(
            ("nodes",),
            f"too many edges: {edges}, limit {EDGES_MAX}",
            "put a node between large groups",
        )
    children = children_of(parents)
    order = topological_order(parents, children)
    if len(order) < len(nodes):
        _reject_cycle(findings, nodes, find_cycle(parents, order))
    return Graph(parents, children, order)


def _chain(nodes: Sequence[ReadNode]) -> list[list[int]]:
    """Return the parents of steps without any edges, which run one after the other as written."""
    parents: list[list[int]] = [[] for _ in nodes]
    as_written = sorted(range(len(nodes)), key=lambda number: nodes[number].raw.path[-1])
    for before, after in pairwise(as_written):
        parents[after] = [before]
    return parents


def _read_edges(
    findings: Findings, nodes: Sequence[ReadNode], index: Mapping[str, int]
) -> list[list[int]]:
    """Return the sorted parents of each node, from `dependencies` and `next` together."""
    parents: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for name in node.dependencies:
            parent = index.get(name, number)
            if parent == number:
                _report_edge(findings, node, "dependencies", name, index)
            else:
                parents[number].append(parent)
        for name in node.following:
            child = index.get(name, number)
            if child == number:
                _report_edge(findings, node, "next", name, index)
            else:
                parents[child].append(number)
    for number, above in enumerate(parents):
        if len(above) > 1:
            parents[number] = sorted(set(above))
    return parents


def _report_edge(
    findings: Findings, node: ReadNode, key: str, name: str, index: Mapping[str, int]
) -> None:
    """Report an edge to the node itself or to an unknown node."""
    path = _edge_path(node, key, name)
    if name == node.raw.id:
        findings.add(
            path, f"node depends on itself: '{name}'", f"remove it from '{node.raw.spelling(key)}'"
        )
        return
    hint = findings.suggest(name, list(index), "write the id of a node of this workflow")
    findings.add(path, f"unknown node: '{name[:NAME_SHOWN_MAX]}'", hint)


def _edge_path(node: ReadNode, key: str, name: str) -> Path:
    """Return the path where an edge is written."""
    for spelling in node.raw.spellings(key):
        value = node.raw.fields[spelling]
        if value == name:
            return (*node.raw.path, spelling)
        if is_array(value) and name in value:
            return (*node.raw.path, spelling, value.index(name))
    return node.raw.path


def _check_markers(
    findings: Findings, nodes: Sequence[ReadNode], parents: Sequence[Sequence[int]]
) -> None:
    """Reject edges to start nodes and from end nodes. Edges that the node itself declares are reported already."""
    kinds = [node.values["kind"] for node in nodes]
    for number in _numbers_of(NodeKind.START, kinds):
        node = nodes[number]
        if parents[number] and not node.dependencies:
            before = nodes[parents[number][0]].raw.id
            message = f"start node with a dependency: '{node.raw.id}' follows '{before}'"
            findings.add(node.raw.path, message, "remove that edge")
    ends = {number for number in _numbers_of(NodeKind.END, kinds) if not nodes[number].following}
    if not ends:
        return
    for number, node in enumerate(nodes):
        for parent in ends.intersection(parents[number]):
            message = (
                f"dependency on an end node: '{node.raw.id}' depends on '{nodes[parent].raw.id}'"
            )
            findings.add(node.raw.path, message, "depend on another node")


def _numbers_of(kind: NodeKind, kinds: Sequence[NodeKind]) -> list[int]:
    return [number for number, each in enumerate(kinds) if each is kind]


def _reject_cycle(findings: Findings, nodes: Sequence[ReadNode], cycle: Sequence[int]) -> NoReturn:
    """Reject a cycle, starting with the first id so that the message does not depend on the search."""
    names = [nodes[number].raw.id for number in cycle]
    first = names.index(min(names))
    names = [*names[first:], *names[:first]]
    shown = names
    if len(names) > CYCLE_SHOWN_MAX:
        shown = [*names[:CYCLE_SHOWN_MAX], f"… ({len(names)} nodes)"]
    message = f"dependency cycle: {' → '.join([*shown, names[0]])}"
    findings.reject(nodes[cycle[first]].raw.path, message, "remove an edge")


def check_reachability(findings: Findings, nodes: Sequence[ReadNode], graph: Graph) -> None:
    """Reject nodes that cannot be reached from the start nodes, if there are any."""
    starts = [number for number, node in enumerate(nodes) if node.values["kind"] is NodeKind.START]
    if not starts:
        return
    reached = reachable_from(starts, graph.children)
    for number, node in enumerate(nodes):
        if not reached[number]:
            message = f"unreachable node: no path leads from the start node to '{node.raw.id}'"
            findings.add(
                node.raw.path, message, "connect it, or remove the start node", at_key=True
            )
