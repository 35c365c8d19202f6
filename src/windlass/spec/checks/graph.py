"""The shape of a workflow: topological order, cycles, and who is upstream of whom, all in time linear in its edges."""

from collections.abc import Iterable, Sequence

# References are looked up in blocks of this many sources: a block's bits for every node fit in some tens of megabytes.
BLOCK_SOURCES = 4_096


def children_of(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The edges the other way round."""
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            children[parent].append(node)
    return children


def topological_order(parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]) -> list[int]:
    """Kahn's algorithm, level by level and by number within a level. Nodes on or behind a cycle are left out."""
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
    """One cycle among the nodes that the order left out, in the direction of the edges; empty when there is none."""
    ordered = set(order)
    start = next((node for node in range(len(parents)) if node not in ordered), None)
    if start is None:
        return []
    # Every node left out has a parent left out, so going up must come round.
    seen: dict[int, int] = {}
    trail: list[int] = []
    node = start
    while node not in seen:
        seen[node] = len(trail)
        trail.append(node)
        node = next(parent for parent in parents[node] if parent not in ordered)
    return trail[seen[node] :][::-1]


def reachable_from(starts: Iterable[int], children: Sequence[Sequence[int]]) -> bytearray:
    """Which nodes can be reached, the starts included."""
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
    """Of the pairs (source, node), those whose source cannot reach the node.

    Sources are taken in blocks; each block's bits flow once down the part of the order between its first source and
    the last node that asks for one of them.
    """
    position = [0] * len(parents)
    for place, node in enumerate(order):
        position[node] = place
    wrong: set[tuple[int, int]] = set()
    asked: dict[int, list[int]] = {}
    for source, node in queries:
        if position[source] < position[node]:
            asked.setdefault(source, []).append(node)
        else:
            wrong.add((source, node))
    sources = sorted(asked, key=position.__getitem__)
    for begin in range(0, len(sources), BLOCK_SOURCES):
        block = sources[begin : begin + BLOCK_SOURCES]
        last = max(position[node] for source in block for node in asked[source])
        masks = _masks(block, parents, order[position[block[0]] : last + 1], position)
        for bit, source in enumerate(block):
            wrong.update((source, node) for node in asked[source] if not masks[node] >> bit & 1)
    return wrong


def _masks(
    block: Sequence[int], parents: Sequence[Sequence[int]], between: Sequence[int], position: Sequence[int]
) -> dict[int, int]:
    """For each node of a stretch of the order, which sources of the block are upstream of it or itself."""
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
