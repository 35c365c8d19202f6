"""Reads the nodes of a document, in any of its three spellings, into one form."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from windlass.core.runs.rules import HOOK_ATTEMPTS
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template
from windlass.core.webhooks import HANDLER as WEBHOOK
from windlass.spec.definition import BACKOFFS, KINDS, Node, OnError, OnSuccess
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    ID,
    ID_RULE,
    QUEUE,
    Read,
    Section,
    anything,
    boolean,
    choice,
    condition,
    dotted,
    duration,
    ids,
    matching,
    number,
    object_template,
    read_section,
    template,
    text,
    whole,
)
from windlass.spec.sections.loops import loop
from windlass.spec.sections.sinks import sink

NODES_MAX = 250_000
ATTEMPTS_MAX = 1_000
REDELIVERIES_MAX = 100
CALLS_MAX = 1_000_000
PRIORITY_MAX = 1_000

SPELLINGS: Mapping[str, str] = {
    "tool": "handler",
    "config": "params",
    "if": "when",
    "needs": "dependencies",
    "depends_on": "dependencies",
}
MEANT: Mapping[str, str] = {
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


class RawNode(Struct, frozen=True, gc=False):
    """A node as written: its id, its keys, where it stands, and whether it is a step."""

    id: str
    fields: dict[str, object]
    path: Path
    is_step: bool = False


class ReadNode(Struct, frozen=True, gc=False):
    """A node as read, with the edges that it and others declare."""

    raw: RawNode
    values: dict[str, Any]
    dependencies: Sequence[str]
    following: Sequence[str]


_ON_ERROR = Section(
    {
        "max_attempts": whole(1, ATTEMPTS_MAX),
        "backoff": choice(*BACKOFFS),
        "initial_delay": duration(0, 7 * DAY_SECONDS),
        "multiplier": number(1, 100),
        "max_delay": duration(0, 7 * DAY_SECONDS),
        "jitter": number(0, 1),
        "when": condition,
    }
)
_ON_SUCCESS = Section(
    {
        "while": condition,
        "next_call": object_template("a next_call is"),
        "collect": choice("append", "replace", "collect"),
        "merge_path": dotted,
        "max_attempts": whole(1, CALLS_MAX),
        "delay": duration(0, 7 * DAY_SECONDS),
    },
    ("while",),
    {"when": "while", "next": "next_call", "interval": "delay", "path": "merge_path"},
)


def on_error(findings: Findings, path: Path, value: object) -> OnError | None:
    """The rule for failed attempts; a number is short for that many attempts."""
    if isinstance(value, int) and not isinstance(value, bool):
        attempts = whole(1, ATTEMPTS_MAX)(findings, path, value)
        return None if attempts is None else OnError(max_attempts=attempts)
    read = read_section(findings, path, value, _ON_ERROR)
    if read is None:
        return None
    made = OnError(**read)
    if made.max_delay < made.initial_delay:
        if "max_delay" in read:
            message = f"max_delay ({made.max_delay:g} s) is less than initial_delay ({made.initial_delay:g} s)"
            findings.add((*path, "max_delay"), message, "raise max_delay, or leave it out")
        read["max_delay"] = made.initial_delay
        made = OnError(**read)
    return made


def on_success(findings: Findings, path: Path, value: object) -> OnSuccess | None:
    """The rule for further calls after a successful one."""
    read = read_section(findings, path, value, _ON_SUCCESS)
    return None if read is None else OnSuccess(condition=read.pop("while"), **read)


_RETRY = Section({"on_error": on_error, "on_success": on_success, "max_redeliveries": whole(0, REDELIVERIES_MAX)})


def retry(findings: Findings, path: Path, value: object) -> dict[str, Any] | None:
    """The retry rules of a node."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"on_error": on_error(findings, path, value)}
    if is_object(value) and value and not (_RETRY.keys.keys() & value.keys()):
        known = [key for key in value if key in _ON_ERROR.keys]
        if known:
            findings.add(path, f"'{known[0]}' belongs under on_error", "write retry: {on_error: {…}}, or retry: 3")
            return None
    return read_section(findings, path, value, _RETRY)


