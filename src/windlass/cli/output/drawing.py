"""A workflow as text: boxes and lines where they fit, else a list of layers; and as Mermaid or DOT."""

from collections.abc import Iterator

from msgspec import Struct

from windlass.cli.output.layout import Box, boxes_of, groups_of, label_of, layers_of
from windlass.core.plan import NodeKind, NodePlan, Plan

BOXES_MAX = 60
LAYER_BOXES_MAX = 12
PARENTS_LISTED_MAX = 6
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINES = {
    UP: "│", DOWN: "│", UP | DOWN: "│", LEFT: "─", RIGHT: "─", LEFT | RIGHT: "─", DOWN | RIGHT: "┌", DOWN | LEFT: "┐",
    UP | RIGHT: "└", UP | LEFT: "┘", UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", DOWN | LEFT | RIGHT: "┬",
    UP | LEFT | RIGHT: "┴", UP | DOWN | LEFT | RIGHT: "┼",
}  # fmt: skip


class Bundle(Struct):
    """Edges between two layers that share all their parents, drawn as one comb."""

    parents: tuple[int, ...]
    children: list[int]
    exits: list[int] = []
    entries: list[int] = []


class Canvas:
    """Characters on a grid, with lines that know which way they go on."""

    def __init__(self) -> None:
        self.rows: list[dict[int, str]] = []
        self.lines: dict[tuple[int, int], tuple[int, int]] = {}

    def write(self, row: int, column: int, text: str) -> None:
        """Put text at a place."""
        self.rows.extend({} for _ in range(row + 1 - len(self.rows)))
        self.rows[row].update({column + offset: character for offset, character in enumerate(text)})

    def join(self, row: int, column: int, directions: int, owner: int) -> None:
        """Add line ends to a cell. Where lines of two owners cross, the upright one passes over."""
        held, holder = self.lines.get((row, column), (0, owner))
        crossing = holder != owner and {held, directions} == {LEFT | RIGHT, UP | DOWN}
        directions = UP | DOWN if crossing else held | directions
        self.lines[row, column] = directions, owner
        self.write(row, column, LINES[directions])

    def text(self) -> str:
        """Everything that was put there."""
        return "\n".join(
            "".join(row.get(column, " ") for column in range(max(row, default=-1) + 1)).rstrip() for row in self.rows
        )


def as_text(plan: Plan, width: int) -> str:
    """Boxes and lines when they fit into `width`, else one line a layer."""
    groups = groups_of(plan)
    depth = layers_of(groups)
    widest = max((depth.count(layer) for layer in set(depth)), default=0)
    if len(groups) <= BOXES_MAX and widest <= LAYER_BOXES_MAX:
        layers = boxes_of(plan)
        if max((box.left + box.width for layer in layers for box in layer), default=0) <= width:
            return draw(layers)
    return "\n".join(listed(plan))


def draw(layers: list[list[Box]]) -> str:
    """The boxes of each layer and the lines between them."""
    canvas = Canvas()
    row = 0
    for number, layer in enumerate(layers):
        for box in layer:
            _draw_box(canvas, row, box)
        if number + 1 < len(layers):
            row = _connect(canvas, row + 3, layer, layers[number + 1])
    return canvas.text()


def _draw_box(canvas: Canvas, row: int, box: Box) -> None:
    if not box.label:
        for offset in range(3):
            canvas.write(row + offset, box.left, "│")
        return
    line = "─" * (box.width - 2)
    canvas.write(row, box.left, f"┌{line}┐")
    canvas.write(row + 1, box.left, f"│ {box.label} │")
    canvas.write(row + 2, box.left, f"└{line}┘")
    if box.parents:
        canvas.write(row, box.centre, "▼")


def _connect(canvas: Canvas, top: int, upper: list[Box], lower: list[Box]) -> int:
    """Lines from one layer to the next, one row a bundle that has to turn; the row where the lower boxes begin."""
    bundles = _bundles(upper, lower)
    turning = _in_order([bundle for bundle in bundles if len(set(bundle.exits + bundle.entries)) > 1])
    bottom = top + len(turning)
    passages = {box.left for box in upper if not box.label}
    for column in {column for bundle in bundles for column in bundle.exits} - passages:
        canvas.write(top - 1, column, "┬")
    tracks = {id(bundle): top + offset for offset, bundle in enumerate(turning)}
    for owner, bundle in enumerate(bundles):
        track = tracks.get(id(bundle), bottom)
        for column in bundle.exits:
            for row in range(top, track):
                canvas.join(row, column, UP | DOWN, owner)
        for column in bundle.entries:
            for row in range(track + 1, bottom):
                canvas.join(row, column, UP | DOWN, owner)
        if id(bundle) in tracks:
            _comb(canvas, track, bundle, owner)
    return bottom


