"""A workflow as boxes and lines, as a list of layers, as Mermaid and as DOT."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from windlass.cli.output.layout import Box, assign_layers, group_nodes, label_of, lay_out
from windlass.cli.output.text import list_names
from windlass.core.plan import NodeKind, NodePlan, Plan

BOXES_MAX = 60
LAYER_BOXES_MAX = 12
PARENTS_LISTED_MAX = 6
BOX_ROWS = 3
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
VERTICAL, HORIZONTAL = UP | DOWN, LEFT | RIGHT
LINES = {
    UP: "│", DOWN: "│", VERTICAL: "│", LEFT: "─", RIGHT: "─", HORIZONTAL: "─", DOWN | RIGHT: "┌", DOWN | LEFT: "┐",
    UP | RIGHT: "└", UP | LEFT: "┘", VERTICAL | RIGHT: "├", VERTICAL | LEFT: "┤", DOWN | HORIZONTAL: "┬",
    UP | HORIZONTAL: "┴", VERTICAL | HORIZONTAL: "┼",
}  # fmt: skip

MERMAID_SHAPES = {
    "terminal": '(["{id}"])',
    "task": '["{id}<br/><small>{work}</small>"]',
    "loop": '[["{id}<br/><small>{work}</small>"]]',
}
DOT_ATTRIBUTES = {
    "terminal": 'label="{id}", shape=oval',
    "task": 'label="{id}\\n{work}"',
    "loop": 'label="{id}\\n{work}", peripheries=2',
}


class Bundle(Struct):
    """The edges from the same parents to several children of the next layer, drawn as one comb."""

    parents: tuple[int, ...]
    children: list[int]
    # Columns in which the edges leave the parents and enter the children.
    exits: list[int] = []
    entries: list[int] = []

    @property
    def is_straight(self) -> bool:
        return len({*self.exits, *self.entries}) == 1


class Canvas:
    """A grid of characters, on which lines join where they meet."""

    def __init__(self) -> None:
        self.rows: list[dict[int, str]] = []
        # The directions of the line in each cell, and the bundle it belongs to.
        self.lines: dict[tuple[int, int], tuple[int, int]] = {}

    def write(self, row: int, column: int, text: str) -> None:
        """Write text at a position."""
        while len(self.rows) <= row:
            self.rows.append({})
        for offset, character in enumerate(text):
            self.rows[row][column + offset] = character

    def add_line(self, row: int, column: int, directions: int, owner: int) -> None:
        """Add line ends to a cell. Where lines of two bundles cross, the vertical one passes over the other."""
        previous, previous_owner = self.lines.get((row, column), (0, owner))
        if previous_owner != owner and {previous, directions} == {HORIZONTAL, VERTICAL}:
            directions = VERTICAL
        else:
            directions |= previous
        self.lines[row, column] = directions, owner
        self.write(row, column, LINES[directions])

    def add_vertical(self, rows: range, column: int, owner: int) -> None:
        """Add a vertical line."""
        for row in rows:
            self.add_line(row, column, VERTICAL, owner)

    def text(self) -> str:
        """Return everything that was written."""
        return "\n".join(_row_text(row) for row in self.rows)


def _row_text(row: dict[int, str]) -> str:
    width = max(row, default=-1) + 1
    return "".join(row.get(column, " ") for column in range(width)).rstrip()


def draw_text(plan: Plan, width: int) -> str:
    """Return boxes and lines if they fit into `width`, otherwise a list of layers."""
    layers = assign_layers(group_nodes(plan))
    layer_boxes = max(Counter(layers).values(), default=0)
    if len(layers) <= BOXES_MAX and layer_boxes <= LAYER_BOXES_MAX:
        boxes = lay_out(plan)
        if _drawing_width(boxes) <= width:
            return draw_boxes(boxes)
    return list_layers(plan)


def _drawing_width(layers: Sequence[Sequence[Box]]) -> int:
    return max((box.left + box.width for layer in layers for box in layer), default=0)


def draw_boxes(layers: Sequence[Sequence[Box]]) -> str:
    """Return the boxes of each layer and the lines between them."""
    canvas = Canvas()
    row = 0
    for number, layer in enumerate(layers):
        for box in layer:
            _draw_box(canvas, row, box)
        if number + 1 < len(layers):
            row = _connect(canvas, row + BOX_ROWS, layer, layers[number + 1])
    return canvas.text()


def _draw_box(canvas: Canvas, row: int, box: Box) -> None:
    if not box.label:
        for offset in range(BOX_ROWS):
            canvas.write(row + offset, box.left, "│")
        return
    line = "─" * (box.width - 2)
    canvas.write(row, box.left, f"┌{line}┐")
    canvas.write(row + 1, box.left, f"│ {box.label} │")
    canvas.write(row + 2, box.left, f"└{line}┘")
    if box.parents:
        canvas.write(row, box.center, "▼")


def _connect(canvas: Canvas, top: int, upper: Sequence[Box], lower: Sequence[Box]) -> int:
    """Draw the lines between two layers, one row per bundle that turns; return the first row of the lower boxes."""
    bundles = _bundles(upper, lower)
    turning = _in_drawing_order([bundle for bundle in bundles if not bundle.is_straight])
    bottom = top + len(turning)
    _open_boxes(canvas, top - 1, upper, bundles)
    # The row in which a bundle turns; straight bundles pass all rows.
    turns = {id(bundle): top + offset for offset, bundle in enumerate(turning)}
    for owner, bundle in enumerate(bundles):
        turn = turns.get(id(bundle), bottom)
        for column in bundle.exits:
            canvas.add_vertical(range(top, turn), column, owner)
        for column in bundle.entries:
            canvas.add_vertical(range(turn + 1, bottom), column, owner)
        if turn < bottom:
            _draw_comb(canvas, turn, bundle, owner)
    return bottom


def _open_boxes(canvas: Canvas, row: int, upper: Sequence[Box], bundles: Sequence[Bundle]) -> None:
    """Draw where lines leave the lower borders of boxes; passages of long edges have no border."""
    passages = {box.left for box in upper if not box.label}
    for bundle in bundles:
        for column in set(bundle.exits) - passages:
            canvas.write(row, column, "┬")


def _draw_comb(canvas: Canvas, row: int, bundle: Bundle, owner: int) -> None:
    """Draw the horizontal line that connects all exits and entries of a bundle."""
    columns = [*bundle.exits, *bundle.entries]
    left, right = min(columns), max(columns)
    for column in range(left, right + 1):
        sides = LEFT * (column > left) | RIGHT * (column < right)
        ends = UP * (column in bundle.exits) | DOWN * (column in bundle.entries)
        canvas.add_line(row, column, sides | ends, owner)


def _bundles(upper: Sequence[Box], lower: Sequence[Box]) -> list[Bundle]:
    by_parents: dict[tuple[int, ...], Bundle] = {}
    for number, box in enumerate(lower):
        if box.parents:
            by_parents.setdefault(box.parents, Bundle(box.parents, [])).children.append(number)
    bundles = list(by_parents.values())
    for bundle in bundles:
        bundle.entries = [lower[child].center for child in bundle.children]
    for number, box in enumerate(upper):
        leaving = [bundle for bundle in bundles if number in bundle.parents]
        leaving.sort(key=_average_entry)
        for place, bundle in enumerate(leaving):
            bundle.exits = [*bundle.exits, _exit_column(box, place, len(leaving))]
    return bundles


def _average_entry(bundle: Bundle) -> float:
    return sum(bundle.entries) / len(bundle.entries)


def _exit_column(box: Box, place: int, count: int) -> int:
    """Return where a bundle leaves a box; several bundles leave it side by side."""
    if count == 1 or box.width == 1:
        return box.center
    column = (place + 1) * box.width // (count + 1)
    return box.left + max(1, min(box.width - 2, column))


def _in_drawing_order(bundles: Sequence[Bundle]) -> list[Bundle]:
    """Return the bundles from the top row down, so that exits of one do not run through entries of another."""
    remaining = list(bundles)
    ordered: list[Bundle] = []
    while remaining:
        chosen = next(
            (bundle for bundle in remaining if not _is_blocked(bundle, remaining)), remaining[0]
        )
        ordered.append(chosen)
        remaining.remove(chosen)
    return ordered


def _is_blocked(bundle: Bundle, remaining: Sequence[Bundle]) -> bool:
    others = [other for other in remaining if other is not bundle]
    return any(set(other.exits).intersection(bundle.entries) for other in others)


def list_layers(plan: Plan) -> str:
    """Return one line per group of nodes, layer by layer, with its dependencies."""
    groups = group_nodes(plan)
    layers = assign_layers(groups)
    labels = [label_of(plan, group) for group in groups]
    number_width = len(str(max(layers, default=0) + 1))
    lines: list[str] = []
    previous = -1
    for number in sorted(range(len(groups)), key=lambda number: (layers[number], number)):
        group = groups[number]
        heading = ""
        if layers[number] != previous:
            previous = layers[number]
            heading = str(previous + 1)
        line = f"{heading:>{number_width}}  {labels[number]}"
        first = plan.nodes[group.nodes[0]]
        if first.kind is NodeKind.TASK:
            line += f"  ({_work(first)})"
        if group.parents:
            line += f"  ← {list_names([labels[parent] for parent in group.parents], PARENTS_LISTED_MAX)}"
        lines.append(line)
    return "\n".join(lines)


def _work(node: NodePlan) -> str:
    """Return the handler of a node and the element of its loop."""
    if node.loop is None:
        return node.handler
    return f"{node.handler}, each {node.loop.element}"


def _shape(node: NodePlan) -> str:
    if node.kind is not NodeKind.TASK:
        return "terminal"
    if node.loop is None:
        return "task"
    return "loop"


def draw_mermaid(plan: Plan) -> str:
    """Return a Mermaid flowchart. Its ids are numbers, since node ids may be keywords of Mermaid."""
    lines = ["flowchart TD"]
    for number, node in enumerate(plan.nodes):
        shape = MERMAID_SHAPES[_shape(node)].format(id=node.id, work=_work(node))
        lines.append(f"    n{number}{shape}")
    for number, children in enumerate(plan.children):
        lines.extend(f"    n{number} --> n{child}" for child in children)
    return "\n".join(lines)


def draw_dot(plan: Plan) -> str:
    """Return a Graphviz graph."""
    lines = [f'digraph "{plan.workflow_id}" {{', "    node [shape=box, style=rounded];"]
    for node in plan.nodes:
        attributes = DOT_ATTRIBUTES[_shape(node)].format(id=node.id, work=_work(node))
        lines.append(f'    "{node.id}" [{attributes}];')
    for number, children in enumerate(plan.children):
        source = plan.nodes[number].id
        lines.extend(f'    "{source}" -> "{plan.nodes[child].id}";' for child in children)
    lines.append("}")
    return "\n".join(lines)
