"""Positions of the nodes of a drawn graph: layers, order within a layer, columns.

Similar siblings (same parents, children and handler, all or none with a loop) share one box, so that wide graphs stay
readable.
"""

from collections.abc import Sequence

from msgspec import Struct

from windlass.core.plan import NodeKind, Plan

SIMILAR_MIN = 4
ORDER_SWEEPS = 4
GAP_COLUMNS = 3
BOX_PADDING = 4
LOOP_SYMBOL = "↻ "
KIND_SYMBOLS = {NodeKind.START: "▶ ", NodeKind.END: "■ "}


class Box(Struct):
    """A box of the drawing: a node, several similar ones, or (without a label) a cell that a long edge passes."""

    label: str
    layer: int
    parents: tuple[int, ...] = ()
    left: int = 0

    @property
    def width(self) -> int:
        if not self.label:
            return 1
        return len(self.label) + BOX_PADDING

    @property
    def center(self) -> int:
        return self.left + self.width // 2


class Group(Struct, frozen=True):
    """The nodes that share a box, and the groups they depend on."""

    nodes: tuple[int, ...]
    parents: tuple[int, ...]


def group_nodes(plan: Plan) -> list[Group]:
    """Return the plan's nodes with similar ones merged, in topological order."""
    similar: dict[tuple[object, ...], list[int]] = {}
    for number, node in enumerate(plan.nodes):
        parents = tuple(sorted(plan.parents[number]))
        children = tuple(sorted(plan.children[number]))
        key = (parents, children, node.kind, node.handler, node.loop is None)
        similar.setdefault(key, []).append(number)
    merged: list[list[int]] = []
    for members in similar.values():
        if len(members) >= SIMILAR_MIN:
            merged.append(members)
        else:
            merged.extend([number] for number in members)
    merged.sort()
    group_of = {number: index for index, members in enumerate(merged) for number in members}
    groups: list[Group] = []
    for members in merged:
        parents = sorted({group_of[parent] for parent in plan.parents[members[0]]})
        groups.append(Group(tuple(members), tuple(parents)))
    return groups


def assign_layers(groups: Sequence[Group]) -> list[int]:
    """Return each group's layer: one more than the highest layer of its parents."""
    # A merged group has the position of its first node, so a parent may come later in the list than its child.
    children = _children([group.parents for group in groups])
    missing = [len(group.parents) for group in groups]
    layers = [0] * len(groups)
    ready = [number for number, count in enumerate(missing) if count == 0]
    for number in ready:
        for child in children[number]:
            layers[child] = max(layers[child], layers[number] + 1)
            missing[child] -= 1
            if missing[child] == 0:
                ready.append(child)
    return layers


def label_of(plan: Plan, group: Group) -> str:
    """Return the text of a box."""
    first = plan.nodes[group.nodes[0]]
    symbol = LOOP_SYMBOL
    if first.loop is None:
        symbol = KIND_SYMBOLS.get(first.kind, "")
    if len(group.nodes) == 1:
        return f"{symbol}{first.id}"
    last = plan.nodes[group.nodes[-1]]
    return f"{symbol}{first.id} … {last.id} ×{len(group.nodes)}"


def lay_out(plan: Plan) -> list[list[Box]]:
    """Return the boxes of each layer with their columns, ordered to reduce crossings.

    Edges over several layers pass cells without labels. The parents of a box are positions in the layer above.
    """
    groups = group_nodes(plan)
    depths = assign_layers(groups)
    boxes = [Box(label_of(plan, group), depth) for group, depth in zip(groups, depths, strict=True)]
    passages = _Passages(boxes)
    for number, group in enumerate(groups):
        boxes[number].parents = tuple(
            passages.reach(parent, depths[number]) for parent in group.parents
        )
    layers: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for number, box in enumerate(boxes):
        layers[box.layer].append(number)
    _order(boxes, layers)
    _place(boxes, layers)
    return _by_layer(boxes, layers)


class _Passages:
    """The cells that edges over several layers pass. All such edges of a parent share them."""

    def __init__(self, boxes: list[Box]) -> None:
        self._boxes = boxes
        self._cells: dict[tuple[int, int], int] = {}

    def reach(self, parent: int, layer: int) -> int:
        """Return the box directly above `layer` on the way from `parent`."""
        above = parent
        for between in range(self._boxes[parent].layer + 1, layer):
            key = (parent, between)
            if key not in self._cells:
                self._cells[key] = len(self._boxes)
                self._boxes.append(Box("", between, (above,)))
            above = self._cells[key]
        return above


def _order(boxes: Sequence[Box], layers: Sequence[list[int]]) -> None:
    """Sort each layer by the average position of the neighbors, alternating downward and upward sweeps."""
    parents = [box.parents for box in boxes]
    children = _children(parents)
    position = {number: float(index) for layer in layers for index, number in enumerate(layer)}
    for _ in range(ORDER_SWEEPS):
        for layer in layers[1:]:
            _sort_layer(layer, parents, position)
        for layer in reversed(layers[:-1]):
            _sort_layer(layer, children, position)


def _sort_layer(
    layer: list[int], neighbors: Sequence[Sequence[int]], position: dict[int, float]
) -> None:
    def average(number: int) -> float:
        if not neighbors[number]:
            return position[number]
        return sum(position[neighbor] for neighbor in neighbors[number]) / len(neighbors[number])

    layer.sort(key=average)
    for index, number in enumerate(layer):
        position[number] = float(index)


def _children(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for number, above in enumerate(parents):
        for parent in above:
            children[parent].append(number)
    return children


def _place(boxes: Sequence[Box], layers: Sequence[list[int]]) -> None:
    """Assign columns from the top down, each box as close below its parents as its neighbors allow."""
    for layer in layers:
        _place_layer([boxes[number] for number in layer], boxes)
    leftmost = min((box.left for box in boxes), default=0)
    for box in boxes:
        box.left -= leftmost


def _place_layer(layer: Sequence[Box], boxes: Sequence[Box]) -> None:
    shifted = 0
    edge: int | None = None
    for box in layer:
        preferred = _preferred_column(box, boxes)
        box.left = preferred
        if edge is not None:
            box.left = max(preferred, edge)
        shifted += box.left - preferred
        edge = box.left + box.width + GAP_COLUMNS
    # Boxes were only moved to the right: move the layer back by the average.
    for box in layer:
        box.left -= shifted // len(layer)


def _preferred_column(box: Box, boxes: Sequence[Box]) -> int:
    if not box.parents:
        return -(box.width // 2)
    centers = [boxes[parent].center for parent in box.parents]
    return sum(centers) // len(centers) - box.width // 2


def _by_layer(boxes: Sequence[Box], layers: Sequence[list[int]]) -> list[list[Box]]:
    """Return the boxes of each layer, their parents as positions in the layer above."""
    result: list[list[Box]] = []
    above: dict[int, int] = {}
    for layer in layers:
        for number in layer:
            box = boxes[number]
            box.parents = tuple(sorted(above[parent] for parent in box.parents))
        result.append([boxes[number] for number in layer])
        above = {number: position for position, number in enumerate(layer)}
    return result
