"""Graph algorithms on node numbers: topological order, cycles and upstream queries, linear in the number of edges."""

from collections.abc import Iterable, Sequence

# Upstream queries are answered in blocks of this many sources: the bits of a block fit in tens of megabytes.
BLOCK_SOURCES = 4_096


def children_of(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the edges in the other direction."""
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            children[parent].append(node)
    return children


def topological_order(
    parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> list[int]:
    """Return the nodes level by level, ordered by number within a level, without those on or after a cycle."""
    missing = [len(above) for above in parents]
    order: list[int] = []
    level = [node for node, count in enumerate(missing) if count == 0]
    while level:
        order.extend(level)
        following: list[int] = []
        for node in level:
            for child in children[node]:
                missing[child] -= 1
                if missing[child] == 0:
                    following.append(child)
        following.sort()
        level = following
    return order


def find_cycle(parents: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Return a cycle among the nodes missing from a topological order, in edge direction; empty if there is none."""
    ordered = set(order)
    start = next((node for node in range(len(parents)) if node not in ordered), None)
    if start is None:
        return []
    # Every missing node has a missing parent, so following parents leads into a cycle.
    seen: dict[int, int] = {}
    trail: list[int] = []
    node = start
    while node not in seen:
        seen[node] = len(trail)
        trail.append(node)
        node = next(parent for parent in parents[node] if parent not in ordered)
    return trail[seen[node] :][::-1]


def reachable_from(starts: Iterable[int], children: Sequence[Sequence[int]]) -> bytearray:
    """Return a flag for each node: whether it can be reached from the starts, which are included."""
    reached = bytearray(len(children))
    stack = list(starts)
    for start in stack:
        reached[start] = 1
    while stack:
        for child in children[stack.pop()]:
            if not reached[child]:
                reached[child] = 1
                stack.append(child)
    return reached


def not_upstream(
    queries: Iterable[tuple[int, int]], parents: Sequence[Sequence[int]], order: Sequence[int]
) -> set[tuple[int, int]]:
    """Return the pairs (source, node) whose source cannot reach the node.

    Sources are processed in blocks. Each block needs one pass over the part of the order between its first source and
    the last node of its queries.
    """
    position = [0] * len(parents)
    for place, node in enumerate(order):
        position[node] = place
    unreached: set[tuple[int, int]] = set()
    nodes_by_source: dict[int, list[int]] = {}
    for source, node in queries:
        if position[source] < position[node]:
            nodes_by_source.setdefault(source, []).append(node)
        else:
            unreached.add((source, node))
    sources = sorted(nodes_by_source, key=position.__getitem__)
    for begin in range(0, len(sources), BLOCK_SOURCES):
        block = sources[begin : begin + BLOCK_SOURCES]
        last = max(position[node] for source in block for node in nodes_by_source[source])
        masks = _masks(block, parents, order[position[block[0]] : last + 1], position)
        for bit, source in enumerate(block):
            unreached.update(
                (source, node) for node in nodes_by_source[source] if not masks[node] >> bit & 1
            )
    return unreached


def _masks(
    block: Sequence[int],
    parents: Sequence[Sequence[int]],
    between: Sequence[int],
    position: Sequence[int],
) -> dict[int, int]:
    """Return for each node of a part of the order the sources of the block that reach it, as bits."""
    own = {source: 1 << bit for bit, source in enumerate(block)}
    masks: dict[int, int] = {}
    get = masks.get
    for node in between:
        mask = own.get(node, 0)
        for parent in parents[node]:
            mask |= get(parent, 0)
        if mask:
            masks[node] = mask
    return {node: masks.get(node, 0) for node in between}
