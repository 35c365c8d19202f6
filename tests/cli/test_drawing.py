"""Workflows drawn as text, Mermaid and DOT."""

from array import array

from windlass.cli.output.drawing import draw_dot, draw_mermaid, draw_text
from windlass.core.plan import LoopPlan, NodeKind, NodePlan, Plan
from windlass.core.templates.template import compile_template

KINDS = {"start": NodeKind.START, "end": NodeKind.END}


def plan_of(edges: dict[str, list[str]]) -> Plan:
    """Build a plan; parents must come before their children."""
    index = {node_id: number for number, node_id in enumerate(edges)}
    children = [tuple(index[child] for child in after) for after in edges.values()]
    parents = [
        tuple(up for up, down in enumerate(children) if number in down)
        for number in range(len(edges))
    ]
    kinds = [KINDS.get(node_id, NodeKind.TASK) for node_id in edges]
    handlers = {NodeKind.TASK: "echo"}
    nodes = [
        NodePlan(node_id, kind, handlers.get(kind, ""))
        for node_id, kind in zip(edges, kinds, strict=True)
    ]
    return Plan("drawn", 1, nodes, index, parents, children, array("i", map(len, parents)))


DIAMOND = {
    "start": ["left", "right"],
    "left": ["join"],
    "right": ["join"],
    "join": ["end"],
    "end": [],
}


def test_a_diamond_is_drawn_with_boxes_and_lines() -> None:
    assert draw_text(plan_of(DIAMOND), 80).splitlines() == [
        "    ┌─────────┐",
        "    │ ▶ start │",
        "    └────┬────┘",
        "    ┌────┴─────┐",
        "┌───▼──┐   ┌───▼───┐",
        "│ left │   │ right │",
        "└───┬──┘   └───┬───┘",
        "    └────┬─────┘",
        "     ┌───▼──┐",
        "     │ join │",
        "     └───┬──┘",
        "     ┌───▼───┐",
        "     │ ■ end │",
        "     └───────┘",
    ]


def test_a_long_edge_passes_beside_the_boxes_it_skips() -> None:
    drawn = draw_text(plan_of({"a": ["b", "c"], "b": ["c"], "c": []}), 80)

    assert drawn.splitlines() == [
        "   ┌───┐",
        "   │ a │",
        "   └─┬─┘",
        "  ┌──┴──┐",
        "┌─▼─┐   │",
        "│ b │   │",
        "└─┬─┘   │",
        "  └──┬──┘",
        "   ┌─▼─┐",
        "   │ c │",
        "   └───┘",
    ]


def test_similar_siblings_share_one_box() -> None:
    fan = {f"work_{number}": ["end"] for number in range(200)}

    drawn = draw_text(plan_of({"start": list(fan), **fan, "end": []}), 80)

    assert "│ work_0 … work_199 ×200 │" in drawn
    assert len(drawn.splitlines()) == 9


def test_a_graph_wider_than_the_terminal_is_listed_by_layers() -> None:
    assert draw_text(plan_of(DIAMOND), 10).splitlines() == [
        "1  ▶ start",
        "2  left  (echo)  ← ▶ start",
        "   right  (echo)  ← ▶ start",
        "3  join  (echo)  ← left, right",
        "4  ■ end  ← join",
    ]


def test_mermaid_ids_are_numbers_because_end_is_a_keyword() -> None:
    lines = draw_mermaid(plan_of(DIAMOND)).splitlines()

    assert lines[0] == "flowchart TD"
    assert '    n4(["end"])' in lines
    assert [line.strip() for line in lines if "-->" in line] == [
        "n0 --> n1", "n0 --> n2", "n1 --> n3", "n2 --> n3", "n3 --> n4",
    ]  # fmt: skip


def test_dot_contains_every_node_and_edge() -> None:
    lines = draw_dot(plan_of(DIAMOND)).splitlines()

    assert lines[0] == 'digraph "drawn" {'
    assert '    "left" -> "join";' in lines
    assert lines[-1] == "}"


def looping(plan: Plan, *node_ids: str) -> Plan:
    """The same plan with some of its nodes in a loop over users."""
    users = LoopPlan(compile_template("{{ input.users }}"), "user")
    for node_id in node_ids:
        number = plan.index[node_id]
        plan.nodes[number] = NodePlan(node_id, NodeKind.TASK, "echo", loop=users)
    return plan


def test_a_loop_has_a_symbol_in_its_box() -> None:
    drawn = draw_text(looping(plan_of({"a": ["b"], "b": []}), "b"), 80)

    assert drawn.splitlines()[-3:] == ["┌──▼──┐", "│ ↻ b │", "└─────┘"]


def test_a_listed_loop_has_its_element() -> None:
    lines = draw_text(looping(plan_of(DIAMOND), "left"), 10).splitlines()

    assert lines[1:3] == ["2  ↻ left  (echo, each user)  ← ▶ start", "   right  (echo)  ← ▶ start"]


def test_loops_and_single_tasks_do_not_share_a_box() -> None:
    fan = {f"work_{number}": ["end"] for number in range(8)}

    drawn = draw_text(looping(plan_of({"start": list(fan), **fan, "end": []}), *list(fan)[4:]), 80)

    assert "│ work_0 … work_3 ×4 │" in drawn
    assert "│ ↻ work_4 … work_7 ×4 │" in drawn


def test_mermaid_and_dot_draw_loops_with_another_shape() -> None:
    plan = looping(plan_of(DIAMOND), "left")

    assert '    n1[["left<br/><small>echo, each user</small>"]]' in draw_mermaid(plan)
    assert '    "left" [label="left\\necho, each user", peripheries=2];' in draw_dot(plan)
