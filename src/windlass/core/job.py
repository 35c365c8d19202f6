"""A job in memory: the state that the rules decide on, and how it is restored from rows."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.artifacts import GONE, MARKER, is_reference, read_reference
from windlass.core.changes import InFlightEntry, NodeRow, SinkSpec, Task
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.core.loop_state import (
    IN_FLIGHT,
    IS_OUT,
    Attempt,
    Collection,
    Loop,
    LoopProgress,
    LoopRows,
    decode_progress,
)
from windlass.core.plan import NodePlan, Plan, SinkPlan
from windlass.core.states import JOB_FINAL, NODE_FINAL, NODE_LABELS, NODE_STATES, JobStatus, NodeStatus
from windlass.core.templates.json_values import merged
from windlass.core.templates.template import Template

# The output of a node that was allowed to fail. None means that there is no output.
NULL = Raw(b"null")

_FINAL_BYTES = frozenset(int(state) for state in NODE_FINAL)
_COMPLETED, _SKIPPED, _FAILED = int(NodeStatus.COMPLETED), int(NodeStatus.SKIPPED), int(NodeStatus.FAILED)


class Job:
    """The state of one job. Nodes are numbers in the plan; only nodes in flight take more than a few bytes."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "attempts_start",
        "filling",
        "generations",
        "has_large",
        "id",
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
        # A copy: the record must not change with the job.
        self.state = copy(record.state)
        self.seq = record.seq
        self.states = bytearray(count)
        self.remaining = plan.dependency_counts[:]
        # 1 if some dependency was met other than by being skipped.
        self.live = bytearray(count)
        self.outputs: list[Raw | None] = [None] * count
        self.metas: dict[int, Raw] = {}
        self.attempts: dict[int, Attempt] = {}
        # The entries of nodes in flight that have no row yet.
        self.in_flight: dict[int, InFlightEntry] = {}
        # Loops in progress, and loops that ended without completing, which a retry resumes.
        self.loops: dict[int, Loop] = {}
        self.parked: dict[int, Loop] = {}
        # Loops that may have something to dispatch.
        self.filling: dict[int, None] = {}
        # Sparse: how often a node was run again with other inputs. Its work then differs from the work before.
        self.generations: dict[int, int] = {}
        # Sparse: the last attempt of a node that is not in flight, if it is not 1.
        self.last_attempts: dict[int, int] = {}
        # Sparse: the attempts before the last retry.
        self.attempts_before: dict[int, int] = {}
        # Sparse: the highest attempt of iterations in earlier generations of a loop.
        self.attempts_start: dict[int, int] = {}
        # Attempts that were closed without a result: a result that still arrives is recorded as ignored.
        self.late: set[tuple[int, int, int]] = set()
        self.ready: deque[int] = deque()
        self.unfinished = count
        # Decoded values for templates; the engine clears them after each turn.
        self.values: dict[str, Any] = {}
        # Whether some output is a reference to a large value.
        self.has_large = False
        # Large outputs that the engine must decode into `values`, and the ready nodes that wait for them.
        self.wanted: dict[str, None] = {}
        self.stalled: list[int] = []

    @classmethod
    def restored(cls, plan: Plan, record: JobRecord, rows: Sequence[NodeRow], loops: Iterable[LoopRows] = (),
                 in_flight: Iterable[InFlightEntry] = ()) -> "Job":  # fmt: skip
        """Restore a job from its rows; it equals the job that wrote them."""
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
        if state is NodeStatus.CANCELLED and row.dispatched_at is not None and progress.total < 0:
            self.late.add((node, -1, row.attempt))

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
        cancelled = (one for one in recorded.others if one.status == "cancelled" and one.dispatched_at is not None)
        self.late.update((node, one.index, one.attempt) for one in cancelled)

    def recount(self, nodes: Iterable[int]) -> None:
        """Count the dependencies of nodes again, from the states of their parents."""
        states, parents = self.states, self.plan.parents
        for node in nodes:
            met = [parent for parent in parents[node] if self.is_met(parent)]
            self.remaining[node] = len(parents[node]) - len(met)
            self.live[node] = any(states[parent] != _SKIPPED for parent in met)

    def is_met(self, node: int) -> bool:
        """Whether the node meets the dependency of the nodes after it."""
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
        """Return the last attempt of a node; 0 without any."""
        attempt = self.attempts.get(node)
        if attempt is None and self.loops and node in self.loops:
            attempt = self.loops[node].node_attempt
        if attempt is not None:
            return attempt.number
        state = self.states[node]
        return self.last_attempts.get(node, 1 if state in (_COMPLETED, _FAILED) else 0)

    def remember_attempt(self, node: int, attempt: int) -> None:
        """Keep the attempt of a node that is not in flight, unless its status implies it."""
        self.last_attempts.pop(node, None)
        if attempt != self.attempt_of(node):
            self.last_attempts[node] = attempt

    def find_attempt(self, node: int, index: int, number: int) -> Attempt | None:
        """Return the attempt in flight with this number; None if its result is not awaited."""
        attempt = self.attempts.get(node)
        states, position = self.states, node
        if self.loops and node in self.loops:
            loop = self.loops[node]
            attempt = loop.attempts.get(index)
            states, position = loop.states, index
        if attempt is None or not IS_OUT[states[position]] or attempt.number != number:
            return None
        return attempt

    def out(self) -> Iterator[Attempt]:
        """Yield all attempts that are dispatched or running."""
        for node, attempt in self.attempts.items():
            if self.states[node] in IN_FLIGHT:
                yield attempt
        for loop in self.loops.values():
            for index, attempt in loop.attempts.items():
                if loop.states[index] in IN_FLIGHT:
                    yield attempt

    def state_of(self, attempt: Attempt) -> int:
        """Return the state of the node or the iteration of an attempt."""
        if attempt.is_iteration:
            return self.loops[attempt.node].states[attempt.index]
        return self.states[attempt.node]

    def task(self, attempt: Attempt) -> Task:
        """Return the task of an attempt; TemplateFailed. It never changes, because recorded outputs never change."""
        plan = self.plan.nodes[attempt.node]
        template = plan.params
        artifacts: tuple[str, ...] = ()
        if template is None:
            params = self.spec.input
        elif template.static is not None:
            params = template.static
        else:
            params, artifacts = self._render_params(attempt, template)
        if attempt.calls:
            params = _patched(params, attempt.patch)
        key = work_id = self._work_id(attempt, plan)
        if attempt.calls or self.generations:
            key = self._idempotency_key(attempt, work_id)
        return Task(
            task_id=f"{work_id}_{attempt.number}",
            job_id=self.id,
            node_id=plan.id,
            attempt=attempt.number,
            handler=plan.handler,
            params=bytes(params),
            queue=plan.queue,
            timeout_seconds=plan.timeout_seconds,
            priority=plan.priority + self.spec.priority,
            shard=self.spec.shard,
            index=attempt.index if attempt.is_iteration else 0,
            retry_count=attempt.number - attempt.attempts_before - 1,
            idempotency_key=key,
            sink=None if plan.sink is None else self._sink(attempt, plan, plan.sink),
            artifacts=artifacts,
        )

    def _render_params(self, attempt: Attempt, template: Template) -> tuple[Raw, tuple[str, ...]]:
        """Return the params of an attempt, and the keys of the artifacts that they refer to. TemplateFailed."""
        scope = JobScope(self, template, self._names(attempt))
        scope.spares = True
        return template.render(scope), tuple(scope.spared)

    def task_id(self, attempt: Attempt) -> str:
        """Return the id of the task of an attempt."""
        return f"{self._work_id(attempt, self.plan.nodes[attempt.node])}_{attempt.number}"

    def _work_id(self, attempt: Attempt, plan: NodePlan) -> str:
        """Name the node or the iteration that an attempt belongs to."""
        if attempt.is_iteration:
            return f"{self.id}_{plan.id}[{attempt.index}]"
        return f"{self.id}_{plan.id}"

    def _idempotency_key(self, attempt: Attempt, work_id: str) -> str:
        """Name the work of an attempt, the same for all attempts: a node, an iteration, or one call of a series."""
        key = work_id
        if attempt.calls:
            key += f"#{attempt.calls + 1}"
        if attempt.node in self.generations:
            key += f"~{self.generations[attempt.node]}"
        return key

    def _sink(self, attempt: Attempt, plan: NodePlan, sink: SinkPlan) -> SinkSpec:
        options = sink.options.static
        if options is None:
            options = sink.options.render(JobScope(self, sink.options, self._names(attempt)))
        path: tuple[str, ...] = ()
        if plan.on_success is not None:
            path = plan.on_success.merge_path
        run_key = f"{self.id}_{plan.id}~{self.generations.get(attempt.node, 0)}"
        return SinkSpec(sink.tool, bytes(options), path, run_key)

    def _names(self, attempt: Attempt) -> dict[str, object]:
        """Return the names that templates of an iteration have besides those of the job."""
        if not attempt.is_iteration:
            return {}
        loop = self.loops[attempt.node]
        return {loop.plan.element: loop.element(attempt.index), "index": attempt.index}

    def scope_of(self, template: Template, attempt: Attempt, extra: Mapping[str, object]) -> "JobScope":
        """Return the names of a rule about an attempt."""
        return JobScope(self, template, {**self._names(attempt), **extra})

    def scope(self, template: Template, **extra: object) -> "JobScope":
        """Return the names of a template of this job."""
        return JobScope(self, template, extra)

    def put_output(self, node: int, output: Raw) -> None:
        """Keep the output of a node."""
        self.outputs[node] = output
        if is_reference(output):
            self.has_large = True

    def large_output(self, node_id: str) -> Raw | None:
        """Return the output of a node if it is a reference to a large value."""
        node = self.plan.index.get(node_id)
        output = None if node is None else self.outputs[node]
        return output if output is not None and is_reference(output) else None

    def value_of(self, output: Raw) -> Any:
        """Return a decoded output. TemplateFailed if it is large and could not be read."""
        if not is_reference(output):
            return msgspec.json.decode(output)
        key = read_reference(output).key
        found = self.values.get(key, GONE)
        if found is GONE:
            raise TemplateFailed(f"artifact not found: {key}; it was removed from the artifact store")
        return found

    def lacks(self, template: Template, *, spares: bool = False) -> bool:
        """Whether rendering must wait for large outputs, which are then requested."""
        found = False
        for name in template.names_looked_into(spares=spares):
            output = self.large_output(name)
            key = None if output is None else read_reference(output).key
            if key is not None and key not in self.values:
                self.wanted[key] = None
                found = True
        return found

    def progress_of(self, node: int, attempt: Attempt | None) -> Raw | None:
        """Return the progress of the loop or the series of calls of a node, for its row."""
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
        """Return the nodes that have not ended, in topological order."""
        return [node for node, state in enumerate(self.states) if state not in _FINAL_BYTES]


