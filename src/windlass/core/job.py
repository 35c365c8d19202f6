"""One execution, compact in memory: what the core decides on, and how it is rebuilt from rows."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.artifacts import GONE, MARKER, is_reference, read_reference
from windlass.core.changes import InFlightEntry, IterationRow, NodeRow, SinkSpec, Task
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.core.loop_state import (
    IN_FLIGHT,
    Attempt,
    Collection,
    Loop,
    LoopProgress,
    LoopRows,
    decode_progress,
)
from windlass.core.plan import NodePlan, Plan
from windlass.core.states import JOB_FINAL, NODE_FINAL, NODE_LABELS, NODE_STATES, JobStatus, NodeStatus
from windlass.core.templates.json_values import merged
from windlass.core.templates.template import Template

# The output of a node that was allowed to fail. None means that there is no output.
NULL = Raw(b"null")

_FINAL_BYTES = frozenset(int(state) for state in NODE_FINAL)
_COMPLETED, _SKIPPED, _FAILED = int(NodeStatus.COMPLETED), int(NodeStatus.SKIPPED), int(NodeStatus.FAILED)


class Job:
    """The state of one job. Nodes are numbers into the plan; only nodes in attempt cost more than a few bytes."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "attempts_start",
        "filling",
        "generations",
        "has_large",
        "id",
        "ignored",
        "in_flight",
        "last_attempts",
        "late",
        "live",
        "loops",
        "metas",
        "outputs",
        "parked",
        "plan",
        "ready",
        "remaining",
        "seq",
        "spec",
        "stalled",
        "state",
        "states",
        "unfinished",
        "values",
        "wanted",
    )

    def __init__(self, plan: Plan, record: JobRecord) -> None:
        count = len(plan.nodes)
        self.id = record.spec.job_id
        self.plan = plan
        self.spec = record.spec
        # The job's own: what is saved of it is a copy.
        self.state = copy(record.state)
        self.seq = record.seq
        self.states = bytearray(count)
        self.remaining = plan.dependency_counts[:]
        # 1 where some dependency was met by more than a skip.
        self.live = bytearray(count)
        self.outputs: list[Raw | None] = [None] * count
        self.metas: dict[int, Raw] = {}
        self.attempts: dict[int, Attempt] = {}
        # Those of them that have no row yet.
        self.in_flight: dict[int, InFlightEntry] = {}
        # Loops under way, and those that ended without completing, which a retry takes up again.
        self.loops: dict[int, Loop] = {}
        self.parked: dict[int, Loop] = {}
        # Loops that may have something to dispatch.
        self.filling: dict[int, None] = {}
        # Sparse: how often a node was run anew after it had completed. Its work is then other work than before.
        self.generations: dict[int, int] = {}
        # Sparse: the last attempt of a node that is not in flight, where it is not 1, and those before the last retry.
        self.last_attempts: dict[int, int] = {}
        self.attempts_before: dict[int, int] = {}
        # Sparse: attempts that the iterations of a loop had in earlier generations, at most.
        self.attempts_start: dict[int, int] = {}
        # Attempts (node, index or -1, number) that were closed without a result: one that comes later is ignored.
        self.late: set[tuple[int, int, int]] = set()
        # Those of them with an event that says so.
        self.ignored: set[tuple[int, int, int]] = set()
        self.ready: deque[int] = deque()
        self.unfinished = count
        # Decoded views of finished nodes for templates; the shell empties it after each turn.
        self.values: dict[str, Any] = {}
        # Whether some output is a reference to a large value.
        self.has_large = False
        # Large outputs that the shell must decode into `values` before these ready nodes and loops can go on.
        self.wanted: dict[str, None] = {}
        self.stalled: list[int] = []

    @classmethod
    def restored(cls, plan: Plan, record: JobRecord, rows: Sequence[NodeRow], loops: Iterable[LoopRows] = (),
                 in_flight: Iterable[InFlightEntry] = ()) -> "Job":  # fmt: skip
        """The job as its rows tell it: equal to the memory that wrote them."""
        job = cls(plan, record)
        if record.state.status is JobStatus.PENDING and not rows:
            return job
        known = [(plan.index[row.node_id], row) for row in rows]
        recorded = {(loop.number, loop.generation): loop for loop in loops}
        for node, row in known:
            job._restore_node(node, row, recorded)
        for one in in_flight:
            node = plan.index[one.node_id]
            job.in_flight[node] = one
            job.states[node] = NodeStatus.DISPATCHED
            job.attempts[node] = Attempt(node, 1, first_seq=one.first_seq, dispatched_at=one.dispatched_at)
        job.recount({child for node, _ in known for child in plan.children[node]})
        if record.state.status is not JobStatus.PENDING and record.state.status not in JOB_FINAL:
            job.ready.extend(n for n in range(len(plan.nodes)) if not job.states[n] and not job.remaining[n])
        return job

    def _restore_node(self, node: int, row: NodeRow, recorded: Mapping[tuple[int, int], LoopRows]) -> None:
        state = NODE_STATES[row.status]
        self.states[node] = state
        if state in NODE_FINAL:
            self.unfinished -= 1
        if row.attempts_before:
            self.attempts_before[node] = row.attempts_before
        progress = LoopProgress() if row.progress is None else decode_progress(row.progress)
        if progress.generation:
            self.generations[node] = progress.generation
        if progress.attempts:
            self.attempts_start[node] = progress.attempts
        if progress.total < 0 and _is_late(row):
            self.late.add((node, -1, row.attempt))
        if progress.total >= 0 and state is not NodeStatus.COMPLETED:
            self._restore_loop(node, row, progress, recorded[node, progress.generation])
        elif state in IN_FLIGHT or state is NodeStatus.WAITING:
            self.attempts[node] = _restored_attempt(node, row, progress)
            return
        if state in IN_FLIGHT:
            return
        self.remember_attempt(node, row.attempt)
        if row.output is not None:
            self.put_output(node, row.output)
        if row.meta is not None:
            self.metas[node] = row.meta

    def _restore_loop(self, node: int, row: NodeRow, progress: LoopProgress, recorded: LoopRows) -> None:
        plan = self.plan.nodes[node].loop
        if plan is None:
            raise ValueError(f"node {row.node_id} has the rows of a loop, but no loop")
        attempt = _restored_attempt(node, row, LoopProgress())
        loop = Loop(plan, Collection(recorded.blocks), progress.generation, attempt, progress.attempts)
        loop.deadline_at = progress.deadline_at
        loop.restore(recorded, progress.begun)
        if self.states[node] not in IN_FLIGHT:
            self.parked[node] = loop
        else:
            self.loops[node] = loop
            if loop.wants_more:
                self.filling[node] = None
        self.late.update((node, one.index, one.attempt) for one in recorded.others if _is_late(one))

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
        return self.state.is_final

    def attempt_of(self, node: int) -> int:
        """The last attempt made of a node; 0 when there was none."""
        attempt = self.attempts.get(node)
        if attempt is None and self.loops and node in self.loops:
            attempt = self.loops[node].node_attempt
        if attempt is not None:
            return attempt.number
        state = self.states[node]
        return self.last_attempts.get(node, 1 if state in (_COMPLETED, _FAILED) else 0)

    def last_attempt(self, node: int, index: int) -> int:
        """Return the number of the last attempt of a node, or of one of its iterations; 0 if there was none."""
        if self.plan.nodes[node].loop is None:
            return self.attempt_of(node)
        # Attempts of a loop that has completed, and of earlier generations.
        last = self.attempts_start.get(node, 0)
        loop = self.loops.get(node) or self.parked.get(node)
        if loop is not None and 0 <= index < loop.begun:
            last = max(last, loop.attempt_of(index))
        return last

    def remember_attempt(self, node: int, attempt: int) -> None:
        """Keep the attempt of a node that is not in flight, where it cannot be told from its state."""
        self.last_attempts.pop(node, None)
        if attempt != self.attempt_of(node):
            self.last_attempts[node] = attempt

    def find_attempt(self, node: int, index: int, number: int) -> Attempt | None:
        """What is in flight under this attempt; None when nobody waits for a result of it."""
        loop = self.loops.get(node)
        if loop is None:
            attempt = self.attempts.get(node)
            is_out = self.states[node] in IN_FLIGHT
        else:
            attempt = loop.attempts.get(index)
            is_out = attempt is not None and loop.states[index] in IN_FLIGHT
        if attempt is None or not is_out or attempt.number != number:
            return None
        return attempt

    def out(self) -> Iterator[Attempt]:
        """Everything that is with workers, or on its way there."""
        for node, attempt in self.attempts.items():
            if self.states[node] in IN_FLIGHT:
                yield attempt
        for loop in self.loops.values():
            for index, attempt in loop.attempts.items():
                if loop.states[index] in IN_FLIGHT:
                    yield attempt

    def state_of(self, attempt: Attempt) -> int:
        """Where a node or an iteration stands."""
        return self.states[attempt.node] if not attempt.is_iteration else self.loops[attempt.node].states[attempt.index]

    def task(self, attempt: Attempt) -> Task:
        """The task of a present attempt; TemplateFailed. The same each time: outputs never change once recorded."""
        plan = self.plan.nodes[attempt.node]
        scope = None
        params = plan.params
        if params is None:
            rendered = self.spec.input
        elif params.static is not None:
            rendered = params.static
        else:
            scope = JobScope(self, params, self._names(attempt))
            scope.spares = True
            rendered = params.render(scope)
        if attempt.calls:
            patched = merged(msgspec.json.decode(rendered), msgspec.json.decode(attempt.patch) or {})
            rendered = Raw(msgspec.json.encode(patched))
        return Task(
            task_id=self.task_id(attempt),
            job_id=self.id,
            node_id=plan.id,
            attempt=attempt.number,
            handler=plan.handler,
            params=bytes(rendered),
            queue=plan.queue,
            timeout_seconds=plan.timeout_seconds,
            priority=plan.priority + self.spec.priority,
            shard=self.spec.shard,
            index=attempt.index if attempt.is_iteration else 0,
            retry_count=attempt.attempts_made - 1,
            idempotency_key=self._identity(attempt),
            sink=None if plan.sink is None else self._order(attempt, plan),
            artifacts=() if scope is None else tuple(scope.spared),
        )

    def task_id(self, attempt: Attempt) -> str:
        """The id of a present attempt."""
        node_id = self.plan.nodes[attempt.node].id
        if not attempt.is_iteration:
            return f"{self.id}_{node_id}_{attempt.number}"
        return f"{self.id}_{node_id}[{attempt.index}]_{attempt.number}"

    def _identity(self, attempt: Attempt) -> str:
        """Names a piece of work over all its attempts: a node, an iteration, one call of a series."""
        key = f"{self.id}_{self.plan.nodes[attempt.node].id}"
        if attempt.is_iteration:
            key += f"[{attempt.index}]"
        if attempt.calls:
            key += f"#{attempt.calls + 1}"
        generation = self.generations.get(attempt.node) if self.generations else 0
        return f"{key}~{generation}" if generation else key

    def _order(self, attempt: Attempt, plan: NodePlan) -> SinkSpec:
        assert plan.sink is not None
        options = plan.sink.options
        rendered = options.static
        if rendered is None:
            rendered = options.render(JobScope(self, options, self._names(attempt)))
        path = plan.on_success.merge_path if plan.on_success is not None else ()
        run_key = f"{self.id}_{plan.id}~{self.generations.get(attempt.node, 0)}"
        return SinkSpec(plan.sink.tool, bytes(rendered), path, run_key)

    def _names(self, attempt: Attempt) -> dict[str, object]:
        """The names that templates of an iteration know besides those of the job."""
        if not attempt.is_iteration:
            return {}
        loop = self.loops[attempt.node]
        return {loop.plan.element: loop.element(attempt.index), "index": attempt.index}

    def scope_of(self, template: Template, attempt: Attempt, extra: Mapping[str, object]) -> "JobScope":
        """The names that a rule about an attempt may read."""
        return JobScope(self, template, {**self._names(attempt), **extra})

    def scope(self, template: Template, **extra: object) -> "JobScope":
        """The names that a template of this job may read."""
        return JobScope(self, template, extra)

    def put_output(self, node: int, output: Raw) -> None:
        """Keep what a node brought."""
        self.outputs[node] = output
        if is_reference(output):
            self.has_large = True

    def large_output(self, node_id: str) -> Raw | None:
        """The reference to a node's output, if that is what it has."""
        node = self.plan.index.get(node_id)
        output = None if node is None else self.outputs[node]
        return output if output is not None and is_reference(output) else None

    def value_of(self, output: Raw) -> Any:
        """An output, decoded; TemplateFailed for a large one that could not be read."""
        if not is_reference(output):
            return msgspec.json.decode(output)
        key = read_reference(output).key
        found = self.values.get(key, GONE)
        if found is GONE:
            raise TemplateFailed(f"the large value {key} cannot be read; was it removed from the artifact store?")
        return found

    def lacks(self, template: Template, *, spares: bool = False) -> bool:
        """Whether rendering must wait for large outputs; they are then among those wanted."""
        found = False
        for name in template.names_looked_into(spares=spares):
            output = self.large_output(name)
            key = None if output is None else read_reference(output).key
            if key is not None and key not in self.values:
                self.wanted[key] = None
                found = True
        return found

    def progress_of(self, node: int, attempt: Attempt | None) -> Raw | None:
        """What the node's row says of its loop or its series of calls."""
        loop = self.loops.get(node) or self.parked.get(node)
        generation, attempts = self.generations.get(node, 0), self.attempts_start.get(node, 0)
        if loop is not None:
            return encoded_progress(
                LoopProgress(loop.generation, loop.total, loop.begun, loop.attempts_start, loop.deadline_at)
            )
        if attempt is not None and (attempt.calls or attempt.is_merging):
            return encoded_progress(
                LoopProgress(generation, calls=attempt.calls, is_merging=attempt.is_merging, patch=attempt.patch)
            )
        return encoded_progress(LoopProgress(generation, attempts=attempts)) if generation or attempts else None

    def unfinished_nodes(self) -> Sequence[int]:
        """The nodes that have not ended, in topological order."""
        return [node for node, state in enumerate(self.states) if state not in _FINAL_BYTES]


