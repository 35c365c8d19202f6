"""The names that the templates of a job can read."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.core.artifacts import INLINE_BYTES_MAX, TaskArtifact, read_reference
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.jobs import run_id_of
from windlass.core.loop_state import Attempt
from windlass.core.node_references import (
    NODE_KEYS,
    NODES,
    OUTPUT_KEYS,
    PARENTS,
    Path,
    is_whole_output,
    node_and_keys,
    reads_output,
)
from windlass.core.plan import NodeKind
from windlass.core.states import NODE_LABELS
from windlass.core.templates.json_values import Fuel, is_scalar, weigh
from windlass.core.templates.render_frame import (
    Frame,
    ObjectWithReferences,
    follow,
    format_reference,
)
from windlass.core.templates.template import Passing, Template

NO_NAMES: Mapping[str, object] = {}
# Small outputs that one rendering reads through `nodes` and `parents` at most, as JSON.
AGGREGATE_BYTES_MAX = 64 * 1024 * 1024


def attempt_scope(
    job: Job,
    template: Template,
    attempt: Attempt,
    extra: Mapping[str, object] = NO_NAMES,
    passing: Passing = Passing.NOTHING,
) -> "JobScope":
    """Return the names of a template that is rendered for an attempt."""
    if not attempt.is_iteration:
        return JobScope(job, template, attempt.node, extra, passing)
    loop = job.loops[attempt.node]
    names = {loop.plan.element: loop.element(attempt.index), "index": attempt.index}
    scope = JobScope(job, template, attempt.node, {**names, **extra}, passing)
    scope.iteration = attempt.index
    return scope


class JobScope:
    """The names of one rendering for a node, or for an action. Only values that the template reads are decoded."""

    __slots__ = (
        "_bytes_left",
        "_counted",
        "_parents",
        "_upstream",
        "extra",
        "iteration",
        "job",
        "node",
        "passing",
        "template",
    )

    def __init__(
        self,
        job: Job,
        template: Template,
        node: int | None,
        extra: Mapping[str, object] = NO_NAMES,
        passing: Passing = Passing.NOTHING,
    ) -> None:
        self.job = job
        self.template = template
        self.node = node
        self.extra = extra
        # Without large outputs there is nothing to pass on by reference.
        self.passing = passing if job.large else Passing.NOTHING
        # The index of the iteration that is rendered.
        self.iteration: int | None = None
        self._bytes_left = AGGREGATE_BYTES_MAX
        self._counted: set[str] = set()
        self._upstream: dict[str, None] | None = None
        self._parents: dict[str, None] | None = None

    def lookup(self, name: str) -> object:
        """Return the value of a name. KeyError."""
        if name in self.extra:
            return self.extra[name]
        job = self.job
        if name in ("input", "workload"):
            return self._input()
        if name == "job":
            at = {
                "created_at": job.spec.created_at,
                "scheduled_at": job.spec.scheduled_at or job.spec.created_at,
            }
            texts = {
                key: datetime.fromtimestamp(value / MICROSECONDS, UTC).isoformat()
                for key, value in at.items()
            }
            return {
                "id": job.id,
                "workflow_id": job.plan.workflow_id,
                "run_id": run_id_of(job.spec),
                **texts,
            }
        if name == NODES:
            return UpstreamNodes(self)
        if name == PARENTS:
            return ParentOutputs(self)
        if name in job.plan.index:
            return self._node(name)
        return self._input()[name]

    def reference(self, name: str, path: Path) -> object | None:
        """Return a reference to the value of `name.key`, or an object that contains some; None to read the value."""
        if name in self.extra:
            return self._element_reference(name, path)
        if self.passing is Passing.OUTPUTS and not is_whole_output(name, path):
            return None
        target = node_and_keys(name, path)
        if target is None:
            return self._aggregate_with_references(name)
        node_id, keys = target
        if node_id not in self.job.large or not reads_output(keys):
            return None
        if not keys:
            return self._view_with_reference(node_id, format_reference(name, path))
        label = format_reference(name, path[: len(path) - len(keys) + 1])
        return self._output_reference(node_id, keys[1:], label)

    def names(self) -> Sequence[str]:
        """Return the known names, for error messages."""
        upstream = sorted(self.template.names & self.job.plan.index.keys())
        return [*self.extra, "input", "job", *upstream, *self._input(), NODES, PARENTS]

    def upstream_ids(self) -> Mapping[str, None]:
        """Return the ids of the nodes before the node, in topological order."""
        if self._upstream is None:
            nodes = self.job.plan.nodes
            numbers = self.job.upstream_of(self.node)
            self._upstream = dict.fromkeys(nodes[number].id for number in numbers)
        return self._upstream

    def parent_ids(self) -> Mapping[str, None]:
        """Return the ids of the nodes that the node depends on; without START, which never has an output."""
        if self._parents is None:
            plan = self.job.plan
            numbers = () if self.node is None else plan.parents[self.node]
            parents = [plan.nodes[number] for number in numbers]
            self._parents = dict.fromkeys(
                parent.id for parent in parents if parent.kind is NodeKind.TASK
            )
        return self._parents

    def output_among_many(self, node_id: str) -> object:
        """Return a decoded output, one of many. TemplateFailed if those that were read are too large together."""
        output = self.job.outputs[self.job.plan.index[node_id]]
        # The size of large outputs is limited when they are requested.
        if output is not None and node_id not in self.job.large and node_id not in self._counted:
            self._counted.add(node_id)
            self._bytes_left -= len(memoryview(output))
            if self._bytes_left < 0:
                raise TemplateFailed(
                    f"too much to read: outputs of more than {AGGREGATE_BYTES_MAX} bytes; "
                    "read fewer of them, or split the work over several nodes"
                )
        return self._node(node_id)["output"]

    def _input(self) -> dict[str, Any]:
        # The space distinguishes this key from a node with the id `input`.
        values = self.job.values
        if " input" not in values:
            values[" input"] = msgspec.json.decode(self.job.spec.input)
        return values[" input"]

    def _node(self, node_id: str) -> Mapping[str, object]:
        """Return a node as templates see it. A large output is only needed if the template reads it."""
        job, node = self.job, self.job.plan.index[node_id]
        if node_id in job.large:
            return LargeNode(job, node)
        view = job.values.get(node_id) or _node_view(job, node)
        # The view of a node that has not ended may still change.
        if job.is_node_final(node):
            job.values[node_id] = view
        return view

    def _output_reference(self, node_id: str, path: Path, label: str) -> TaskArtifact:
        return TaskArtifact(read_reference(self.job.large[node_id]).key, path, label)

    def _view_with_reference(self, node_id: str, label: str) -> object:
        """Return a node as templates see it, with references to its large output."""
        node = self.job.plan.index[node_id]
        output = self._output_reference(node_id, (), f"{label}.output")
        others = {"status": _status(self.job, node), "meta": _meta(self.job, node)}
        return ObjectWithReferences({**dict.fromkeys(OUTPUT_KEYS, output), **others})

    def _aggregate_with_references(self, name: str) -> object | None:
        """Return the value of `nodes` or `parents` with references to large outputs; None if it has none."""
        found = self.lookup(name)
        if not isinstance(found, UpstreamNodes | ParentOutputs):
            return None
        is_large = self.job.large.keys()
        if is_large.isdisjoint(found):
            return None
        made: dict[str, object] = {}
        for node_id in found:
            label = format_reference(name, (node_id,))
            if node_id not in is_large:
                made[node_id] = found[node_id]
            elif name == NODES:
                made[node_id] = self._view_with_reference(node_id, label)
            else:
                made[node_id] = self._output_reference(node_id, (), label)
        return ObjectWithReferences(made)

    def _element_reference(self, name: str, path: Path) -> TaskArtifact | None:
        """Return a reference to a large element, or a part of one, if the loop is over a large output."""
        if self.iteration is None or self.node is None or self.passing is not Passing.PARTS:
            return None
        loop = self.job.plan.nodes[self.node].loop
        if loop is None or name != loop.element or loop.chunk_size is not None:
            return None
        source = loop.collection.plain_reference
        target = None if source is None else node_and_keys(source.name, source.path)
        if source is None or target is None or target[0] not in self.job.large:
            return None
        if not _is_large(follow(Frame(self, Fuel()), name, path)):
            return None
        node_id, keys = target
        label = format_reference(source.name, source.path[: len(source.path) - len(keys) + 1])
        return self._output_reference(node_id, (*keys[1:], self.iteration, *path), label)


def _is_large(value: object) -> bool:
    """Whether a value is too large to be passed on inside the params."""
    if is_scalar(value):
        return False
    try:
        weigh(Fuel(INLINE_BYTES_MAX), value, INLINE_BYTES_MAX)
    except TemplateFailed:
        return True
    return False


class LargeNode(Mapping[str, object]):
    """A node with a large output as templates see it."""

    __slots__ = ("_job", "_node")

    def __init__(self, job: Job, node: int) -> None:
        self._job = job
        self._node = node

    def __getitem__(self, key: str) -> object:
        if key in OUTPUT_KEYS:
            return _output(self._job, self._node)
        if key == "status":
            return _status(self._job, self._node)
        if key == "meta":
            return _meta(self._job, self._node)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(NODE_KEYS)

    def __len__(self) -> int:
        return len(NODE_KEYS)


class NodeAmongMany(LargeNode):
    """A value of `nodes`: its output is decoded when it is read."""

    __slots__ = ("_id", "_scope")

    def __init__(self, scope: JobScope, node_id: str) -> None:
        super().__init__(scope.job, scope.job.plan.index[node_id])
        self._scope = scope
        self._id = node_id

    def __getitem__(self, key: str) -> object:
        if key in OUTPUT_KEYS:
            return self._scope.output_among_many(self._id)
        return super().__getitem__(key)


class UpstreamNodes(Mapping[str, object]):
    """The value of `nodes`: the nodes before the node whose template is rendered."""

    __slots__ = ("_scope",)

    def __init__(self, scope: JobScope) -> None:
        self._scope = scope

    def __getitem__(self, key: str) -> object:
        if not self._is_known(key) and key not in self._scope.upstream_ids():
            raise KeyError(key)
        return NodeAmongMany(self._scope, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope.upstream_ids())

    def __len__(self) -> int:
        return len(self._scope.upstream_ids())

    def _is_known(self, key: str) -> bool:
        """Whether the template names the node literally; the validation of the document found that it is upstream."""
        references = self._scope.template.references
        return any(each.name == NODES and each.path[:1] == (key,) for each in references)


class ParentOutputs(Mapping[str, object]):
    """The value of `parents`: the outputs of the nodes that the node depends on."""

    __slots__ = ("_scope",)

    def __init__(self, scope: JobScope) -> None:
        self._scope = scope

    def __getitem__(self, key: str) -> object:
        if key not in self._scope.parent_ids():
            raise KeyError(key)
        return self._scope.output_among_many(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope.parent_ids())

    def __len__(self) -> int:
        return len(self._scope.parent_ids())


def run_scope(job: Job | None, template: Template, run: Mapping[str, Any]) -> "JobScope | RunScope":
    """Return the names of a template that is rendered for an action of a run, which may have no job."""
    error: object = None
    if job is not None and job.state.error is not None:
        error = msgspec.json.decode(job.state.error)
    elif run["reason"] is not None:
        outcome = run["outcome"]
        kind = "constraint_violated" if outcome is None else f"run_{outcome}"
        error = {"type": kind, "message": run["reason"]}
    names = {"run": run, "error": error}
    return RunScope(names) if job is None else JobScope(job, template, None, names)


class RunScope:
    """The names of a rendering for a run without a job."""

    __slots__ = ("_names",)

    passing = Passing.NOTHING

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def lookup(self, name: str) -> object:
        """Return the value of a name. KeyError."""
        return self._names[name]

    def reference(self, name: str, path: Path) -> object | None:
        """Return None: there are no large outputs."""
        return None

    def names(self) -> Sequence[str]:
        """Return the known names, for error messages."""
        return list(self._names)


def _node_view(job: Job, node: int) -> dict[str, Any]:
    value = _output(job, node)
    return {
        "output": value,
        "result": value,
        "status": _status(job, node),
        "meta": _meta(job, node),
    }


def _output(job: Job, node: int) -> object:
    output = job.outputs[node]
    return None if output is None else job.value_of(output)


def _status(job: Job, node: int) -> str:
    return NODE_LABELS[job.states[node]]


def _meta(job: Job, node: int) -> object:
    meta = job.metas.get(node)
    return {} if meta is None else msgspec.json.decode(meta)
