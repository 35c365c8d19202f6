"""One execution, compact in memory: what the core decides on, and how it is rebuilt from rows."""

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import JobRow, NodeRow, Task
from windlass.core.plan import NodePlan, Plan
from windlass.core.states import JOB_FINAL, JOB_LABELS, NODE_FINAL, NODE_LABELS, NODE_STATES, JobState, NodeState
from windlass.core.templates import Template

# The output of a node that was allowed to fail. None means that there is no output.
NULL = Raw(b"null")
IN_FLIGHT = frozenset({NodeState.DISPATCHED, NodeState.RUNNING})
UNFINISHED = frozenset(NodeState) - NODE_FINAL

_FINAL_BYTES = frozenset(int(state) for state in NODE_FINAL)
_COMPLETED, _SKIPPED, _FAILED = int(NodeState.COMPLETED), int(NodeState.SKIPPED), int(NodeState.FAILED)


class Flight(Struct, gc=False):
    """What is known of a node between its first dispatch and its end."""

    attempt: int
    attempts_before: int = 0
    losses: int = 0
    first_seq: int | None = None
    dispatched_at: int | None = None
    started_at: int | None = None
    due_at: int | None = None
    worker_id: str | None = None


class JobHead(Struct, frozen=True):
    """The facts about a job that its row keeps."""

    job_id: str
    shard: int
    status: JobState
    input: Raw
    seq: int
    round: int
    created_at: int
    started_at: int | None = None
    completed_at: int | None = None
    deadline_at: int | None = None
    error: Raw | None = None
    priority: int = 0
    scheduled_at: int | None = None


class Job:
    """The state of one job. Nodes are numbers into the plan; only nodes in flight cost more than a few bytes."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "completed_at",
        "created_at",
        "deadline_at",
        "error",
        "flights",
        "id",
        "input",
        "late",
        "live",
        "metas",
        "outputs",
        "plan",
        "priority",
        "ready",
        "remaining",
        "round",
        "scheduled_at",
        "seq",
        "shard",
        "started_at",
        "states",
        "status",
        "unfinished",
        "values",
    )

    def __init__(self, plan: Plan, head: JobHead) -> None:
        count = len(plan.nodes)
        self.id = head.job_id
        self.plan = plan
        self.shard = head.shard
        self.status = head.status
        self.input = head.input
        self.seq = head.seq
        self.round = head.round
        self.priority = head.priority
        self.scheduled_at = head.scheduled_at
        self.created_at = head.created_at
        self.started_at = head.started_at
        self.completed_at = head.completed_at
        self.deadline_at = head.deadline_at
        self.error = head.error
        self.states = bytearray(count)
        self.remaining = array("l", plan.dependency_counts)
        # 1 where some dependency was met by more than a skip.
        self.live = bytearray(count)
        self.outputs: list[Raw | None] = [None] * count
        self.metas: dict[int, Raw] = {}
        self.flights: dict[int, Flight] = {}
        # Sparse: the last attempt of a node that is not in flight, where it is not 1, and those before the last retry.
        self.attempts: dict[int, int] = {}
        self.attempts_before: dict[int, int] = {}
        # Attempts that were closed before their result came: a result of theirs is recorded as ignored.
        self.late: set[tuple[int, int]] = set()
        self.ready: deque[int] = deque()
        self.unfinished = count
        # Decoded views of finished nodes for templates; the shell empties it after each turn.
        self.values: dict[str, Any] = {}

    @classmethod
    def restored(cls, plan: Plan, head: JobHead, rows: Iterable[NodeRow]) -> "Job":
        """The job as its rows tell it: equal to the memory that wrote them."""
        job = cls(plan, head)
        known = [(plan.index[row.node_id], row) for row in rows]
        for node, row in known:
            job._restore_node(node, row)
        job.recount({child for node, _ in known for child in plan.children[node]})
        if head.status is not JobState.PENDING and head.status not in JOB_FINAL:
            job.ready.extend(n for n in range(len(plan.nodes)) if not job.states[n] and not job.remaining[n])
        return job

    def _restore_node(self, node: int, row: NodeRow) -> None:
        state = NODE_STATES[row.status]
        self.states[node] = state
        if state in NODE_FINAL:
            self.unfinished -= 1
        if row.attempts_before:
            self.attempts_before[node] = row.attempts_before
        if state in IN_FLIGHT or state is NodeState.WAITING:
            self.flights[node] = Flight(
                attempt=row.attempt,
                attempts_before=row.attempts_before,
                losses=row.losses,
                first_seq=row.first_seq,
                dispatched_at=row.dispatched_at,
                started_at=row.started_at,
                due_at=row.due_at,
                worker_id=row.worker_id,
            )
            return
        self.remember_attempt(node, row.attempt)
        self.outputs[node] = row.output
        if row.meta is not None:
            self.metas[node] = row.meta
        if state is NodeState.CANCELLED and row.dispatched_at is not None:
            self.late.add((node, row.attempt))

    def recount(self, nodes: Iterable[int]) -> None:
        """Derive the dependency counters of nodes from the states of their parents."""
        states, parents = self.states, self.plan.parents
        for node in nodes:
            met = [parent for parent in parents[node] if self.is_met(parent)]
            self.remaining[node] = len(parents[node]) - len(met)
            self.live[node] = any(states[parent] != _SKIPPED for parent in met)

    def is_met(self, node: int) -> bool:
        """Whether those that depend on the node may go on."""
        state = self.states[node]
        return state in (_COMPLETED, _SKIPPED) or (state == _FAILED and self.plan.nodes[node].allow_failure)

    def is_final(self, node: int) -> bool:
        """Whether the node has ended."""
        return self.states[node] in _FINAL_BYTES

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.status in JOB_FINAL

    def attempt_of(self, node: int) -> int:
        """The last attempt made of a node; 0 when there was none."""
        flight = self.flights.get(node)
        if flight is not None:
            return flight.attempt
        state = self.states[node]
        return self.attempts.get(node, 1 if state in (_COMPLETED, _FAILED) else 0)

    def remember_attempt(self, node: int, attempt: int) -> None:
        """Keep the attempt of a node that is not in flight, where it can not be told from its state."""
        self.attempts.pop(node, None)
        if attempt != self.attempt_of(node):
            self.attempts[node] = attempt

    def awaits(self, node: int, attempt: int) -> bool:
        """Whether a result of this attempt is what the node is waiting for."""
        flight = self.flights.get(node)
        return flight is not None and flight.attempt == attempt and self.states[node] in IN_FLIGHT

    def task(self, node: int, params: Raw) -> Task:
        """The task of the node's present attempt."""
        plan = self.plan.nodes[node]
        flight = self.flights[node]
        return Task(
            task_id=f"{self.id}_{plan.id}_{flight.attempt}",
            job_id=self.id,
            node_id=plan.id,
            attempt=flight.attempt,
            handler=plan.handler,
            params=bytes(params),
            queue=plan.queue,
            timeout_seconds=plan.timeout_seconds,
            priority=plan.priority + self.priority,
            shard=self.shard,
            retry_count=flight.attempt - flight.attempts_before - 1,
            idempotency_key=f"{self.id}_{plan.id}",
        )

    def task_id(self, node: int) -> str:
        """The id of the node's present attempt."""
        return f"{self.id}_{self.plan.nodes[node].id}_{self.flights[node].attempt}"

    def params_of(self, node: int) -> Raw:
        """The node's params, rendered; TemplateFailed. The same each time: outputs never change once recorded."""
        template = self.plan.nodes[node].params
        if template is None:
            return self.input
        return template.static if template.static is not None else template.render(self.scope(template))

    def scope(self, template: Template, **extra: object) -> "Scope":
        """The names that a template of this job may read."""
        return Scope(self, template, extra)

    def row(self) -> JobRow:
        """The job's row as it is now."""
        return JobRow(
            self.id,
            JOB_LABELS[self.status],
            self.round,
            self.started_at,
            self.completed_at,
            self.deadline_at,
            self.error,
        )

    def unfinished_nodes(self) -> Sequence[int]:
        """The nodes that have not ended, in topological order."""
        return [node for node, state in enumerate(self.states) if state not in _FINAL_BYTES]


