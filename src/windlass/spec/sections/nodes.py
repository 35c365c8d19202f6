"""The nodes of a document, in any of its three spellings."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from windlass.core.durations import DAY_SECONDS
from windlass.core.fields import ID_RULE, PRIORITY_MAX, PRIORITY_MIN
from windlass.core.plan import NodeKind, RetryOnError
from windlass.core.runs.containers import CONTAINER
from windlass.core.runs.rules import HOOK_ATTEMPTS
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template
from windlass.core.webhooks import HANDLER as WEBHOOK
from windlass.spec.checks.containers import check_container_params
from windlass.spec.definition import NodeDefinition
from windlass.spec.reading.findings import Findings, Path, Unreadable
from windlass.spec.reading.trees import entries, is_array, is_object
from windlass.spec.sections.fields import (
    ID,
    QUEUE,
    Read,
    Section,
    choice,
    duration,
    integer,
    matching,
    read_anything,
    read_boolean,
    read_condition,
    read_node_ids,
    read_object_template,
    read_template,
    read_text,
)
from windlass.spec.sections.loops import read_loop
from windlass.spec.sections.retries import read_retry
from windlass.spec.sections.sinks import read_sink

# The keys that may contain the nodes, and what is expected there.
NODE_SOURCES: Mapping[str, str] = {
    "nodes": "an object or a list of nodes",
    "steps": "a list of steps",
    "workflow": "a list of steps",
}
# The key with the id of a node in a list.
LIST_ID_KEYS: Mapping[str | int, str] = {"nodes": "id", "steps": "step", "workflow": "step"}
NODES_MAX = 250_000
# A worker reports the start of a task up to a second later.
START_SECONDS_MIN = 1.0

# Further spellings of keys.
ALIASES: Mapping[str, str] = {
    "tool": "handler",
    "config": "params",
    "if": "when",
    "needs": "dependencies",
    "depends_on": "dependencies",
}
SYNONYMS: Mapping[str, str] = {
    "depends": "dependencies",
    "dependency": "dependencies",
    "after": "dependencies",
    "retries": "retry",
    "timeout": "timeout_seconds",
    "name": "id",
    "kind": "type",
    "args": "params",
    "parameters": "params",
    "with": "params",
    "condition": "when",
    "uses": "handler",
    "for_each": "loop",
    "foreach": "loop",
    "with_items": "loop",
    "save": "sink",
}
# Keys that a node and the `defaults` of the workflow may both have.
SHARED: Mapping[str, Read] = {
    "queue": matching(QUEUE, "queue name", "use 1 to 64 letters, digits, _, - and ."),
    "timeout_seconds": duration(0.001, 30 * DAY_SECONDS),
    "start_timeout": duration(START_SECONDS_MIN, 30 * DAY_SECONDS),
    "priority": integer(PRIORITY_MIN, PRIORITY_MAX),
    "allow_failure": read_boolean,
    "retry": read_retry,
}
DEFAULTS = Section(SHARED)
NODE: Mapping[str, Read] = {
    "id": read_anything,
    "type": choice(*(kind.value for kind in NodeKind)),
    "handler": matching(ID, "handler name", ID_RULE),
    "params": read_object_template,
    "when": read_condition,
    "dependencies": read_node_ids,
    "next": read_node_ids,
    "run_if_skipped": read_boolean,
    "description": read_text,
    "loop": read_loop,
    "sink": read_sink,
    **SHARED,
}
ALL_KEYS = (*NODE, *ALIASES)
# Other keys of a step belong to its handler.
STEP_KEYS = frozenset({"step", *ALL_KEYS}) - {"params", "config", "id"}
# The edges that a start or end node cannot declare.
MARKER_EDGES: Mapping[NodeKind, str] = {NodeKind.START: "dependencies", NodeKind.END: "next"}
TASK_KEYS = (
    "handler",
    "params",
    "loop",
    "sink",
    "retry",
    "queue",
    "timeout_seconds",
    "start_timeout",
)
_READERS: Mapping[str, tuple[str, Read]] = {
    "step": ("step", read_anything),
    **{key: (key, read) for key, read in NODE.items()},
    **{alias: (key, NODE[key]) for alias, key in ALIASES.items()},
}
_read_id = matching(ID, "node id", ID_RULE)


class RawNode(Struct, frozen=True, gc=False):
    """A node as written: its id, its keys, its path, and whether it is a step."""

    id: str
    fields: dict[str, object]
    path: Path
    is_step: bool = False

    @property
    def id_key(self) -> str:
        """The key of the id of a node in a list."""
        if self.is_step:
            return "step"
        return "id"

    def spellings(self, key: str) -> list[str]:
        """Return the spellings of a key that the node uses."""
        return [spelling for spelling in self.fields if ALIASES.get(spelling, spelling) == key]

    def spelling(self, key: str) -> str:
        """Return the first spelling of a key that the node uses."""
        return next(iter(self.spellings(key)), key)


class ReadNode(Struct, frozen=True, gc=False):
    """A node whose values are read, with the edges that it declares."""

    raw: RawNode
    values: dict[str, Any]
    dependencies: Sequence[str]
    following: Sequence[str]


def read_raw_nodes(findings: Findings, tree: Mapping[str, object]) -> list[RawNode]:
    """Return the nodes of a document, whichever of the three keys contains them."""
    sources = [key for key in NODE_SOURCES if key in tree]
    if not sources:
        findings.add((), "no nodes", "add nodes: {id: {handler: …}}")
        return []
    source = sources[0]
    for other in sources[1:]:
        message = f"conflicting keys: '{source}' and '{other}' both list nodes"
        findings.add((other,), message, "keep one of the two", at_key=True)
    content = tree[source]
    _check_content(findings, source, content)
    nodes: dict[str, RawNode] = {}
    for key, value in entries(content):
        try:
            node = _read_raw_node(findings, value, (source, key))
        except Unreadable:
            continue
        if node.id in nodes:
            message = f"duplicate node id: '{node.id}'"
            findings.add((*node.path, node.id_key), message, "give each node its own id")
        else:
            nodes[node.id] = node
    return list(nodes.values())


def _check_content(findings: Findings, source: str, content: object) -> None:
    """Reject what is not a collection of nodes within the limits."""
    expected = NODE_SOURCES[source]
    if not is_array(content) and not (is_object(content) and source == "nodes"):
        findings.reject(
            (source,), f"must be {expected}: {kind_of(content)}", "see docs/reference/language.md"
        )
    if not content:
        findings.add((source,), "no nodes", "add at least one")
    if len(content) > NODES_MAX:
        findings.reject(
            (source,), f"too many nodes: {len(content)}, limit {NODES_MAX}", "split the workflow"
        )


def _read_raw_node(findings: Findings, value: object, path: Path) -> RawNode:
    """Read an entry of an object or a list of nodes."""
    source, key = path
    if isinstance(key, str):
        if not ID.fullmatch(key):
            findings.reject(path, f"invalid node id: {shown(key)}", ID_RULE, at_key=True)
        if value is None:
            value = {}
        if not is_object(value):
            findings.reject(
                path, f"a node must be an object: {kind_of(value)}", "write {handler: …}"
            )
        return RawNode(key, value, path)
    if not is_object(value):
        findings.reject(
            path, f"a node must be an object: {kind_of(value)}", "write {id: …, handler: …}"
        )
    node = RawNode("", value, path, is_step="step" in value)
    if node.id_key not in value:
        expected = LIST_ID_KEYS[source]
        findings.reject(
            path, f"missing key: '{expected}'", "add a name that is unique in the workflow"
        )
    node_id = _read_id(findings, (*path, node.id_key), value[node.id_key])
    return RawNode(node_id, value, path, node.is_step)


def read_node(findings: Findings, raw: RawNode, defaults: Mapping[str, Any]) -> ReadNode:
    """Read the values of a node and fill in the defaults."""
    values = _read_values(findings, raw)
    kind = _kind_of_node(raw, values)
    if kind is not NodeKind.TASK:
        _check_marker(findings, raw, kind, values)
    else:
        if "handler" not in raw.fields and "tool" not in raw.fields:
            hint = "add handler: echo, or type: start or end"
            findings.add(raw.path, f"missing key: node '{raw.id}' has no handler", hint)
        if defaults:
            values = {**defaults, **values}
        _check_params(findings, raw, values)
    values["kind"] = kind
    return ReadNode(raw, values, values.pop("dependencies", ()), values.pop("next", ()))


def _check_params(findings: Findings, raw: RawNode, values: Mapping[str, Any]) -> None:
    params = values.get("params")
    if values.get("handler") != CONTAINER or params is None or not isinstance(params.source, dict):
        return
    path = (*raw.path, "params") if "params" in raw.fields else raw.path
    check_container_params(findings, path, cast("dict[str, Any]", params.source))


def _read_values(findings: Findings, raw: RawNode) -> dict[str, Any]:
    """Return the valid values of a node under the standard names of their keys."""
    values: dict[str, Any] = {}
    handler_params: dict[str, object] = {}
    for key, inner in raw.fields.items():
        if raw.is_step and key not in STEP_KEYS:
            handler_params[key] = inner
            continue
        known = _READERS.get(key)
        if known is None:
            findings.add_unknown_key((*raw.path, key), ALL_KEYS, SYNONYMS)
            continue
        name, read = known
        if name in values:
            message = f"same key in several spellings: {', '.join(raw.spellings(name))}"
            findings.add((*raw.path, key), message, f"keep only '{name}'", at_key=True)
        try:
            values[name] = read(findings, (*raw.path, key), inner)
        except Unreadable:
            continue
    if handler_params:
        values["params"] = _read_step_params(findings, raw, handler_params)
    return values


def _read_step_params(
    findings: Findings, raw: RawNode, params: dict[str, object]
) -> Template | None:
    """Read the keys of a step that the language does not define; they belong to its handler."""
    try:
        return read_template(findings, raw.path, params)
    except Unreadable:
        return None


def _kind_of_node(raw: RawNode, values: dict[str, Any]) -> NodeKind:
    """Return the type of a node. Steps called start and end without a type and a handler are markers."""
    if "type" in values:
        return NodeKind(values.pop("type"))
    if raw.is_step and raw.id in {"start", "end"} and "handler" not in values:
        return NodeKind(raw.id)
    return NodeKind.TASK


def _check_marker(
    findings: Findings, raw: RawNode, kind: NodeKind, values: Mapping[str, Any]
) -> None:
    """Reject keys without a meaning on start and end nodes, which run nothing."""
    names = [name for name in TASK_KEYS if name in values]
    if values.get(MARKER_EDGES[kind]):
        names.append(MARKER_EDGES[kind])
    for name in names:
        key = raw.spelling(name)
        message = f"key not allowed on a node of type {kind.value}: '{key}'"
        hint = f"remove it, or remove type: {kind.value}"
        findings.add((*raw.path, key), message, hint, at_key=True)


def finish_node(node: ReadNode, dependencies: tuple[str, ...]) -> NodeDefinition:
    """Build the definition of a node when all edges are known."""
    values = node.values
    values["id"] = node.raw.id
    values["dependencies"] = dependencies
    values.pop("description", None)
    values.pop("step", None)
    if "retry" in values:
        values.update(values.pop("retry"))
    if values.get("handler") == WEBHOOK:
        # Receivers are unavailable at times, so webhooks are retried unless the author decides otherwise.
        values.setdefault("on_error", RetryOnError(attempts_max=HOOK_ATTEMPTS))
    return NodeDefinition(**values)
