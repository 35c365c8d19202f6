"""Check the names in templates: a node can only read what is known when it is dispatched."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from windlass.core.plan import LoopPlan, RetryOnError, RetryOnSuccess, SinkPlan
from windlass.core.templates.template import Reference, Template
from windlass.spec.checks.edges import Graph
from windlass.spec.checks.graph import not_upstream
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.nodes import ReadNode

INPUT_NAMES = frozenset({"input", "workload"})
# Names that every template knows.
ALWAYS = frozenset({"input", "workload", "job", "nodes"})
_SPECIAL = ALWAYS | {"secrets"}
JOB_KEYS = ("id", "workflow_id", "created_at", "scheduled_at")
NODE_KEYS = ("output", "result", "status", "meta")
# Names that only some templates know.
_LIMITED: Mapping[str, str] = {
    "response": "retry.on_success",
    "error": "retry.on_error.when",
    "attempt": "the rules under retry",
    "index": "nodes with a loop",
}
# The sections other than params that have templates.
_SECTIONS_WITH_TEMPLATES = frozenset({"when", "retry", "loop", "sink"})
# How many parents of a node, and how many of their parents, are tried before all paths are followed.
NEAR_MAX = 4


class _Use(Struct, frozen=True, gc=False):
    """A template of a node, with its path and the names that only it knows."""

    path: Path
    template: Template
    local_names: frozenset[str]

    def path_of(self, name: str) -> Path:
        """Return the path of the first string in the template that mentions a name."""
        remaining: list[tuple[Path, object]] = [(self.path, self.template.source)]
        while remaining:
            path, value = remaining.pop()
            if isinstance(value, str) and name in value and "{" in value:
                return path
            inner: list[tuple[Path, object]] = []
            if is_object(value):
                inner = [((*path, key), item) for key, item in value.items()]
            elif is_array(value):
                inner = [((*path, index), item) for index, item in enumerate(value)]
            remaining.extend(reversed(inner))
        return self.path


def _uses_of(node: ReadNode) -> Iterator[_Use]:
    values, path = node.values, node.raw.path
    no_names: frozenset[str] = frozenset()
    loop = values.get("loop")
    in_loop = no_names
    if isinstance(loop, LoopPlan):
        in_loop = frozenset({loop.element, "index"})
    for key in ("params", "when"):
        if key in values and values[key] is not None:
            yield _Use((*path, node.raw.spelling(key)), values[key], in_loop)
    sink = values.get("sink")
    if isinstance(sink, SinkPlan):
        yield _Use((*path, "sink"), sink.options, in_loop)
    rules: Mapping[str, object] = values.get("retry") or {}
    on_error = rules.get("on_error")
    if isinstance(on_error, RetryOnError) and on_error.when is not None:
        yield _Use((*path, "retry", "on_error", "when"), on_error.when, in_loop | {"error", "attempt"})
    on_success = rules.get("on_success")
    if isinstance(on_success, RetryOnSuccess):
        names = in_loop | {"response", "attempt"}
        yield _Use((*path, "retry", "on_success", "while"), on_success.condition, names)
        if on_success.next_call is not None:
            yield _Use((*path, "retry", "on_success", "next_call"), on_success.next_call, names)
    if isinstance(loop, LoopPlan):
        yield _Use((*path, "loop", "collection"), loop.collection, no_names)


def check_references(
    findings: Findings,
    nodes: Sequence[ReadNode],
    index: Mapping[str, int],
    graph: Graph,
    input_schema: Mapping[str, Any] | None,
) -> None:
    """Report every reference to something that does not exist or is not known in time."""
    checker = _Checker(findings, index, input_schema)
    # Pairs of a node that is read and the node that reads it, with the template that does.
    queries: dict[tuple[int, int], _Use] = {}
    for number, node in enumerate(nodes):
        parents = graph.parents[number]
        only_params = _SECTIONS_WITH_TEMPLATES.isdisjoint(node.values)
        if only_params and _reads_only_near(node.values.get("params"), parents, graph.parents, index):
            continue
        for use in _uses_of(node):
            for reference in use.template.references:
                target = checker.check(use, reference)
                if target is not None and target not in parents:
                    queries.setdefault((target, number), use)
    if not queries:
        return
    for target, number in sorted(not_upstream(queries, graph.parents, graph.order)):
        name, reader = nodes[target].raw.id, nodes[number].raw.id
        message = f"template reads a node that is not upstream: '{name}' does not run before '{reader}'"
        hint = f"add '{name}' to the dependencies of '{reader}'"
        findings.add(queries[target, number].path_of(name), message, hint)


def _reads_only_near(
    template: Template | None, parents: Sequence[int], all_parents: Sequence[Sequence[int]], index: Mapping[str, int]
) -> bool:
    """Return whether a template only reads nodes one or two levels up, as most do."""
    if template is None:
        return True
    for reference in template.references:
        if not reference.path or reference.path[0] not in NODE_KEYS or reference.name in _SPECIAL:
            return False
        target = index.get(reference.name)
        if target is None:
            return False
        if target not in parents and not _is_grandparent(target, parents, all_parents):
            return False
    return True


def _is_grandparent(target: int, parents: Sequence[int], all_parents: Sequence[Sequence[int]]) -> bool:
    return any(target in all_parents[parent][:NEAR_MAX] for parent in parents[:NEAR_MAX])


class _Checker:
    """Checks references against the names of one workflow."""

    def __init__(self, findings: Findings, index: Mapping[str, int], schema: Mapping[str, Any] | None) -> None:
        self._findings = findings
        self._index = index
        properties: object = (schema or {}).get("properties")
        self._declared_inputs: Mapping[str, object] = properties if is_object(properties) else {}
        # The only possible input keys; None if others are allowed.
        self._input_keys: list[str] | None = None
        if is_object(properties) and (schema or {}).get("additionalProperties") is False:
            self._input_keys = list(properties)

    def check(self, use: _Use, reference: Reference) -> int | None:
        """Return the number of the node that a reference reads. Report invalid references."""
        name = reference.name
        if name in use.local_names:
            return None
        if name == "secrets":
            message = "secrets are not available in this version"
            self._findings.add(use.path_of(name), message, "pass the value as input")
            return None
        if name in INPUT_NAMES:
            self._check_input(use, reference)
            return None
        if name == "job":
            if reference.path:
                self._check_key(use, name, str(reference.path[0]), JOB_KEYS)
            return None
        if name == "nodes":
            return self._check_node_lookup(use, reference)
        target = self._index.get(name)
        if target is None:
            self._check_bare_name(use, name)
            return None
        if reference.path:
            self._check_key(use, name, str(reference.path[0]), NODE_KEYS)
        return target

    def _check_input(self, use: _Use, reference: Reference) -> None:
        if not reference.path or self._input_keys is None:
            return
        key = str(reference.path[0])
        if key not in self._input_keys:
            self._report_unknown(use, key, self._input_keys)

    def _check_node_lookup(self, use: _Use, reference: Reference) -> int | None:
        """Check `nodes.name` and `nodes['name']`."""
        if not reference.path:
            return None
        name, *keys = map(str, reference.path)
        target = self._index.get(name)
        if target is None:
            hint = self._findings.suggest(name, list(self._index), "write the id of a node of this workflow")
            self._findings.add(use.path_of(name), f"unknown node: '{name}'", hint)
        elif keys:
            self._check_key(use, name, keys[0], NODE_KEYS)
        return target

    def _check_bare_name(self, use: _Use, name: str) -> None:
        """Check a name that is not a node. Inputs can be read without `input.`."""
        if name in _LIMITED and name not in self._declared_inputs:
            # Without a closed schema, the input may have such a key.
            record = self._findings.warn if self._input_keys is None else self._findings.add
            message = f"name not available here: '{name}' is only known in {_LIMITED[name]}"
            hint = f"if it is an input, write input.{name} and declare it in `input`"
            record(use.path_of(name), message, hint)
        elif self._input_keys is not None and name not in self._input_keys:
            self._report_unknown(use, name, [*self._input_keys, *self._index, *sorted(ALWAYS)])

    def _report_unknown(self, use: _Use, name: str, known: Sequence[str]) -> None:
        hint = self._findings.suggest(name, known, "declare it in `input`")
        self._findings.add(use.path_of(name), f"unknown name: '{name}' is neither a node nor an input", hint)

    def _check_key(self, use: _Use, name: str, key: str, known: Sequence[str]) -> None:
        if key in known:
            return
        available = ", ".join(f"{name}.{each}" for each in known)
        hint = self._findings.suggest(key, known, f"use {available}")
        self._findings.add(use.path_of(name), f"unknown key: '{name}' has no '{key}'", hint)
