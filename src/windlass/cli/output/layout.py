"""Where the nodes of a drawn graph stand: layers, order within a layer, columns.

Siblings that look alike (same parents, children and handler, all or none in a loop) are drawn as one box, so that
wide fans stay readable.
"""

from msgspec import Struct

from windlass.core.plan import NodeKind, Plan

ALIKE_MIN = 4
ORDER_SWEEPS = 4
GAP_COLUMNS = 3
BOX_PADDING = 4
LOOP_MARK = "↻ "
_MARKS = {NodeKind.START: "▶ ", NodeKind.END: "■ "}


class Box(Struct):
    """One box of the drawing: a node, several alike, or (without a label) the passage of a long edge."""

    label: str
    layer: int
    parents: tuple[int, ...] = ()
    left: int = 0

    @property
    def width(self) -> int:
        return len(self.label) + BOX_PADDING if self.label else 1

    @property
    def centre(self) -> int:
        return self.left + self.width // 2


class Group(Struct, frozen=True):
    """Nodes that one box stands for, and the groups right before it."""

    nodes: tuple[int, ...]
    parents: tuple[int, ...]


def groups_of(plan: Plan) -> list[Group]:
    """The plan's nodes with look-alikes merged, in topological order."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, node in enumerate(plan.nodes):
        parents, children = tuple(sorted(plan.parents[number])), tuple(sorted(plan.children[number]))
        alike.setdefault((parents, children, node.kind, node.handler, node.loop is None), []).append(number)
    merged = [members for members in alike.values() if len(members) >= ALIKE_MIN]
    merged += [[number] for members in alike.values() if len(members) < ALIKE_MIN for number in members]
    merged.sort()
    home = {number: index for index, members in enumerate(merged) for number in members}
    return [
        Group(tuple(members), tuple(sorted({home[parent] for parent in plan.parents[members[0]]})))
        for members in merged
    ]


def layers_of(groups: list[Group]) -> list[int]:
    """Each group's layer: one more than the deepest of its parents."""
    # A merged group stands where its first node stands, so a parent may come later in the list than its child.
    children: list[list[int]] = [[] for _ in groups]
    missing = [len(group.parents) for group in groups]
    for number, group in enumerate(groups):
        for parent in group.parents:
            children[parent].append(number)
    depth = [0] * len(groups)
    ready = [number for number, count in enumerate(missing) if count == 0]
    for number in ready:
        for child in children[number]:
            depth[child] = max(depth[child], depth[number] + 1)
            missing[child] -= 1
            if missing[child] == 0:
                ready.append(child)
    return depth


def label_of(plan: Plan, group: Group) -> str:
    """What a box says."""
    first = plan.nodes[group.nodes[0]]
    mark = _MARKS.get(first.kind, "") if first.loop is None else LOOP_MARK
    if len(group.nodes) > 1:
        last = plan.nodes[group.nodes[-1]]
        return f"{mark}{first.id} … {last.id} ×{len(group.nodes)}"
    return f"{mark}{first.id}"


def boxes_of(plan: Plan) -> list[list[Box]]:
    """The boxes of each layer, long edges cut into passages, ordered so that few lines cross, with their columns."""
    groups = groups_of(plan)
    depth = layers_of(groups)
    boxes = [Box(label_of(plan, group), layer) for group, layer in zip(groups, depth, strict=True)]
    passages: dict[tuple[int, int], int] = {}
    for number, group in enumerate(groups):
        boxes[number].parents = tuple(_reach(boxes, passages, parent, depth[number]) for parent in group.parents)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number, box in enumerate(boxes):
        layers[box.layer].append(number)
    _order(boxes, layers)
    _place(boxes, layers)
    return [[_renumbered(boxes[number], layers, boxes) for number in layer] for layer in layers]


def _reach(boxes: list[Box], passages: dict[tuple[int, int], int], parent: int, layer: int) -> int:
    """The box right above `layer` through which `parent` is reached; all long edges of a parent share one passage."""
    at = parent
    for between in range(boxes[parent].layer + 1, layer):
        key = (parent, between)
        if key not in passages:
            boxes.append(Box("", between, (at,)))
            passages[key] = len(boxes) - 1
        at = passages[key]
    return at


def _order(boxes: list[Box], layers: list[list[int]]) -> None:
    children: list[list[int]] = [[] for _ in boxes]
    for number, box in enumerate(boxes):
        for parent in box.parents:
            children[parent].append(number)
    place = {number: float(index) for layer in layers for index, number in enumerate(layer)}

    def middle(number: int, neighbours: tuple[int, ...] | list[int]) -> float:
        return sum(place[one] for one in neighbours) / len(neighbours) if neighbours else place[number]

    for _ in range(ORDER_SWEEPS):
        for layer in layers[1:]:
            layer.sort(key=lambda number: middle(number, boxes[number].parents))
            place.update({number: float(index) for index, number in enumerate(layer)})
        for layer in reversed(layers[:-1]):
            layer.sort(key=lambda number: middle(number, children[number]))
            place.update({number: float(index) for index, number in enumerate(layer)})


def _place(boxes: list[Box], layers: list[list[int]]) -> None:
    """Columns from the top down: each box as near below its parents as its neighbours allow."""
    for layer in layers:
        wanted = [_below(boxes, boxes[number]) for number in layer]
        edge = -(1 << 30)
        for number, left in zip(layer, wanted, strict=True):
            boxes[number].left = max(left, edge)
            edge = boxes[number].left + boxes[number].width + GAP_COLUMNS
        excess = sum(boxes[number].left - left for number, left in zip(layer, wanted, strict=True)) // len(layer)
        for number in layer:
            boxes[number].left -= excess
    leftmost = min((box.left for box in boxes), default=0)
    for box in boxes:
        box.left -= leftmost


def _below(boxes: list[Box], box: Box) -> int:
    if not box.parents:
        return -(box.width // 2)
    return sum(boxes[parent].centre for parent in box.parents) // len(box.parents) - box.width // 2


def _renumbered(box: Box, layers: list[list[int]], boxes: list[Box]) -> Box:
    """The same box, its parents counted by their place in the layer above."""
    if box.layer == 0:
        return box
    place = {number: index for index, number in enumerate(layers[box.layer - 1])}
    return Box(box.label, box.layer, tuple(sorted(place[parent] for parent in box.parents)), box.left)
