"""Turns a plain tree into a checked definition, noting everything that is wrong with it at once."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, cast

from windlass.core.templates.json_values import kind_of
from windlass.core.templates.template import templates_parsed
from windlass.spec.checks.graph import children_of, find_cycle, reachable_from, topological_order
from windlass.spec.checks.references import check_references
from windlass.spec.checks.schemas import schema_fault
from windlass.spec.definition import Definition, Node, OnSuccess
from windlass.spec.reading.findings import Findings, Path, Unreadable
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections import runs, schedules
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    ID,
    ID_RULE,
    Read,
    choice,
    description,
    duration,
    matching,
    read_section,
)
from windlass.spec.sections.loops import RESERVED, Elements
from windlass.spec.sections.nodes import DEFAULTS, SPELLINGS, RawNode, ReadNode, finish_node, raw_nodes, read_node

EDGES_MAX = 2_000_000
# Templates that are more than a reference take a tenth of a millisecond each to parse.
PARSED_TEMPLATES_MAX = 50_000
NODES_BETWEEN_COUNTS = 4
CYCLE_SHOWN_MAX = 12


def input_schema(findings: Findings, path: Path, value: object) -> dict[str, Any] | None:
    """The JSON Schema of the input."""
    if not is_object(value):
        findings.add(path, f"`input` is a JSON Schema, not {kind_of(value)}", "write {type: object, properties: {…}}")
        return None
    schema = cast("dict[str, Any]", value)
    fault = schema_fault(schema)
    if fault is not None:
        findings.add(path, f"the schema cannot be used: {fault}", "see https://json-schema.org for what it may say")
    return schema


def defaults(findings: Findings, path: Path, value: object) -> dict[str, Any] | None:
    """What nodes that say nothing else get."""
    return read_section(findings, path, value, DEFAULTS)


def _nothing(findings: Findings, path: Path, value: object) -> None:
    """Nodes are read by themselves."""


TOP: Mapping[str, Read] = {
    "workflow_id": matching(ID, "workflow id", ID_RULE),
    "description": description,
    "input": input_schema,
    "nodes": _nothing,
    "steps": _nothing,
    "workflow": _nothing,
    "defaults": defaults,
    "on_failure": choice("fail_fast", "continue"),
    "timeout_seconds": duration(0.001, 365 * DAY_SECONDS),
    "schedule": schedules.schedule,
    "constraints": runs.constraints,
    "actions": runs.actions,
    "run_retry": runs.run_retry,
    "hook": runs.incoming,
}
MEANT: Mapping[str, str] = {
    "name": "workflow_id",
    "id": "workflow_id",
    "tasks": "nodes",
    "jobs": "nodes",
    "timeout": "timeout_seconds",
}


def check_tree(tree: object, findings: Findings, handlers: Collection[str] | None, strict: bool) -> Definition | None:
    """The definition that a tree holds; None, with the reasons among the findings, when it holds none."""
    if not is_object(tree):
        what = "empty" if tree is None else kind_of(tree)
        findings.add((), f"a workflow is an object, and this document is {what}", "write workflow_id: … and nodes: …")
        return None
    top: dict[str, Any] = {}
    fields = tree
    for key, value in fields.items():
        reader = TOP.get(key)
        if reader is None:
            findings.add(
                (key,), f"a workflow has no key '{key}'", findings.unknown_key(key, list(TOP), MEANT), at_key=True
            )
        elif (read := reader(findings, (key,), value)) is not None:
            top[key] = read
    if "workflow_id" not in fields:
        findings.add((), "'workflow_id' is missing", "add workflow_id: a_name")
    schedules.check_scheduled_input(findings, top)
    if not findings.refused:
        runs.check_together(findings, top)
    try:
        nodes = _checked_nodes(findings, fields, top, handlers, strict)
    except Unreadable:
        return None
    if findings.refused or nodes is None:
        return None
    top.pop("defaults", None)
    return Definition(nodes=nodes, **top)


def _checked_nodes(
    findings: Findings,
    fields: Mapping[str, object],
    top: Mapping[str, Any],
    handlers: Collection[str] | None,
    strict: bool,
) -> list[Node] | None:
    raws = sorted(raw_nodes(findings, fields), key=attrgetter("id"))
    written = raws if "nodes" in fields else sorted(raws, key=lambda raw: raw.path[-1])
    fallback: Mapping[str, Any] = top.get("defaults") or {}
    nodes = _read_nodes(findings, raws, fallback)
    if handlers is not None:
        _check_handlers(findings, nodes, handlers, strict)
    index = {node.raw.id: number for number, node in enumerate(nodes)}
    _settle_repeats(findings, nodes, index)
    parents = _edges(findings, nodes, index)
    if "nodes" not in fields and not any(node.dependencies or node.following for node in nodes):
        chain = [index[raw.id] for raw in written]
        for before, after in pairwise(chain):
            parents[after] = [before]
    if sum(map(len, parents)) > EDGES_MAX:
        findings.add(("nodes",), f"there are more than {EDGES_MAX} edges", "put a node between large groups")
        return None
    children = children_of(parents)
    order = topological_order(parents, children)
    if len(order) < len(nodes):
        _note_cycle(findings, nodes, find_cycle(parents, order))
        return None
    _check_shape(findings, nodes, index, children)
    check_references(findings, nodes, index, parents, order, top.get("input"))
    if findings.refused:
        return None
    names = [node.raw.id for node in nodes]
    return [finish_node(nodes[at], tuple([names[parent] for parent in parents[at]])) for at in order]


def _read_nodes(findings: Findings, raws: Sequence[RawNode], fallback: Mapping[str, Any]) -> list[ReadNode]:
    nodes: list[ReadNode] = []
    parsed_max = templates_parsed() + PARSED_TEMPLATES_MAX
    for number, raw in enumerate(raws):
        nodes.append(read_node(findings, raw, fallback))
        if number % NODES_BETWEEN_COUNTS == 0 and templates_parsed() > parsed_max:
            message = f"there are more than {PARSED_TEMPLATES_MAX} different templates that compute something"
            findings.add(raw.path, message, "pass plain references such as {{ a.output.x }}, and compute in handlers")
            raise Unreadable
    return nodes


def _settle_repeats(findings: Findings, nodes: Sequence[ReadNode], index: Mapping[str, int]) -> None:
    """What loops and pages mean beside the other nodes and the other keys of their node."""
    elements = Elements(findings, index)
    for node in nodes:
        values = node.values
        if "loop" in values:
            elements.settle(node.raw.path, values)
        if "retry" in values:
            further: OnSuccess | None = values["retry"].get("on_success")
            # A sink takes its rows from there too.
            if further and further.merge_path and further.collect != "append" and "sink" not in values:
                message = f"merge_path is not used: with collect: {further.collect} nothing is merged"
                place = (*node.raw.path, "retry", "on_success", "merge_path")
                findings.warn(place, message, "write collect: append, or remove merge_path", at_key=True)


def _edges(findings: Findings, nodes: Sequence[ReadNode], index: Mapping[str, int]) -> list[list[int]]:
    """For each node the numbers of those before it, sorted, from `dependencies` and `next` together."""
    parents: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        above = parents[number]
        for other in node.dependencies:
            parent = index.get(other)
            if parent is None or parent == number:
                _note_edge(findings, node, "dependencies", other, index)
            else:
                above.append(parent)
        for other in node.following:
            child = index.get(other)
            if child is None or child == number:
                _note_edge(findings, node, "next", other, index)
            else:
                parents[child].append(number)
    parents = [sorted(set(above)) if len(above) > 1 else above for above in parents]
    _check_markers(findings, nodes, parents)
    return parents


def _note_edge(findings: Findings, node: ReadNode, name: str, other: str, index: Mapping[str, int]) -> None:
    path, place = _edge_path(node, name, other)
    if other == node.raw.id:
        findings.add((*path, *place), f"the node '{other}' cannot follow itself", f"remove it from '{path[-1]}'")
        return
    hint = findings.like(other, list(index), "name a node of this workflow")
    findings.add((*path, *place), f"there is no node '{other[:80]}'", hint)


def _edge_path(node: ReadNode, name: str, other: str) -> tuple[Path, Path]:
    """Where in the document an edge is written: the key, and the index in its list."""
    for key, value in node.raw.fields.items():
        if SPELLINGS.get(key, key) != name:
            continue
        if value == other:
            return (*node.raw.path, key), ()
        if is_array(value) and other in value:
            return (*node.raw.path, key), (value.index(other),)
    return node.raw.path, ()


def _check_markers(findings: Findings, nodes: Sequence[ReadNode], parents: Sequence[Sequence[int]]) -> None:
    """Nothing comes before START or after END, whichever end of the edge says so."""
    kinds = [node.values["type"] for node in nodes]
    if "start" not in kinds and "end" not in kinds:
        return
    ends = {number for number, kind in enumerate(kinds) if kind == "end"}
    for number, node in enumerate(nodes):
        if kinds[number] == "start" and parents[number] and not node.dependencies:
            before = nodes[parents[number][0]].raw.id
            findings.add(
                node.raw.path, f"'{node.raw.id}' is a start node, but '{before}' leads to it", "remove that edge"
            )
        for parent in ends.intersection(parents[number]) if ends else ():
            if not nodes[parent].following:
                message = f"'{node.raw.id}' waits for '{nodes[parent].raw.id}', which ends the workflow"
                findings.add(node.raw.path, message, "depend on another node")


def _note_cycle(findings: Findings, nodes: Sequence[ReadNode], cycle: Sequence[int]) -> None:
    names = [nodes[number].raw.id for number in cycle]
    # Begin with the name that sorts first, so that the message does not depend on the search.
    first = names.index(min(names))
    names = [*names[first:], *names[:first]]
    shown = names if len(names) <= CYCLE_SHOWN_MAX else [*names[:CYCLE_SHOWN_MAX], f"… ({len(names)} nodes)"]
    raw = nodes[cycle[first]].raw
    findings.add(
        raw.path, f"the nodes wait for each other in a circle: {' → '.join([*shown, names[0]])}", "remove an edge"
    )


def _check_shape(
    findings: Findings, nodes: Sequence[ReadNode], index: Mapping[str, int], children: Sequence[Sequence[int]]
) -> None:
    starts = [number for number, node in enumerate(nodes) if node.values["type"] == "start"]
    if starts:
        reached = reachable_from(starts, children)
        for number, node in enumerate(nodes):
            if not reached[number]:
                message = f"no path leads from the start node to '{node.raw.id}'"
                findings.add(node.raw.path, message, "connect it, or remove the start node", at_key=True)
    for name in sorted(RESERVED & index.keys()):
        message = f"templates cannot name the node '{name}' alone: that word means something else"
        findings.warn(nodes[index[name]].raw.path, message, f"write nodes['{name}'], or rename it", at_key=True)


def _check_handlers(findings: Findings, nodes: Sequence[ReadNode], handlers: Collection[str], strict: bool) -> None:
    known = sorted(handlers)
    for node in nodes:
        handler = node.values.get("handler")
        if handler is None or handler in handlers:
            continue
        hint = findings.like(handler, known, "a worker must register it before the node runs")
        key = "tool" if "tool" in node.raw.fields else "handler"
        note = findings.add if strict else findings.warn
        note((*node.raw.path, key), f"there is no handler '{handler}' here", hint)
