"""The history of one job together with its replay: the lookups that all checks share."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw

from simulation.history import Execution, JobHistory
from simulation.replay.job import ReplayedJob
from simulation.replay.state import ReplayedNode, ReplayedUnit
from windlass.core.artifacts import is_reference, read_reference
from windlass.core.changes import IterationRow, NodeRow
from windlass.core.job import Job
from windlass.core.scopes import JobScope
from windlass.core.templates.template import Template
from windlass.engine.job_table import rebuild
from windlass.ports.store.jobs import JobSnapshot


class CheckedJob:
    """Everything known about one job."""

    def __init__(self, history: JobHistory, *, clocks_steady: bool) -> None:
        self.history = history
        self.plan = history.plan
        self.replay = ReplayedJob(history, clocks_steady=clocks_steady)
        self.rows = {row.node_id: row for row in history.nodes}
        self._iterations = {
            (row.number, row.generation, row.index): row for row in history.loops.iterations
        }
        # By node id.
        self.executions: dict[str, list[Execution]] = {}
        for execution in history.executions:
            self.executions.setdefault(execution.node_id, []).append(execution)

    def report(self, invariant: str, evidence: str) -> None:
        """Add a violation."""
        self.replay.report(invariant, evidence)

    def number(self, node: ReplayedNode) -> int:
        """Return the node's position in the plan."""
        return self.plan.index[node.plan.id]

    def name(self, node: ReplayedNode, index: int | None) -> str:
        """Return the name of a node or an iteration for evidence."""
        if index is None:
            return node.plan.id
        return f"{node.plan.id}[{index}]"

    def row_of(self, node: ReplayedNode, unit: ReplayedUnit) -> NodeRow | IterationRow | None:
        """Return the row of a node, or of an iteration in the node's present generation."""
        if unit.index is None:
            return self.rows.get(node.plan.id)
        return self.iteration_row(node, unit.index)

    def iteration_row(self, node: ReplayedNode, index: int) -> IterationRow | None:
        """Return the row of an iteration in the node's present generation."""
        return self._iterations.get((self.number(node), node.generation, index))

    def executions_of(self, node: ReplayedNode, index: int | None, attempt: int) -> list[Execution]:
        """Return the executions of an attempt."""
        executions = self.executions.get(node.plan.id, ())
        return [
            execution
            for execution in executions
            if (execution.index, execution.attempt) == (index, attempt)
        ]

    def succeeded(self, node: ReplayedNode, index: int | None, attempt: int) -> list[Execution]:
        """Return the successful executions of an attempt."""
        executions = self.executions_of(node, index, attempt)
        return [execution for execution in executions if execution.outcome == "succeeded"]

    def body(self, output: Raw | None) -> bytes | None:
        """Return the JSON of an output, from its artifact if it is large."""
        if output is None:
            return None
        if is_reference(output):
            return self.history.artifacts.get(read_reference(output).key)
        return bytes(output)

    def decoded(self, output: Raw | None) -> Any:
        """Return the value of an output."""
        body = self.body(output)
        if body is None:
            return None
        return msgspec.json.decode(body)

    def elements(self, node: ReplayedNode, generation: int) -> Sequence[Any]:
        """Return the recorded collection of a loop."""
        blocks = self.history.loops.collections.get((self.number(node), generation), ())
        return [element for block in blocks for element in msgspec.json.decode(block)]

    def element(self, node: ReplayedNode, generation: int, index: int) -> Any:
        """Return the element or the chunk of an iteration."""
        elements = self.elements(node, generation)
        chunk_size = None if node.plan.loop is None else node.plan.loop.chunk_size
        if chunk_size is not None:
            return elements[index * chunk_size : (index + 1) * chunk_size]
        if index >= len(elements):
            return None
        return elements[index]

    def iteration_names(
        self, node: ReplayedNode, generation: int, index: int | None
    ) -> dict[str, object]:
        """Return the names that templates of an iteration can use; none outside of loops."""
        if index is None or node.plan.loop is None:
            return {}
        return {node.plan.loop.element: self.element(node, generation, index), "index": index}

    @cached_property
    def _job(self) -> Job:
        # Template scopes need no loops, and a node without progress is rebuilt without one.
        rows = [msgspec.structs.replace(row, progress=None) for row in self.history.nodes]
        job = rebuild(self.plan, JobSnapshot(self.history.job, rows))
        job.values.update(
            {key: msgspec.json.decode(body) for key, body in self.history.artifacts.items()}
        )
        return job

    def value(self, template: Template, node: ReplayedNode, **names: object) -> object:
        """Return the value of a template of a node by the recorded outputs. Raises TemplateFailed."""
        return template.value(JobScope(self._job, template, self.number(node), names))


def text_of(output: Raw | bytes | None) -> str:
    """Return an output as text for evidence."""
    if output is None:
        return "nothing"
    return bytes(output).decode()[:200]
