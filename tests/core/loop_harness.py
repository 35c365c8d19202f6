"""A job with loops and pagination that tests send messages to; its changes are stored in memory."""

from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec import Raw

from simulation.checks.memory import check_memory
from windlass.clock import SystemClock
from windlass.core.advance import advance
from windlass.core.changes import Changes, IterationRow, MergeOutputs, Task, Timer
from windlass.core.job import Job
from windlass.core.jobs import JobSpec
from windlass.core.loop_state import Loop
from windlass.core.messages import (
    Continue,
    Failed,
    JobMessage,
    OutputsMerged,
    Submitted,
    Succeeded,
    TaskError,
    TaskFinished,
    TaskStarted,
    TimerDue,
    TimerKind,
)
from windlass.core.plan import Plan
from windlass.core.prefetch import request_for
from windlass.core.states import NodeStatus
from windlass.engine.job_table import rebuild
from windlass.engine.output_store import OutputStore
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore

T0 = 1_700_000_000_000_000
SECOND = 1_000_000
BYTES_MAX = 10_000_000


def result_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the coroutine suspended")


class LoopHarness:
    """A job with its store and all published effects. After every message, memory must equal the rows."""

    def __init__(self, plan: Plan, input: bytes = b"{}") -> None:
        self.plan = plan
        self.now = T0
        self.store = MemoryStore(SystemClock())
        self.artifacts = MemoryArtifacts()
        self.values = OutputStore(self.store, self.artifacts, BYTES_MAX)
        result_of(self.store.jobs.insert([JobSpec("job", plan.workflow_id, 1, Raw(input), T0)]))
        self._epoch = result_of(self.store.leases.take(0, "harness")).epoch
        self.job: Job = rebuild(plan, self.store.rows("job"))
        self.tasks: list[Task] = []
        self.cancels: list[str] = []
        self.timers: list[Timer] = []
        self.merges: list[MergeOutputs] = []

    def apply(self, *messages: JobMessage) -> Changes:
        """Apply each message in its own batch; return the changes of the last one."""
        changes = Changes()
        for message in messages:
            request_for(self.job, message)
            result_of(self.values.provide(self.job))
            changes = advance(self.job, message, self.now)
            while self.job.wanted:
                result_of(self.values.provide(self.job))
                advance(self.job, Continue("job"), self.now, changes)
            self.values.forget_values(self.job)
            if changes:
                result_of(self.store.commit(0, self._epoch, changes))
            self.tasks += changes.tasks
            self.cancels += changes.cancels
            self.timers += changes.timers
            self.merges += changes.merges
            assert check_memory(self.job, self.store.rows("job")) == []
        return changes

    def begin(self) -> Changes:
        return self.apply(Submitted("job"))

    def finish(
        self, node: str, index: int = 0, output: bytes = b"1", *, attempt: int | None = None
    ) -> Changes:
        return self.apply(self.finished(node, index, Succeeded(Raw(output)), attempt))

    def fail(
        self, node: str, index: int = 0, *, attempt: int | None = None, **error: Any
    ) -> Changes:
        described = TaskError(**{"type": "ValueError", "message": "no", **error})
        return self.apply(self.finished(node, index, Failed(described), attempt))

    def finished(
        self, node: str, index: int, outcome: Succeeded | Failed, attempt: int | None
    ) -> TaskFinished:
        number = self.attempt(node, index) if attempt is None else attempt
        return TaskFinished("job", node, number, "w1", self.now, self.now, outcome, index)

    def start(self, node: str, index: int = 0, worker_id: str = "w1") -> Changes:
        return self.apply(
            TaskStarted("job", node, self.attempt(node, index), worker_id, self.now, index)
        )

    def fire_retry(self, node: str, index: int = 0) -> Changes:
        """Set the clock to the next attempt and fire its timer."""
        number = self.plan.index[node]
        loop = self.job.loops.get(number)
        attempt = self.job.attempts[number] if loop is None else loop.attempts[index]
        self.now = max(self.now, attempt.due_at or 0)
        return self.apply(TimerDue("job", TimerKind.RETRY, node, self.attempt(node, index), index))

    def merge_outputs(self) -> Changes:
        """Merge all outputs that were requested since the last call."""
        requested, self.merges = self.merges, []
        return self.apply(*[self.merged(merge) for merge in requested])

    def merged(self, merge: MergeOutputs) -> OutputsMerged:
        return result_of(self.values.merge(merge))

    def put_artifact(self, body: bytes) -> str:
        """Store an artifact and return its key."""
        return result_of(self.artifacts.put("job", body))

    def attempt(self, node: str, index: int = 0) -> int:
        number = self.plan.index[node]
        loop = self.job.loops.get(number)
        return (
            self.job.last_attempt_number(number)
            if loop is None
            else loop.last_attempt_number(index)
        )

    def reload(self) -> None:
        """Discard the job in memory and rebuild it from the rows."""
        self.job = rebuild(self.plan, self.store.rows("job"))

    def loop(self, node: str) -> Loop:
        return self.job.loops[self.plan.index[node]]

    def states(self, node: str) -> list[str]:
        """Return the states of a loop's iterations, also after the loop has ended."""
        number = self.plan.index[node]
        loop = self.job.loops.get(number) or self.job.parked[number]
        return [NodeStatus(state).label for state in loop.states]

    def state(self, node: str) -> str:
        return NodeStatus(self.job.states[self.plan.index[node]]).label

    @property
    def status(self) -> str:
        return self.job.state.status

    def output(self, node: str) -> Any:
        found = self.job.outputs[self.plan.index[node]]
        assert found is not None
        return msgspec.json.decode(found)

    def meta(self, node: str) -> Any:
        return msgspec.json.decode(self.job.metas[self.plan.index[node]])

    def params(self) -> list[Any]:
        """Return the params of all dispatched tasks, in order."""
        return [msgspec.json.decode(task.params) for task in self.tasks]

    @property
    def dispatched(self) -> list[str]:
        return [task.task_id for task in self.tasks]

    def rows(self, node: str) -> dict[int, IterationRow]:
        number = self.plan.index[node]
        return {
            row.index: row for row in self.store.records("job").iterations if row.number == number
        }

    def states_of_rows(self, node: str) -> list[str]:
        return [row.status for _, row in sorted(self.rows(node).items())]

    @property
    def events(self) -> list[str]:
        log = self.store.log("job")
        return [
            f"{e.type} {e.node_id or ''}{'' if e.index is None else f'[{e.index}]'}".strip()
            for e in log
        ]
