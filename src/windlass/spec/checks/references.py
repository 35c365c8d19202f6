"""Checks the names that templates use: only what is known when a node is dispatched can be read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.core.templates.template import Reference, Template
from windlass.spec.checks.graph import not_upstream
from windlass.spec.definition import Loop, OnError, OnSuccess, Sink
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.nodes import SPELLINGS, ReadNode

ALWAYS = frozenset({"input", "workload", "job", "nodes"})
_SPECIAL = ALWAYS | {"secrets"}
JOB_KEYS = ("id", "workflow_id", "created_at", "scheduled_at")
# What else than params has templates.
_FURTHER = frozenset({"when", "retry", "loop", "sink"})
# Names that only some templates know.
_KNOWN_ELSEWHERE: Mapping[str, str] = {
    "response": "retry.on_success",
    "error": "retry.on_error.when",
    "attempt": "the rules under retry",
    "index": "nodes with a loop",
}
NODE_KEYS = ("output", "result", "status", "meta")
# Nodes looked at, of those just above another and of those above these, before all paths are followed.
NEAR_MAX = 4


class _Names:
    """What the whole workflow knows."""

    def __init__(self, index: Mapping[str, int], schema: Mapping[str, Any] | None) -> None:
        self.index = index
        properties: object = (schema or {}).get("properties")
        closed = (schema or {}).get("additionalProperties") is False
        self.declared: Mapping[str, object] = properties if is_object(properties) else {}
        # The only input keys there can be, or None when any may come.
        self.input_keys: list[str] | None = list(properties) if is_object(properties) and closed else None


def templates_of(node: ReadNode) -> Iterator[tuple[Path, Template, frozenset[str]]]:
    """Each template of a node with its place and the extra names it may use."""
    values = node.values
    nothing: frozenset[str] = frozenset()
    loop = values.get("loop")
    inside = frozenset({loop.element, "index"}) if isinstance(loop, Loop) else nothing
    for name in ("params", "when"):
        if (template := values.get(name)) is not None:
            key = name if name in node.raw.fields else _written(node, name)
            yield (*node.raw.path, key), template, inside
    if not (loop or "retry" in values or "sink" in values):
        return
    sink = values.get("sink")
    if isinstance(sink, Sink):
        yield (*node.raw.path, "sink"), sink.options, inside
    rules: Mapping[str, object] = values.get("retry") or {}
    rule = rules.get("on_error")
    if isinstance(rule, OnError) and rule.when is not None:
        yield (*node.raw.path, "retry", "on_error", "when"), rule.when, inside | {"error", "attempt"}
    further = rules.get("on_success")
    if isinstance(further, OnSuccess):
        for key, template in (("while", further.condition), ("next_call", further.next_call)):
            if template is not None:
                yield (*node.raw.path, "retry", "on_success", key), template, inside | {"response", "attempt"}
    if isinstance(loop, Loop):
        yield (*node.raw.path, "loop", "collection"), loop.collection, nothing


def _written(node: ReadNode, name: str) -> str:
    return next((key for key in node.raw.fields if SPELLINGS.get(key, key) == name), name)


def check_references(
    findings: Findings,
    nodes: Sequence[ReadNode],
    index: Mapping[str, int],
    parents: Sequence[Sequence[int]],
    order: Sequence[int],
    schema: Mapping[str, Any] | None,
) -> None:
    """Note every reference to something that cannot be there."""
    names = _Names(index, schema)
    queries: dict[tuple[int, int], tuple[Path, str]] = {}
    for number, node in enumerate(nodes):
        above = parents[number]
        if _FURTHER.isdisjoint(node.values) and _reads_near(node.values.get("params"), above, parents, index):
            continue
        for path, template, extra in templates_of(node):
            for reference in template.references:
                target = _check(findings, path, template, reference, names, extra)
                if target is None or target in above:
                    continue
                queries.setdefault((target, number), (path, nodes[target].raw.id))
    if not queries:
        return
    for query in sorted(not_upstream(queries, parents, order)):
        path, name = queries[query]
        node = nodes[query[1]].raw.id
        message = f"the template reads '{name}', which does not run before '{node}'"
        findings.add(_inside(path, nodes[query[1]], name), message, f"add '{name}' to the dependencies of '{node}'")


def _reads_near(
    template: Template | None, above: Sequence[int], parents: Sequence[Sequence[int]], index: Mapping[str, int]
) -> bool:
    """Whether a template reads nothing but nodes a step or two up: so most do, and then its place does not matter."""
    if template is None:
        return True
    for reference in template.references:
        keys = reference.path
        if not keys or keys[0] not in NODE_KEYS or reference.name in _SPECIAL:
            return False
        target = index.get(reference.name)
        if target in above:
            continue
        if target is None or not any(target in parents[node][:NEAR_MAX] for node in above[:NEAR_MAX]):
            return False
    return True


def _check(
    findings: Findings, path: Path, template: Template, reference: Reference, names: _Names, extra: frozenset[str]
) -> int | None:
    """The number of the node that a reference reads, or None; problems with other names are noted."""
    name, keys = reference.name, reference.path
    if name in extra:
        return None
    if name not in _SPECIAL and keys and keys[0] in NODE_KEYS and name in names.index:
        return names.index[name]
    if name == "secrets":
        where = place_in(path, template.source, "secrets")
        findings.add(where, "secrets cannot be used yet in this version", "pass the value as input for now")
        return None
    if name in {"input", "workload"} and keys and names.input_keys is not None and keys[0] not in names.input_keys:
        _note_input(findings, place_in(path, template.source, str(keys[0])), str(keys[0]), names.input_keys)
        return None
    if name == "job" and keys and keys[0] not in JOB_KEYS:
        _note_key(findings, place_in(path, template.source, "job"), "job", str(keys[0]), JOB_KEYS)
    if name == "nodes" and keys:
        name, keys = str(keys[0]), keys[1:]
        if name not in names.index:
            hint = findings.like(name, list(names.index), "name a node of this workflow")
            findings.add(place_in(path, template.source, name), f"there is no node '{name}'", hint)
            return None
    elif name in ALWAYS:
        return None
    target = names.index.get(name)
    if target is None:
        if name in _KNOWN_ELSEWHERE and name not in names.declared:
            _note_elsewhere(findings, place_in(path, template.source, name), name, names.input_keys is not None)
        elif names.input_keys is not None and name not in names.input_keys:
            known = [*names.input_keys, *names.index, *sorted(ALWAYS)]
            _note_input(findings, place_in(path, template.source, name), name, known)
        return None
    if keys and keys[0] not in NODE_KEYS:
        _note_key(findings, place_in(path, template.source, name), name, str(keys[0]), NODE_KEYS)
    return target


def _note_input(findings: Findings, path: Path, name: str, known: Sequence[str]) -> None:
    hint = findings.like(name, known, "declare it in `input`")
    findings.add(path, f"the template reads '{name}', which is neither a node nor an input", hint)


def _note_elsewhere(findings: Findings, path: Path, name: str, closed: bool) -> None:
    """Such a name is a mistake for sure only when no input can have it."""
    note = findings.add if closed else findings.warn
    hint = f"if it is an input, write input.{name} and declare it in `input`"
    note(path, f"the template reads '{name}', which is known only in {_KNOWN_ELSEWHERE[name]}", hint)


def _note_key(findings: Findings, path: Path, name: str, key: str, known: Sequence[str]) -> None:
    hint = findings.like(key, known, f"use {', '.join(f'{name}.{each}' for each in known)}")
    findings.add(path, f"'{name}' has no '{key}'", hint)


def place_in(path: Path, source: object, name: str) -> Path:
    """The path of the first string in a template that mentions a name."""
    stack: list[tuple[Path, object]] = [(path, source)]
    while stack:
        here, value = stack.pop()
        if isinstance(value, str) and name in value and "{" in value:
            return here
        if is_object(value):
            stack.extend(((*here, str(key)), inner) for key, inner in reversed(list(value.items())))
        elif is_array(value):
            stack.extend(((*here, at), inner) for at, inner in reversed(list(enumerate(value))))
    return path


def _inside(path: Path, node: ReadNode, name: str) -> Path:
    for where, template, _ in templates_of(node):
        if where == path:
            return place_in(path, template.source, name)
    return path