class JobScope:
    """The names of one rendering. Only values that the template reads are decoded."""

    __slots__ = ("extra", "job", "spared", "spares", "template")

    def __init__(self, job: Job, template: Template, extra: dict[str, object]) -> None:
        self.job = job
        self.template = template
        self.extra = extra
        # Whether a large output that is passed on as a whole may stay a reference, and the keys of those that do.
        self.spares = False
        self.spared: list[str] = []

    def lookup(self, name: str) -> object:
        """Return the value of a name. KeyError."""
        if name in self.extra:
            return self.extra[name]
        job = self.job
        if name in ("input", "workload"):
            return self._input()
        if name == "job":
            at = {"created_at": job.spec.created_at, "scheduled_at": job.spec.scheduled_at or job.spec.created_at}
            texts = {key: datetime.fromtimestamp(value / MICROSECONDS, UTC).isoformat() for key, value in at.items()}
            return {"id": job.id, "workflow_id": job.plan.workflow_id, **texts}
        if name == "nodes":
            return self._referenced_nodes()
        if name in job.plan.index:
            return self._node(name)
        return self._input()[name]

    def whole(self, name: str) -> object | None:
        """Return the reference to a large output that is passed on as a whole; None for any other."""
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
        """Return the known names, for error messages."""
        upstream = sorted({reference.name for reference in self.template.references} & self.job.plan.index.keys())
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


def _patched(params: Raw, patch: Raw) -> Raw:
    """Return params with the changes that the calls so far made to them."""
    return Raw(msgspec.json.encode(merged(msgspec.json.decode(params), msgspec.json.decode(patch) or {})))
