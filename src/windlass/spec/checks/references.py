"""Check the names in templates: a node can only read what is known when it is dispatched."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from windlass.core.node_references import NODE_KEYS, NODES, PARENTS
from windlass.core.plan import LoopPlan, NodeKind, RetryOnError, RetryOnSuccess, SinkPlan
from windlass.core.runs.rules import Action, ActionKind
from windlass.core.templates.template import Reference, Template, compile_template
from windlass.spec.checks.edges import Graph
from windlass.spec.checks.graph import not_upstream
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_object, walk
from windlass.spec.sections.nodes import ReadNode

# Names that every template can use.
ALWAYS = frozenset({"input", "workload", "job", NODES})
_SPECIAL = ALWAYS | {PARENTS, "secrets"}
JOB_KEYS = ("id", "workflow_id", "run_id", "created_at", "scheduled_at")
RUN_KEYS = ("run_id", "workflow_id", "scheduled_at", "state", "attempt", "outcome", "reason")
# Names that only some templates can use.
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
NO_NAMES: frozenset[str] = frozenset()


class _Use(Struct, frozen=True, gc=False):
    """A template of a node, with its path and the names that only it knows."""

    path: Path
    template: Template
    local_names: frozenset[str]
    # The nodes that its node depends on, without START; None if it belongs to no node.
    parents: Sequence[str] | None = None

    def path_of(self, name: str) -> Path:
        """Return the path of the first string in the template that mentions a name."""
        for path, value in walk(self.template.source):
            if isinstance(value, str) and name in value and "{" in value:
                return (*self.path, *path)
        return self.path


def _uses_of(node: ReadNode, parents: Sequence[str]) -> Iterator[_Use]:
    values, path = node.values, node.raw.path
    loop: LoopPlan | None = values.get("loop")
    in_loop = NO_NAMES
    if loop is not None:
        in_loop = frozenset({loop.element, "index"})
        yield _Use((*path, "loop", "collection"), loop.collection, NO_NAMES, parents)
    for key in ("params", "when"):
        template: Template | None = values.get(key)
        if template is not None:
            yield _Use((*path, node.raw.spelling(key)), template, in_loop, parents)
    sink: SinkPlan | None = values.get("sink")
    if sink is not None:
        yield _Use((*path, "sink"), sink.options, in_loop, parents)
    yield from _uses_in_retry((*path, "retry"), values.get("retry", {}), in_loop, parents)


def _uses_in_retry(
    path: Path, rules: Mapping[str, Any], in_loop: frozenset[str], parents: Sequence[str]
) -> Iterator[_Use]:
    on_error: RetryOnError | None = rules.get("on_error")
    if on_error is not None and on_error.when is not None:
        names = in_loop | {"error", "attempt"}
        yield _Use((*path, "on_error", "when"), on_error.when, names, parents)
    on_success: RetryOnSuccess | None = rules.get("on_success")
    if on_success is not None:
        names = in_loop | {"response", "attempt"}
        yield _Use((*path, "on_success", "while"), on_success.condition, names, parents)
        if on_success.next_call is not None:
            yield _Use((*path, "on_success", "next_call"), on_success.next_call, names, parents)


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
        if only_params and _reads_only_near(
            node.values.get("params"), parents, graph.parents, index
        ):
            continue
        parent_ids = [
            nodes[parent].raw.id
            for parent in parents
            if nodes[parent].values["kind"] is NodeKind.TASK
        ]
        for use in _uses_of(node, parent_ids):
            for reference in use.template.references:
                target = checker.check(use, reference)
                if target is not None and target not in parents:
                    queries.setdefault((target, number), use)
    if not queries:
        return
    too_late = sorted(not_upstream(queries, graph.parents, graph.order))
    unrelated = not_upstream(
        {(number, target) for target, number in too_late}, graph.parents, graph.order
    )
    for target, number in too_late:
        name, reader = nodes[target].raw.id, nodes[number].raw.id
        message = (
            f"template reads a node that is not upstream: '{name}' does not run before '{reader}'"
        )
        hint = f"add '{name}' to the dependencies of '{reader}'"
        if number == target:
            hint = "a node has no output before it runs"
        elif (number, target) not in unrelated:
            hint = f"'{name}' runs after '{reader}': move the template to a node after '{name}'"
        findings.add(queries[target, number].path_of(name), message, hint)


def check_action_references(
    findings: Findings,
    actions: Mapping[str, Action],
    index: Mapping[str, int],
    input_schema: Mapping[str, Any] | None,
) -> None:
    """Report every reference in the input of a job that an action starts to something that does not exist."""
    checker = _Checker(findings, index, input_schema)
    for event, action in actions.items():
        if action.kind is not ActionKind.TRIGGER_JOB:
            continue
        path = ("actions", event, "parameters", "input")
        use = _Use(path, compile_template(action.input_data), frozenset({"error"}))
        for reference in use.template.references:
            if reference.name == "run":
                checker.check_run(use, reference)
            else:
                checker.check(use, reference)


def _reads_only_near(
    template: Template | None,
    parents: Sequence[int],
    all_parents: Sequence[Sequence[int]],
    index: Mapping[str, int],
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


def _is_grandparent(
    target: int, parents: Sequence[int], all_parents: Sequence[Sequence[int]]
) -> bool:
    return any(target in all_parents[parent][:NEAR_MAX] for parent in parents[:NEAR_MAX])


class _Checker:
    """Checks references against the names of one workflow."""

    def __init__(
        self, findings: Findings, index: Mapping[str, int], schema: Mapping[str, Any] | None
    ) -> None:
        self._findings = findings
        self._index = index
        self._declared_inputs: Mapping[str, object] = {}
        # The only possible input keys; None if others are allowed.
        self._input_keys: list[str] | None = None
        # The names with a fixed meaning.
        self._checks: Mapping[str, Callable[[_Use, Reference], int | None]] = {
            "input": self._check_input,
            "workload": self._check_input,
            "job": self._check_job,
            NODES: self._check_node_lookup,
            PARENTS: self._check_parent_lookup,
            "secrets": self._reject_secrets,
        }
        if schema is not None:
            self._read_schema(schema)

    def _read_schema(self, schema: Mapping[str, Any]) -> None:
        properties: object = schema.get("properties")
        if not is_object(properties):
            return
        self._declared_inputs = properties
        if schema.get("additionalProperties") is False:
            self._input_keys = list(properties)

    def check(self, use: _Use, reference: Reference) -> int | None:
        """Return the number of the node that a reference reads. Report invalid references."""
        name = reference.name
        if name in use.local_names:
            return None
        check = self._checks.get(name)
        if check is not None:
            return check(use, reference)
        target = self._index.get(name)
        if target is None:
            self._check_bare_name(use, name)
        else:
            self._check_key(use, name, reference.path[:1], NODE_KEYS)
        return target

    def _check_input(self, use: _Use, reference: Reference) -> None:
        known = self._input_keys
        for key in map(str, reference.path[:1]):
            if known is not None and key not in known:
                self._report_unknown(use, key, known)

    def _check_job(self, use: _Use, reference: Reference) -> None:
        self._check_key(use, "job", reference.path[:1], JOB_KEYS)

    def check_run(self, use: _Use, reference: Reference) -> None:
        """Check `run.key` in the action of a run."""
        self._check_key(use, "run", reference.path[:1], RUN_KEYS)

    def _reject_secrets(self, use: _Use, reference: Reference) -> None:
        message = "secrets are not available in this version"
        self._findings.add(use.path_of("secrets"), message, "pass the value as input")

    def _check_node_lookup(self, use: _Use, reference: Reference) -> int | None:
        """Check `nodes.name` and `nodes['name']`."""
        if not reference.path:
            return None
        name = str(reference.path[0])
        target = self._index.get(name)
        if target is None:
            hint = self._findings.suggest(
                name, list(self._index), "write the id of a node of this workflow"
            )
            self._findings.add(use.path_of(name), f"unknown node: '{name}'", hint)
        else:
            self._check_key(use, name, reference.path[1:2], NODE_KEYS)
        return target

    def _check_parent_lookup(self, use: _Use, reference: Reference) -> None:
        """Check `parents.name` and `parents['name']`."""
        if use.parents is None:
            message = f"name not available here: '{PARENTS}' is only known in nodes"
            self._findings.add(use.path_of(PARENTS), message, f"use {NODES}['id'].output")
            return
        for name in map(str, reference.path[:1]):
            if name not in use.parents:
                hint = self._findings.suggest(
                    name, use.parents, "write the id of a node in `dependencies`"
                )
                message = f"not a dependency of this node: '{name}'"
                self._findings.add(use.path_of(name), message, hint)

    def _check_bare_name(self, use: _Use, name: str) -> None:
        """Check a name that is not a node. Inputs can be read without `input.`."""
        known = self._input_keys
        if name in _LIMITED and name not in self._declared_inputs:
            record = self._findings.add
            if known is None:
                # The input may have such a key.
                record = self._findings.warn
            message = f"name not available here: '{name}' is only known in {_LIMITED[name]}"
            hint = f"if it is an input, write input.{name} and declare it in `input`"
            record(use.path_of(name), message, hint)
        elif known is not None and name not in known:
            self._report_unknown(use, name, [*known, *self._index, *sorted(ALWAYS), PARENTS])

    def _report_unknown(self, use: _Use, name: str, known: Sequence[str]) -> None:
        hint = self._findings.suggest(name, known, "declare it in `input`")
        self._findings.add(
            use.path_of(name), f"unknown name: '{name}' is neither a node nor an input", hint
        )

    def _check_key(
        self, use: _Use, name: str, keys: Sequence[str | int], known: Sequence[str]
    ) -> None:
        """Check the key after a name, if there is one."""
        for key in map(str, keys):
            if key not in known:
                available = ", ".join(f"{name}.{each}" for each in known)
                hint = self._findings.suggest(key, known, f"use {available}")
                self._findings.add(use.path_of(name), f"unknown key: '{name}' has no '{key}'", hint)