def _comb(canvas: Canvas, track: int, bundle: Bundle, owner: int) -> None:
    columns = bundle.exits + bundle.entries
    left, right = min(columns), max(columns)
    for column in range(left, right + 1):
        directions = (LEFT if column > left else 0) | (RIGHT if column < right else 0)
        directions |= (UP if column in bundle.exits else 0) | (DOWN if column in bundle.entries else 0)
        canvas.join(track, column, directions, owner)


def _bundles(upper: list[Box], lower: list[Box]) -> list[Bundle]:
    found: dict[tuple[int, ...], Bundle] = {}
    for number, box in enumerate(lower):
        if box.parents:
            found.setdefault(box.parents, Bundle(box.parents, [])).children.append(number)
    bundles = list(found.values())
    for number, box in enumerate(upper):
        leaving = [bundle for bundle in bundles if number in bundle.parents]
        leaving.sort(key=lambda bundle: sum(lower[child].centre for child in bundle.children) / len(bundle.children))
        for place, bundle in enumerate(leaving):
            bundle.exits = [*bundle.exits, _port(box, place, len(leaving))]
    for bundle in bundles:
        bundle.entries = [lower[child].centre for child in bundle.children]
    return bundles


def _port(box: Box, place: int, count: int) -> int:
    """Several bundles leave a box side by side."""
    if count == 1 or box.width == 1:
        return box.centre
    return box.left + max(1, min(box.width - 2, (place + 1) * box.width // (count + 1)))


def _in_order(bundles: list[Bundle]) -> list[Bundle]:
    """Bundles whose way down would run over another's way in come first, so that their rows lie above it."""
    waiting, ordered = list(bundles), list[Bundle]()
    while waiting:
        free = [
            one
            for one in waiting
            if not any(set(other.exits) & set(one.entries) for other in waiting if other is not one)
        ]
        ordered.append((free or waiting)[0])
        waiting.remove(ordered[-1])
    return ordered


def listed(plan: Plan) -> Iterator[str]:
    """One line a group of nodes, layer by layer, each with what it waits for."""
    groups = groups_of(plan)
    depth = layers_of(groups)
    labels = [label_of(plan, group) for group in groups]
    margin = len(str(max(depth, default=0) + 1))
    previous = -1
    for number in sorted(range(len(groups)), key=lambda one: (depth[one], one)):
        group = groups[number]
        step = str(depth[number] + 1) if depth[number] != previous else ""
        previous = depth[number]
        names = [labels[parent] for parent in group.parents]
        more = f" and {len(names) - PARENTS_LISTED_MAX} more" if len(names) > PARENTS_LISTED_MAX else ""
        after = f"  ← {', '.join(names[:PARENTS_LISTED_MAX])}{more}" if names else ""
        yield f"{step:>{margin}}  {labels[number]}{_kind(plan.nodes[group.nodes[0]])}{after}"


def _kind(node: NodePlan) -> str:
    return f"  ({_work(node)})" if node.kind is NodeKind.TASK else ""


def _work(node: NodePlan) -> str:
    """What runs, and over what."""
    return node.handler if node.loop is None else f"{node.handler}, each {node.loop.element}"


def as_mermaid(plan: Plan) -> Iterator[str]:
    """Mermaid's flowchart. Nodes go by number: ids of ours may be words of theirs."""
    yield "flowchart TD"
    for number, node in enumerate(plan.nodes):
        task = ("[", "]") if node.loop is None else ("[[", "]]")
        left, right = ("([", "])") if node.kind is not NodeKind.TASK else task
        label = node.id if node.kind is not NodeKind.TASK else f"{node.id}<br/><small>{_work(node)}</small>"
        yield f'    n{number}{left}"{label}"{right}'
    for number, children in enumerate(plan.children):
        yield from (f"    n{number} --> n{child}" for child in children)


def as_dot(plan: Plan) -> Iterator[str]:
    """Graphviz."""
    yield f'digraph "{plan.workflow_id}" {{'
    yield "    node [shape=box, style=rounded];"
    for node in plan.nodes:
        shape = "" if node.kind is NodeKind.TASK else ", shape=oval"
        shape = shape if node.loop is None else ", peripheries=2"
        label = f"{node.id}\\n{_work(node)}" if node.kind is NodeKind.TASK else node.id
        yield f'    "{node.id}" [label="{label}"{shape}];'
    for number, children in enumerate(plan.children):
        yield from (f'    "{plan.nodes[number].id}" -> "{plan.nodes[child].id}";' for child in children)
    yield "}"