# What a node and the workflow-wide `defaults` may both say.
SHARED: Mapping[str, Read] = {
    "queue": matching(QUEUE, "queue name", "use 1 to 64 letters, digits, _, - and ."),
    "timeout_seconds": duration(0.001, 30 * DAY_SECONDS),
    "priority": whole(-PRIORITY_MAX, PRIORITY_MAX),
    "allow_failure": boolean,
    "retry": retry,
}
DEFAULTS = Section(SHARED)
NODE: Mapping[str, Read] = {
    "id": anything,
    "type": choice(*KINDS),
    "handler": matching(ID, "handler name", ID_RULE),
    "params": object_template("params are"),
    "when": condition,
    "dependencies": ids,
    "next": ids,
    "run_if_skipped": boolean,
    "description": text,
    "loop": loop,
    "sink": sink,
    **SHARED,
}
STEP_KEYS = frozenset({"step", *NODE, *SPELLINGS}) - {"params", "config", "id"}
ALL_KEYS = (*NODE, *SPELLINGS)
_READERS: Mapping[str, tuple[str, Read]] = {
    key: (name, NODE[name]) for key in ALL_KEYS for name in (SPELLINGS.get(key, key),)
}
FOR_TASKS_ONLY = ("handler", "params", "loop", "sink", "retry", "queue", "timeout_seconds")


def raw_nodes(findings: Findings, tree: Mapping[str, object]) -> list[RawNode]:
    """The nodes of any of the three spellings."""
    places = [key for key in ("nodes", "steps", "workflow") if key in tree]
    if not places:
        findings.add((), "there are no nodes", "add nodes: {id: {handler: …}}")
        return []
    for extra in places[1:]:
        findings.add((extra,), f"both '{places[0]}' and '{extra}' list nodes", "keep one of the two", at_key=True)
    where = places[0]
    listed = tree[where]
    if is_object(listed) and where == "nodes":
        items = listed.items()
        nodes = [raw_node(findings, key, inner, (where, key)) for key, inner in items]
    elif is_array(listed):
        entries = enumerate(listed)
        nodes = [_listed_node(findings, inner, (where, place), where != "nodes") for place, inner in entries]
    else:
        expected = "an object or a list of nodes" if where == "nodes" else "a list of steps"
        findings.add((where,), f"'{where}' is {expected}, not {kind_of(listed)}", "see docs/reference/language.md")
        return []
    if not nodes:
        findings.add((where,), "there are no nodes", "add at least one")
    if len(nodes) > NODES_MAX:
        findings.add((where,), f"there are {len(nodes)} nodes, over the limit of {NODES_MAX}", "split the workflow")
        return []
    usable = [node for node in nodes if node is not None]
    return _without_twins(findings, usable) if is_array(listed) else usable


def raw_node(findings: Findings, key: object, value: object, path: Path, *, listed: bool = False) -> RawNode | None:
    """One node, if its id and its form can be used."""
    if not isinstance(key, str) or not ID.fullmatch(key):
        findings.add(path, f"{shown(key)} is no node id", ID_RULE, at_key=not listed)
        return None
    if value is None:
        value = {}
    if not is_object(value):
        findings.add(path, f"a node is an object, not {kind_of(value)}", "write {handler: …}")
        return None
    return RawNode(key, value, path)


def _listed_node(findings: Findings, value: object, path: Path, in_steps: bool) -> RawNode | None:
    if not is_object(value):
        findings.add(path, f"a node is an object, not {kind_of(value)}", "write {id: …, handler: …}")
        return None
    fields = value
    is_step = "step" in fields
    name = "step" if is_step else "id"
    if name not in fields:
        findings.add(path, f"this node has no '{'step' if in_steps else 'id'}'", "give it one, unique in the workflow")
        return None
    node = raw_node(findings, fields[name], value, (*path, name), listed=True)
    return None if node is None else RawNode(node.id, fields, path, is_step)