class JobScope:
    """The names of one rendering, resolved lazily: only what a template reads is decoded."""

    __slots__ = ("extra", "job", "spared", "spares", "template")

    def __init__(self, job: Job, template: Template, extra: dict[str, object]) -> None:
        self.job = job
        self.template = template
        self.extra = extra
        # Whether a large output that is passed on whole may stay where it is, and the keys of those that do.
        self.spares = False
        self.spared: list[str] = []

    def lookup(self, name: str) -> object:
        """The value of a name; KeyError when there is none."""
        if name in self.extra:
            return self.extra[name]
        job = self.job
        if name in ("input", "workload"):
            return self._input()
        if name == "job":
            at = {"created_at": job.spec.created_at, "scheduled_at": job.spec.scheduled_at or job.spec.created_at}
            told = {key: datetime.fromtimestamp(value / MICROSECONDS, UTC).isoformat() for key, value in at.items()}
            return {"id": job.id, "workflow_id": job.plan.workflow_id, **told}
        if name == "nodes":
            return self._referenced_nodes()
        if name in job.plan.index:
            return self._node(name)
        return self._input()[name]

    def whole(self, name: str) -> object | None:
        """What stands for the output of a node that is too large to be looked into and need not be; else None."""
        if not self.spares or name in self.extra:
            return None
        output = self.job.large_output(name)
        if output is None:
            return None
        key = read_reference(output).key
        if key not in self.spared:
            self.spared.append(key)
        return {MARKER: key}

    def names(self) -> Sequence[str]:
        """What could have been named, for messages."""
        upstream = sorted({reference.name for reference in self.template.references} & self.job.plan.index.keys())
        return [*self.extra, "input", "job", *upstream, *self._input()]

    def _input(self) -> dict[str, Any]:
        # A node may be called `input`; the space keeps this entry apart from those of nodes.
        values = self.job.values
        if " input" not in values:
            values[" input"] = msgspec.json.decode(self.job.spec.input)
        return values[" input"]

    def _node(self, node_id: str) -> dict[str, Any]:
        job, node = self.job, self.job.plan.index[node_id]
        view = job.values.get(node_id) or _node_view(job, node)
        # One that has not ended yet looks different tomorrow.
        if job.is_final(node):
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


def encoded_progress(progress: LoopProgress) -> Raw:
    return Raw(msgspec.json.encode(progress))


class _StoredError(Struct, frozen=True):
    without_result: bool = False


_stored_error = msgspec.json.Decoder(_StoredError)


def _is_late(row: NodeRow | IterationRow) -> bool:
    """Whether the last attempt was closed without a result: cancelled, timed out or lost."""
    if row.status in ("cancelled", "failed", "waiting") and row.dispatched_at is not None:
        return row.status == "cancelled" or (row.error is not None and _stored_error.decode(row.error).without_result)
    return False


def _restored_attempt(node: int, row: NodeRow, progress: LoopProgress) -> Attempt:
    return Attempt(
        node=node,
        number=row.attempt,
        attempts_before=row.attempts_before,
        losses=row.losses,
        first_seq=row.first_seq,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        due_at=row.due_at,
        worker_id=row.worker_id,
        calls=progress.calls,
        patch=progress.patch,
        is_merging=progress.is_merging,
    )
