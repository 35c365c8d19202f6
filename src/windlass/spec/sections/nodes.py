"""The nodes of a document, in any of its three spellings."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from windlass.core.plan import NodeKind, RetryOnError
from windlass.core.runs.rules import HOOK_ATTEMPTS
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template
from windlass.core.webhooks import HANDLER as WEBHOOK
from windlass.spec.definition import NodeDefinition
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    ID,
    ID_RULE,
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

NODES_MAX = 250_000
PRIORITY_MAX = 1_000

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
    "priority": integer(-PRIORITY_MAX, PRIORITY_MAX),
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
TASK_KEYS = ("handler", "params", "loop", "sink", "retry", "queue", "timeout_seconds")
_READERS: Mapping[str, tuple[str, Read]] = {
    **{key: (key, read) for key, read in NODE.items()},
    **{alias: (key, NODE[key]) for alias, key in ALIASES.items()},
}


class RawNode(Struct, frozen=True, gc=False):
    """A node as written: its id, its keys, its path, and whether it is a step."""

    id: str
    fields: dict[str, object]
    path: Path
    is_step: bool = False

    def spellings(self, key: str) -> list[str]:
        """Return the spellings of a key that the node uses."""
        return [spelling for spelling in self.fields if ALIASES.get(spelling, spelling) == key]

    def spelling(self, key: str) -> str:
        """Return the first spelling of a key that the node uses."""
        spellings = self.spellings(key)
        return spellings[0] if spellings else key


class ReadNode(Struct, frozen=True, gc=False):
    """A node whose values are read, with the edges that it declares."""

    raw: RawNode
    values: dict[str, Any]
    dependencies: Sequence[str]
    following: Sequence[str]


def read_raw_nodes(findings: Findings, tree: Mapping[str, object]) -> list[RawNode]:
    """Return the nodes of a document, whichever of the three keys contains them."""
    sources = [key for key in ("nodes", "steps", "workflow") if key in tree]
    if not sources:
        findings.add((), "no nodes", "add nodes: {id: {handler: …}}")
        return []
    source = sources[0]
    for other in sources[1:]:
        message = f"conflicting keys: '{source}' and '{other}' both list nodes"
        findings.add((other,), message, "keep one of the two", at_key=True)
    content = tree[source]
    nodes: list[RawNode | None] = []
    if is_object(content) and source == "nodes":
        for key, inner in content.items():
            nodes.append(_read_raw_node(findings, key, inner, (source, key)))
    elif is_array(content):
        for index, inner in enumerate(content):
            nodes.append(_read_listed_node(findings, inner, (source, index)))
    else:
        expected = "an object or a list of nodes" if source == "nodes" else "a list of steps"
        findings.add((source,), f"must be {expected}: {kind_of(content)}", "see docs/reference/language.md")
        return []
    if not nodes:
        findings.add((source,), "no nodes", "add at least one")
    if len(nodes) > NODES_MAX:
        findings.add((source,), f"too many nodes: {len(nodes)}, limit {NODES_MAX}", "split the workflow")
        return []
    valid = [node for node in nodes if node is not None]
    if is_object(content):
        return valid
    return _remove_duplicates(findings, valid)


def _read_raw_node(findings: Findings, key: str, value: object, path: Path) -> RawNode | None:
    """Read an entry of the object `nodes`."""
    if not ID.fullmatch(key):
        findings.add(path, f"invalid node id: {shown(key)}", ID_RULE, at_key=True)
        return None
    if value is None:
        value = {}
    if not is_object(value):
        findings.add(path, f"a node must be an object: {kind_of(value)}", "write {handler: …}")
        return None
    return RawNode(key, value, path)


def _read_listed_node(findings: Findings, value: object, path: Path) -> RawNode | None:
    """Read an entry of a list of nodes or steps."""
    if not is_object(value):
        findings.add(path, f"a node must be an object: {kind_of(value)}", "write {id: …, handler: …}")
        return None
    is_step = "step" in value
    name = "step" if is_step else "id"
    if name not in value:
        expected = "id" if path[0] == "nodes" else "step"
        findings.add(path, f"missing key: '{expected}'", "add a name that is unique in the workflow")
        return None
    node_id = value[name]
    if not isinstance(node_id, str) or not ID.fullmatch(node_id):
        findings.add((*path, name), f"invalid node id: {shown(node_id)}", ID_RULE)
        return None
    return RawNode(node_id, value, path, is_step)


def _remove_duplicates(findings: Findings, nodes: Sequence[RawNode]) -> list[RawNode]:
    unique: dict[str, RawNode] = {}
    for node in nodes:
        if node.id in unique:
            name = "step" if node.is_step else "id"
            findings.add((*node.path, name), f"duplicate node id: '{node.id}'", "give each node its own id")
        else:
            unique[node.id] = node
    return list(unique.values())


def read_node(findings: Findings, raw: RawNode, defaults: Mapping[str, Any]) -> ReadNode:
    """Read the values of a node and fill in the defaults."""
    values: dict[str, Any] = {}
    handler_params: dict[str, object] = {}
    path = raw.path
    for key, inner in raw.fields.items():
        if raw.is_step and key not in STEP_KEYS:
            handler_params[key] = inner
            continue
        known = _READERS.get(key)
        if known is None:
            if key != "step":
                findings.add_unknown_key((*path, key), ALL_KEYS, SYNONYMS)
            continue
        name, read = known
        value = read(findings, (*path, key), inner)
        if name in values:
            message = f"same key in several spellings: {', '.join(raw.spellings(name))}"
            findings.add((*path, key), message, f"keep only '{name}'", at_key=True)
        if value is not None:
            values[name] = value
    if handler_params:
        values["params"] = _read_step_params(findings, raw, handler_params)
    kind = NodeKind.TASK
    if "type" in values:
        kind = NodeKind(values.pop("type"))
    elif raw.is_step:
        kind = _implied_kind(raw, values)
    if kind is NodeKind.TASK:
        if "handler" not in raw.fields and "tool" not in raw.fields:
            findings.add(
                path, f"missing key: node '{raw.id}' has no handler", "add handler: echo, or type: start or end"
            )
        for key, value in defaults.items():
            values.setdefault(key, value)
    else:
        _check_marker(findings, raw, kind, values)
    values["kind"] = kind
    return ReadNode(raw, values, values.pop("dependencies", ()), values.pop("next", ()))


def _read_step_params(findings: Findings, raw: RawNode, params: dict[str, object]) -> Template | None:
    """Read the keys of a step that the language does not define; they belong to its handler."""
    before = findings.count
    for key, inner in params.items():
        read_template(findings, (*raw.path, key), inner)
    if findings.count > before:
        return None
    return compile_template(params)


def _implied_kind(raw: RawNode, values: Mapping[str, Any]) -> NodeKind:
    """Return the type of a step without `type`. Steps called start and end without a handler are markers."""
    if raw.id in {"start", "end"} and "handler" not in values:
        return NodeKind(raw.id)
    return NodeKind.TASK


def _check_marker(findings: Findings, raw: RawNode, kind: NodeKind, values: Mapping[str, Any]) -> None:
    """Reject keys without a meaning on start and end nodes, which run nothing."""
    for name in TASK_KEYS:
        if name in values:
            key = raw.spelling(name)
            message = f"key not allowed on a node of type {kind.value}: '{key}'"
            findings.add((*raw.path, key), message, f"remove it, or remove type: {kind.value}", at_key=True)
    edges = "dependencies" if kind is NodeKind.START else "next"
    if values.get(edges):
        key = raw.spelling(edges)
        message = f"key not allowed on a node of type {kind.value}: '{key}'"
        findings.add((*raw.path, key), message, f"remove '{key}'", at_key=True)


def finish_node(node: ReadNode, dependencies: tuple[str, ...]) -> NodeDefinition:
    """Build the definition of a node when all edges are known."""
    values = node.values
    values["id"] = node.raw.id
    values["dependencies"] = dependencies
    values.pop("description", None)
    if "retry" in values:
        values.update(values.pop("retry"))
    if values.get("handler") == WEBHOOK:
        # Receivers are unavailable at times, so webhooks are retried unless the author decides otherwise.
        values.setdefault("on_error", RetryOnError(attempts_max=HOOK_ATTEMPTS))
    return NodeDefinition(**values)