def _without_twins(findings: Findings, nodes: Sequence[RawNode]) -> list[RawNode]:
    kept: dict[str, RawNode] = {}
    for node in nodes:
        if node.id in kept:
            message = f"the node id '{node.id}' is used twice"
            findings.add((*node.path, "step" if node.is_step else "id"), message, "give each node an id of its own")
        else:
            kept[node.id] = node
    return list(kept.values())


def read_node(findings: Findings, raw: RawNode, defaults: Mapping[str, Any]) -> ReadNode:
    """The values of a node's keys, with defaults, problems noted."""
    values: dict[str, Any] = {}
    extra: dict[str, object] = {}
    path = raw.path
    is_step = raw.is_step
    for key, inner in raw.fields.items():
        if is_step and key not in STEP_KEYS:
            extra[key] = inner
            continue
        known = _READERS.get(key)
        if known is None:
            if key != "step":
                _note_unknown(findings, raw, key)
            continue
        name, reader = known
        result = reader(findings, (*path, key), inner)
        if name in values:
            _note_spellings(findings, raw, name, key)
        if result is not None:
            values[name] = result
    if extra:
        values["params"] = _step_params(findings, raw, extra)
    if "type" not in values:
        values["type"] = _implied_kind(raw, values) if is_step else "task"
    kind: str = values["type"]
    if kind != "task":
        _check_marker(findings, raw, kind, values)
    else:
        if "handler" not in raw.fields and "tool" not in raw.fields:
            findings.add(path, f"the node '{raw.id}' has no handler", "add handler: echo, or type: start or end")
        for key, value in defaults.items():
            values.setdefault(key, value)
    return ReadNode(raw, values, values.pop("dependencies", ()), values.pop("next", ()))


def _note_unknown(findings: Findings, raw: RawNode, key: str) -> None:
    hint = findings.unknown_key(key, ALL_KEYS, MEANT)
    findings.add((*raw.path, key), f"a node has no key '{key}'", hint, at_key=True)


def _note_spellings(findings: Findings, raw: RawNode, name: str, key: str) -> None:
    spelled = [k for k in raw.fields if SPELLINGS.get(k, k) == name]
    message = f"{' and '.join(spelled)} are the same key"
    findings.add((*raw.path, key), message, f"keep only '{name}'", at_key=True)


def _step_params(findings: Findings, raw: RawNode, extra: dict[str, object]) -> Template | None:
    """What the language does not define in a step belongs to its handler."""
    before = findings.count
    for key, inner in extra.items():
        template(findings, (*raw.path, key), inner)
    return compile_template(extra) if findings.count == before else None


def _implied_kind(raw: RawNode, values: Mapping[str, Any]) -> str:
    """Steps called start and end need no `type` when they do nothing."""
    if raw.id in {"start", "end"} and "handler" not in values:
        return raw.id
    return "task"


def _check_marker(findings: Findings, raw: RawNode, kind: str, values: Mapping[str, Any]) -> None:
    """START and END run nothing."""
    for name in FOR_TASKS_ONLY:
        if name in values:
            key = next((k for k in raw.fields if SPELLINGS.get(k, k) == name), name)
            message = f"a node of type {kind} runs nothing, so it has no '{key}'"
            findings.add((*raw.path, key), message, f"remove it, or remove type: {kind}", at_key=True)
    for name, type_ in (("dependencies", "start"), ("next", "end")):
        if kind == type_ and values.get(name):
            key = next((k for k in raw.fields if SPELLINGS.get(k, k) == name), name)
            place = "begins" if kind == "start" else "ends"
            findings.add(
                (*raw.path, key), f"a node of type {kind} {place} the workflow", f"remove '{key}'", at_key=True
            )


def finish_node(node: ReadNode, dependencies: tuple[str, ...]) -> Node:
    """The node as it is stored, once all edges are known."""
    values = node.values
    values["kind"] = values.pop("type")
    values["id"] = node.raw.id
    values["dependencies"] = dependencies
    values.pop("description", None)
    if "retry" in values:
        values.update(values.pop("retry"))
    if values.get("handler") == WEBHOOK:
        # Receivers are out of order now and then; whoever wants no second attempt says so.
        values.setdefault("on_error", OnError(max_attempts=HOOK_ATTEMPTS))
    return Node(**values)
