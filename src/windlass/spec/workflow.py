"""Build a checked definition from the tree of a document, and record all its problems."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

from windlass.core.durations import DAY_SECONDS
from windlass.core.errors import InputInvalid
from windlass.core.fields import ID_RULE
from windlass.core.templates.json_values import kind_of
from windlass.core.templates.template import templates_parsed
from windlass.spec.checks.edges import build_graph, check_reachability
from windlass.spec.checks.inputs import check_input, encode_schema
from windlass.spec.checks.references import check_action_references, check_references
from windlass.spec.checks.schemas import find_schema_error
from windlass.spec.definition import Definition, NodeDefinition, ScheduleDefinition
from windlass.spec.reading.findings import Findings, Path, Unreadable
from windlass.spec.reading.trees import is_object
from windlass.spec.sections.fields import (
    ID,
    Section,
    choice,
    duration,
    matching,
    read_anything,
    read_description,
    read_fields,
    read_section,
)
from windlass.spec.sections.loops import RESERVED, LoopElements
from windlass.spec.sections.nodes import (
    DEFAULTS,
    NODE_SOURCES,
    RawNode,
    ReadNode,
    finish_node,
    read_node,
    read_raw_nodes,
)
from windlass.spec.sections.retries import check_merge_path
from windlass.spec.sections.runs import (
    check_runs,
    read_actions,
    read_constraints,
    read_incoming_hook,
    read_run_retry,
)
from windlass.spec.sections.schedules import read_schedule

# Parsing a template that is not just a reference takes a tenth of a millisecond (timeit of "{{ a.b + 3 }}").
PARSED_TEMPLATES_MAX = 50_000
NODES_BETWEEN_COUNTS = 4


def read_input_schema(findings: Findings, path: Path, value: object) -> dict[str, Any]:
    """Read the JSON Schema of the input."""
    if not is_object(value):
        hint = "write {type: object, properties: {…}}"
        findings.reject(path, f"must be a JSON Schema: {kind_of(value)}", hint)
    error = find_schema_error(value)
    if error is not None:
        findings.add(path, f"invalid JSON Schema: {error}", "see https://json-schema.org")
    return value


def read_defaults(findings: Findings, path: Path, value: object) -> dict[str, Any]:
    """Read the values for nodes that do not have their own."""
    return read_section(findings, path, value, DEFAULTS)


WORKFLOW = Section(
    {
        "workflow_id": matching(ID, "workflow id", ID_RULE),
        "description": read_description,
        "input": read_input_schema,
        # The nodes are read after all other sections.
        **dict.fromkeys(NODE_SOURCES, read_anything),
        "defaults": read_defaults,
        "on_failure": choice("fail_fast", "continue"),
        "timeout_seconds": duration(0.001, 365 * DAY_SECONDS),
        "schedule": read_schedule,
        "constraints": read_constraints,
        "actions": read_actions,
        "run_retry": read_run_retry,
        "hook": read_incoming_hook,
        "default_alias": matching(ID, "alias", ID_RULE),
    },
    required=("workflow_id",),
    synonyms={
        "name": "workflow_id",
        "id": "workflow_id",
        "tasks": "nodes",
        "jobs": "nodes",
        "timeout": "timeout_seconds",
        "alias": "default_alias",
    },
)


def build_definition(
    tree: object, findings: Findings, handlers: Collection[str] | None, strict: bool
) -> Definition | None:
    """Return the definition in a tree; None, with the reasons among the findings, if it is invalid."""
    if not is_object(tree):
        actual = kind_of(tree)
        if tree is None:
            actual = "an empty document"
        findings.add(
            (), f"a workflow must be an object: {actual}", "write workflow_id: … and nodes: …"
        )
        return None
    workflow = _read_workflow(findings, tree)
    try:
        nodes = _read_nodes(findings, tree, workflow.pop("defaults", {}))
        if handlers is not None:
            _check_handlers(findings, nodes, handlers, strict)
        definitions = _define_nodes(findings, tree, nodes, workflow.get("input"))
        index = {node.raw.id: number for number, node in enumerate(nodes)}
        check_action_references(findings, workflow.get("actions", {}), index, workflow.get("input"))
        findings.stop_if_more_than(0)
    except Unreadable:
        return None
    return Definition(nodes=definitions, **workflow)


def _read_workflow(findings: Findings, tree: Mapping[str, object]) -> dict[str, Any]:
    """Read all sections but the nodes."""
    workflow = read_fields(findings, (), tree, WORKFLOW)
    for source in NODE_SOURCES:
        workflow.pop(source, None)
    if "schedule" in workflow:
        _check_schedule(findings, workflow["schedule"], workflow.get("input"))
    if not findings.has_errors:
        check_runs(findings, workflow)
    return workflow


def _check_schedule(
    findings: Findings, schedule: ScheduleDefinition, input_schema: dict[str, Any] | None
) -> None:
    """Check the input of scheduled jobs. It may be missing: such a workflow can still be started with an input."""
    try:
        check_input(encode_schema(input_schema), schedule.input)
    except InputInvalid as error:
        record = findings.warn
        if schedule.input:
            record = findings.add
        for problem in error.problems:
            message = f"invalid input of the schedule: {problem.message}"
            if problem.path:
                message += f" (at {problem.path})"
            record(
                ("schedule", "input"),
                message,
                "write it under schedule, as in input: {name: value}",
            )


def _read_nodes(
    findings: Findings, tree: Mapping[str, object], defaults: Mapping[str, Any]
) -> list[ReadNode]:
    """Return the nodes, ordered by id."""
    raw_nodes: list[RawNode] = sorted(read_raw_nodes(findings, tree), key=attrgetter("id"))
    nodes: list[ReadNode] = []
    parsed_max = templates_parsed() + PARSED_TEMPLATES_MAX
    for number, raw in enumerate(raw_nodes):
        nodes.append(read_node(findings, raw, defaults))
        if number % NODES_BETWEEN_COUNTS == 0 and templates_parsed() > parsed_max:
            message = f"more than {PARSED_TEMPLATES_MAX} different templates with computations"
            hint = "pass plain references such as {{ a.output.x }}, and compute in handlers"
            findings.reject(raw.path, message, hint)
    return nodes


def _define_nodes(
    findings: Findings,
    tree: Mapping[str, object],
    nodes: Sequence[ReadNode],
    input_schema: Mapping[str, Any] | None,
) -> list[NodeDefinition]:
    """Check the nodes against each other, and return them in topological order."""
    index = {node.raw.id: number for number, node in enumerate(nodes)}
    elements = LoopElements(findings, index)
    for node in nodes:
        if "loop" in node.values:
            elements.check(node.raw.path, node.values)
        if "retry" in node.values:
            check_merge_path(findings, node.raw.path, node.values)
    graph = build_graph(findings, nodes, index, is_step_list="nodes" not in tree)
    check_reachability(findings, nodes, graph)
    for name in sorted(RESERVED & index.keys()):
        message = f"reserved name: templates cannot read the node '{name}' by its name alone"
        findings.warn(
            nodes[index[name]].raw.path,
            message,
            f"write nodes['{name}'], or rename it",
            at_key=True,
        )
    check_references(findings, nodes, index, graph, input_schema)
    findings.stop_if_more_than(0)
    ids = list(index)
    definitions: list[NodeDefinition] = []
    for number in graph.order:
        dependencies = tuple([ids[parent] for parent in graph.parents[number]])
        definitions.append(finish_node(nodes[number], dependencies))
    return definitions


def _check_handlers(
    findings: Findings, nodes: Sequence[ReadNode], handlers: Collection[str], strict: bool
) -> None:
    known = sorted(handlers)
    record = findings.warn
    if strict:
        record = findings.add
    for node in nodes:
        handler = node.values.get("handler")
        if handler is None or handler in handlers:
            continue
        hint = findings.suggest(
            handler, known, "import its module with --import, or start a worker that has it"
        )
        record(
            (*node.raw.path, node.raw.spelling("handler")), f"unknown handler: '{handler}'", hint
        )
