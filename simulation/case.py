"""One job's history together with its replay: where all checks look things up."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw

from simulation.history import Execution, JobHistory
from simulation.replay.job import Fold
from simulation.replay.state import Folded, FoldedNode
from windlass.core.artifacts import is_reference, read_reference
from windlass.core.changes import IterationRow, NodeRow
from windlass.core.job import Job
from windlass.core.templates.template import Template
from windlass.engine.recovery import rebuild
from windlass.ports.store.jobs import JobSnapshot


class Case:
    """What is known of one job."""

    def __init__(self, history: JobHistory, *, clocks_steady: bool) -> None:
        self.history = history
        self.plan = history.plan
        self.fold = Fold(history, clocks_steady=clocks_steady)
        self.rows = {row.node_id: row for row in history.nodes}
        self._iterations = {(row.number, row.generation, row.index): row for row in history.loops.iterations}
        self.runs: dict[str, list[Execution]] = {}
        for execution in history.executions:
            self.runs.setdefault(execution.node_id, []).append(execution)

    def blame(self, invariant: str, evidence: str) -> None:
        """Note a violation."""
        self.fold.blame(invariant, evidence)

    def number(self, node: FoldedNode) -> int:
        """The node's place in the plan."""
        return self.plan.index[node.plan.id]

    def name(self, node: FoldedNode, index: int | None) -> str:
        """How evidence names a node or an iteration."""
        return node.plan.id if index is None else f"{node.plan.id}[{index}]"

    def row_of(self, node: FoldedNode, unit: Folded) -> NodeRow | IterationRow | None:
        """The row of a node, or of an iteration in the node's present generation."""
        return self.rows.get(node.plan.id) if unit.index is None else self.iteration_row(node, unit.index)

    def iteration_row(self, node: FoldedNode, index: int) -> IterationRow | None:
        """The row of an iteration in the node's present generation."""
        return self._iterations.get((self.number(node), node.generation, index))

    def succeeded(self, node: FoldedNode, index: int | None, attempt: int) -> list[Execution]:
        """The executions of an attempt that came to a good end."""
        runs = self.runs.get(node.plan.id, ())
        return [r for r in runs if (r.index, r.attempt, r.outcome) == (index, attempt, "succeeded")]

    def body(self, output: Raw | None) -> bytes | None:
        """An output's JSON, wherever it lies."""
        if output is None:
            return None
        return self.history.artifacts.get(read_reference(output).key) if is_reference(output) else bytes(output)

    def decoded(self, output: Raw | None) -> Any:
        """An output's value."""
        body = self.body(output)
        return None if body is None else msgspec.json.decode(body)

    def elements(self, node: FoldedNode, generation: int) -> Sequence[Any]:
        """The collection that was recorded for a loop."""
        blocks = self.history.loops.collections.get((self.number(node), generation), ())
        return [element for block in blocks for element in msgspec.json.decode(block)]

    def element(self, node: FoldedNode, generation: int, index: int) -> Any:
        """What an iteration is about."""
        elements, size = self.elements(node, generation), node.plan.loop and node.plan.loop.chunk_size
        if size is not None:
            return elements[index * size : (index + 1) * size]
        return elements[index] if index < len(elements) else None

    @cached_property
    def _job(self) -> Job:
        # Scopes need no loops, and a node without its progress is rebuilt without one.
        rows = [msgspec.structs.replace(row, progress=None) for row in self.history.nodes]
        job = rebuild(self.plan, JobSnapshot(self.history.job, rows))
        job.values.update({key: msgspec.json.decode(body) for key, body in self.history.artifacts.items()})
        return job

    def value(self, template: Template, **names: object) -> object:
        """A template's value by what is recorded now; TemplateFailed."""
        return template.value(self._job.scope(template, **names))


def text_of(output: Raw | bytes | None) -> str:
    """An output as evidence shows it."""
    return "nothing" if output is None else bytes(output).decode()[:200]
