"""The names that the templates of a job can read."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.core.artifacts import MARKER, read_reference
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.states import NODE_LABELS
from windlass.core.templates.template import Template

NO_NAMES: Mapping[str, object] = {}


def attempt_scope(
    job: Job, template: Template, attempt: Attempt, extra: Mapping[str, object] = NO_NAMES
) -> "JobScope":
    """Return the names of a template that is rendered for an attempt."""
    if not attempt.is_iteration:
        return JobScope(job, template, extra)
    loop = job.loops[attempt.node]
    names = {loop.plan.element: loop.element(attempt.index), "index": attempt.index}
    return JobScope(job, template, {**names, **extra})


class JobScope:
    """The names of one rendering. Only values that the template reads are decoded."""

    __slots__ = ("allow_references", "extra", "job", "references_used", "template")

    def __init__(
        self, job: Job, template: Template, extra: Mapping[str, object] = NO_NAMES
    ) -> None:
        self.job = job
        self.template = template
        self.extra = extra
        # Whether a large output that is passed on unread may stay a reference, and the keys of those that do.
        self.allow_references = False
        self.references_used: list[str] = []

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
            return {"id": job.id, "workflow_id": job.plan.workflow_id, **texts}
        if name == "nodes":
            return self._referenced_nodes()
        if name in job.plan.index:
            return self._node(name)
        return self._input()[name]

    def reference(self, name: str) -> object | None:
        """Return the reference to a large output that may be passed on as one; None for any other."""
        if not self.allow_references or name in self.extra:
            return None
        output = self.job.large.get(name)
        if output is None:
            return None
        key = read_reference(output).key
        if key not in self.references_used:
            self.references_used.append(key)
        return {MARKER: key}

    def names(self) -> Sequence[str]:
        """Return the known names, for error messages."""
        upstream = sorted(self.template.names & self.job.plan.index.keys())
        return [*self.extra, "input", "job", *upstream, *self._input()]

    def _input(self) -> dict[str, Any]:
        # The space distinguishes this key from a node with the id `input`.
        values = self.job.values
        if " input" not in values:
            values[" input"] = msgspec.json.decode(self.job.spec.input)
        return values[" input"]

    def _node(self, node_id: str) -> dict[str, Any]:
        job, node = self.job, self.job.plan.index[node_id]
        view = job.values.get(node_id) or _node_view(job, node)
        # The view of a node that has not ended may still change.
        if job.is_node_final(node):
            job.values[node_id] = view
        return view

    def _referenced_nodes(self) -> dict[str, Any]:
        index = self.job.plan.index
        named = {r.path[0] for r in self.template.references if r.name == "nodes" and r.path}
        return {name: self._node(name) for name in named if isinstance(name, str) and name in index}


def _node_view(job: Job, node: int) -> dict[str, Any]:
    output = job.outputs[node]
    value = None if output is None else job.value_of(output)
    meta = job.metas.get(node)
    return {
        "output": value,
        "result": value,
        "status": NODE_LABELS[job.states[node]],
        "meta": {} if meta is None else msgspec.json.decode(meta),
    }
