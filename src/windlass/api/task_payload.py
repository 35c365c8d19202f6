"""Tasks for HTTP workers, with their large values, sinks and metadata."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct

from windlass.api.state import ApiState
from windlass.core.attempt_meta import continuation
from windlass.core.changes import IterationRow, NodeRow, Task
from windlass.core.ids import TaskId
from windlass.core.loop_state import read_progress
from windlass.core.messages import Failed
from windlass.core.plan import NodePlan, Plan
from windlass.ports.artifact_reader import ArtifactReader
from windlass.ports.broker import TaskClaim
from windlass.ports.task_params import fetch_params
from windlass.views.jobs import event_id
from windlass.views.loops import iteration_row, stored_loop
from windlass.wire import ClaimedSinkView, ClaimedTaskView, instant

# The params of all tasks of one response. Tasks that do not fit are returned to the queue, except the first.
ANSWER_BYTES_MAX = 64 << 20
# Time to fetch the values of one task, and time after which no further task is begun, each as a part of the setting
# engine.worker_timeout_seconds. The worker sends no heartbeats for tasks that it has not received, and after that time
# without one they would be reassigned.
TASK_PART = 1 / 3
CLAIM_PART = 1 / 3


class PreparedClaim(Struct, frozen=True):
    """The tasks of one claim, by what happens to them."""

    tasks: list[ClaimedTaskView]
    claims: list[TaskClaim]
    # Tasks whose params cannot be read, with the error.
    failed: list[tuple[Task, Failed]]
    # Ids of the tasks that go back to the queue.
    returned: list[str]

    def abandoned(self) -> "PreparedClaim":
        """Return the claim of a worker that has disconnected: all tasks go back to the queue."""
        task_ids = [claim.task.task_id for claim in self.claims]
        return PreparedClaim([], [], [], [*self.returned, *task_ids])


async def prepare_claim(
    state: ApiState, reader: ArtifactReader, claims: Sequence[TaskClaim]
) -> PreparedClaim:
    """Resolve the values and metadata of claimed tasks."""
    prepared = PreparedClaim([], [], [], [])
    metadata = TaskMetadata(state)
    remaining_bytes = ANSWER_BYTES_MAX
    time = asyncio.get_running_loop().time
    deadline = time() + CLAIM_PART * state.control.worker_timeout_seconds
    for claim in claims:
        task = claim.task
        params: bytes | Failed = task.params
        if task.artifacts:
            if time() > deadline:
                prepared.returned.append(task.task_id)
                continue
            params = await fetch_params(
                reader,
                task,
                output_bytes_max=state.artifact_bytes_max,
                seconds_max=TASK_PART * state.control.worker_timeout_seconds,
            )
        if isinstance(params, Failed):
            prepared.failed.append((task, params))
            continue
        remaining_bytes -= len(params)
        if remaining_bytes < 0 and prepared.tasks:
            prepared.returned.append(task.task_id)
            continue
        prepared.tasks.append(_task_view(task, params, await metadata.of(task)))
        prepared.claims.append(claim)
    return prepared


def _task_view(task: Task, params: bytes, meta: dict[str, Any]) -> ClaimedTaskView:
    return ClaimedTaskView(
        task_id=task.task_id,
        job_id=task.job_id,
        node_id=task.node_id,
        index=task.index,
        attempt=task.attempt,
        handler=task.handler,
        params=Raw(params),
        queue=task.queue,
        timeout_seconds=task.timeout_seconds,
        retry_count=task.retry_count,
        idempotency_key=task.idempotency_key or task.task_id,
        sink=_sink_view(task),
        meta=meta,
    )


def _sink_view(task: Task) -> ClaimedSinkView | None:
    sink = task.sink
    if sink is None:
        return None
    return ClaimedSinkView(
        tool=sink.tool,
        options=Raw(sink.options),
        path=list(sink.path),
        identity=task.idempotency_key or task.task_id,
        run_key=sink.run_key,
    )


class _PlannedNode(Struct, frozen=True):
    """A node and its row."""

    plan: Plan
    row: NodeRow

    @property
    def node(self) -> NodePlan:
        return self.plan.nodes[self.plan.index[self.row.node_id]]


class TaskMetadata:
    """Metadata of tasks about their loop, retries and pages. Each node is read once per claim."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._nodes: dict[tuple[str, str], _PlannedNode | None] = {}

    async def of(self, task: Task) -> dict[str, Any]:
        """Return the metadata of a task. Most tasks have none, and nothing is read for them."""
        is_iteration = TaskId.parse(task.task_id).index is not None
        if not is_iteration and task.attempt == 1:
            return {}
        key = (task.job_id, task.node_id)
        if key not in self._nodes:
            self._nodes[key] = await self._read_node(task)
        planned = self._nodes[key]
        if planned is None:
            return {}
        meta: dict[str, Any] = {}
        stored = stored_loop(planned.plan, planned.row) if is_iteration else None
        loop = planned.node.loop
        if stored is not None and loop is not None:
            meta["iterator"] = {
                "parent_execution_id": task.job_id,
                "iteration_index": task.index,
                "total_iterations": stored.total,
                "iterator_name": loop.element,
                "mode": loop.mode,
            }
        if task.attempt > 1:
            row: NodeRow | IterationRow | None = planned.row
            if stored is not None:
                row = await iteration_row(self._state.store, stored, task.index)
            if row is not None:
                meta.update(_retry_meta(task, planned.node, row))
        return meta

    async def _read_node(self, task: Task) -> _PlannedNode | None:
        job = await self._state.store.jobs.get(task.job_id)
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        rows = await self._state.store.jobs.nodes(task.job_id, task.node_id)
        if not rows:
            return None
        return _PlannedNode(plan, rows[0])


def _retry_meta(task: Task, node: NodePlan, row: NodeRow | IterationRow) -> dict[str, Any]:
    """Describe a retry or a further page; nothing for an attempt after a manual retry or a lost worker."""
    progress = read_progress(row.progress)
    parent = None if row.first_seq is None else event_id(task.job_id, row.first_seq)
    if task.retry_count > 0:
        retry = {
            "type": "on_error",
            "attempt_number": task.attempt,
            "max_attempts": node.on_error.attempts_max,
            "parent_event_id": parent,
            "backoff_seconds": progress.backoff_seconds,
            "scheduled_at": instant(row.dispatched_at),
        }
        return {"retry": retry}
    if progress.calls and node.on_success is not None:
        retry = {
            "type": "on_success",
            "attempt_number": task.attempt,
            "max_attempts": node.on_success.calls_max,
            "parent_event_id": parent,
            "page": progress.calls + 1,
            "continuation": continuation(node.on_success),
        }
        return {"retry": retry}
    return {}