class Scope:
    """The names of one rendering, resolved lazily: only what a template reads is decoded."""

    __slots__ = ("extra", "job", "template")

    def __init__(self, job: Job, template: Template, extra: dict[str, object]) -> None:
        self.job = job
        self.template = template
        self.extra = extra

    def lookup(self, name: str) -> object:
        """The value of a name; KeyError when there is none."""
        if name in self.extra:
            return self.extra[name]
        job = self.job
        if name in ("input", "workload"):
            return self._input()
        if name == "job":
            created_at = datetime.fromtimestamp(job.created_at / 1e6, UTC).isoformat()
            return {"id": job.id, "workflow_id": job.plan.workflow_id, "created_at": created_at}
        if name == "nodes":
            return self._referenced_nodes()
        if name in job.plan.index:
            return self._node(name)
        return self._input()[name]

    def names(self) -> Sequence[str]:
        """What could have been named, for messages."""
        upstream = sorted({reference.name for reference in self.template.references} & self.job.plan.index.keys())
        return [*self.extra, "input", "job", *upstream, *self._input()]

    def _input(self) -> dict[str, Any]:
        # A node may be called `input`; the space keeps this entry apart from those of nodes.
        values = self.job.values
        if " input" not in values:
            values[" input"] = msgspec.json.decode(self.job.input)
        return values[" input"]

    def _node(self, node_id: str) -> dict[str, Any]:
        values = self.job.values
        if node_id not in values:
            values[node_id] = _node_view(self.job, self.job.plan.index[node_id])
        return values[node_id]

    def _referenced_nodes(self) -> dict[str, Any]:
        index = self.job.plan.index
        named = {r.path[0] for r in self.template.references if r.name == "nodes" and r.path}
        return {name: self._node(name) for name in named if isinstance(name, str) and name in index}


def _node_view(job: Job, node: int) -> dict[str, Any]:
    output = job.outputs[node]
    value = None if output is None else msgspec.json.decode(output)
    meta = job.metas.get(node)
    return {
        "output": value,
        "result": value,
        "status": NODE_LABELS[job.states[node]],
        "meta": {} if meta is None else msgspec.json.decode(meta),
    }


def node_row(job: Job, node: int, plan: NodePlan, flight: Flight | None, completed_at: int | None = None,
             error: Raw | None = None) -> NodeRow:  # fmt: skip
    """The node's row as it is now; `flight` tells of the attempt that brought it here."""
    status = NODE_LABELS[job.states[node]]
    if flight is None:
        before = job.attempts_before.get(node, 0)
        return NodeRow(
            job.id, plan.id, status, job.attempt_of(node), before, 0, None, None, None, completed_at, None, None,
            job.outputs[node], error, job.metas.get(node), node,
        )  # fmt: skip
    return NodeRow(
        job.id, plan.id, status, flight.attempt, flight.attempts_before, flight.losses, flight.first_seq,
        flight.dispatched_at, flight.started_at, completed_at, flight.due_at, flight.worker_id,
        job.outputs[node], error, job.metas.get(node), node,
    )  # fmt: skip
