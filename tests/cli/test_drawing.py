"""Workflows drawn as text, Mermaid and DOT."""

from array import array

from windlass.cli.drawing import as_dot, as_mermaid, as_text
from windlass.core.plan import NodeKind, NodePlan, Plan

KINDS = {"start": NodeKind.START, "end": NodeKind.END}


def plan_of(edges: dict[str, list[str]]) -> Plan:
    """A plan whose nodes stand in the order in which the edges name them, parents first."""
    index = {node_id: number for number, node_id in enumerate(edges)}
    children = [tuple(index[child] for child in after) for after in edges.values()]
    parents = [tuple(up for up, down in enumerate(children) if number in down) for number in range(len(edges))]
    kinds = [KINDS.get(node_id, NodeKind.TASK) for node_id in edges]
    nodes = [NodePlan(node_id, kind, "" if kind else "echo") for node_id, kind in zip(edges, kinds, strict=True)]
    return Plan("drawn", 1, nodes, index, parents, children, array("i", map(len, parents)))


DIAMOND = {"start": ["left", "right"], "left": ["join"], "right": ["join"], "join": ["end"], "end": []}


def test_a_diamond_is_drawn_with_its_lines() -> None:
    assert as_text(plan_of(DIAMOND), 80).splitlines() == [
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
    drawn = as_text(plan_of({"a": ["b", "c"], "b": ["c"], "c": []}), 80)

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


def test_a_wide_fan_of_like_nodes_is_one_box() -> None:
    fan = {f"work_{number}": ["end"] for number in range(200)}

    drawn = as_text(plan_of({"start": list(fan), **fan, "end": []}), 80)

    assert "│ work_0 … work_199 ×200 │" in drawn
    assert len(drawn.splitlines()) == 9


def test_what_does_not_fit_the_width_is_listed_by_layers() -> None:
    assert as_text(plan_of(DIAMOND), 10).splitlines() == [
        "1  ▶ start",
        "2  left  (echo)  ← ▶ start",
        "   right  (echo)  ← ▶ start",
        "3  join  (echo)  ← left, right",
        "4  ■ end  ← join",
    ]


def test_mermaid_numbers_nodes_because_end_is_a_word_of_its_own() -> None:
    lines = list(as_mermaid(plan_of(DIAMOND)))

    assert lines[0] == "flowchart TD"
    assert '    n4(["end"])' in lines
    assert [line.strip() for line in lines if "-->" in line] == [
        "n0 --> n1", "n0 --> n2", "n1 --> n3", "n2 --> n3", "n3 --> n4",
    ]  # fmt: skip


def test_dot_names_every_node_and_edge() -> None:
    lines = list(as_dot(plan_of(DIAMOND)))

    assert lines[0] == 'digraph "drawn" {'
    assert '    "left" -> "join";' in lines
    assert lines[-1] == "}"
