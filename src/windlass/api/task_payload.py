"""Tasks as they go out to HTTP workers: with their large values in place, their sinks, and what they belong to."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct

from windlass.api.state import ApiState
from windlass.core.artifacts import in_place
from windlass.core.changes import IterationRow, NodeRow, Task
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.core.loop_state import Progress, decode_progress
from windlass.core.messages import Failed, TaskError
from windlass.core.plan import NodePlan, Plan
from windlass.ports.broker import TaskClaim
from windlass.views.jobs import event_id
from windlass.views.loops import iteration, loop_place
from windlass.views.outputs import FETCHES_AT_ONCE_MAX
from windlass.wire import ClaimedSink, ClaimedTask, instant

# The params of one answer, all tasks together. What does not fit stays for the next claim, unless it is the first.
ANSWER_BYTES_MAX = 64 << 20
# Fetching the values of one task, and of all tasks but the last: a worker that has not heard of its tasks cannot say
# that it lives with them, and after 15 s they would go to another.
TASK_SECONDS_MAX = 5.0
CLAIM_SECONDS_MAX = 5.0


class Claimed(Struct, frozen=True):
    """What becomes of the tasks of one claim."""

    tasks: list[ClaimedTask]
    deliveries: list[TaskClaim]
    # Tasks whose params cannot be had, and why.
    failed: list[tuple[Task, Failed]]
    # Ids of those that wait for the next claim.
    left: list[str]


async def prepared(state: ApiState, deliveries: Sequence[TaskClaim]) -> Claimed:
    """Tasks for a worker that has nothing but the answer."""
    claimed = Claimed([], [], [], [])
    family = _Family(state)
    room = ANSWER_BYTES_MAX
    time = asyncio.get_running_loop().time
    end = time() + CLAIM_SECONDS_MAX
    for delivery in deliveries:
        task = delivery.task
        if task.artifacts and time() > end:
            claimed.left.append(task.task_id)
            continue
        params = await _params(state, task) if task.artifacts else task.params
        if isinstance(params, Failed):
            claimed.failed.append((task, params))
            continue
        room -= len(params)
        if room < 0 and claimed.tasks:
            claimed.left.append(task.task_id)
            continue
        claimed.tasks.append(_shape(task, params, await family.meta(task)))
        claimed.deliveries.append(delivery)
    return claimed


async def _params(state: ApiState, task: Task) -> bytes | Failed:
    """The params with their large values in place."""
    bodies: dict[str, bytes] = {}
    keys = task.artifacts
    try:
        async with asyncio.timeout(TASK_SECONDS_MAX):
            for start in range(0, len(keys), FETCHES_AT_ONCE_MAX):
                some = keys[start : start + FETCHES_AT_ONCE_MAX]
                bodies.update(zip(some, await asyncio.gather(*map(state.artifacts.get, some)), strict=True))
                if sum(map(len, bodies.values())) > ANSWER_BYTES_MAX:
                    return _too_large(task)
    except ArtifactNotFound as error:
        return Failed(TaskError("artifact_not_found", f"a large value of the params is gone: {error}", False))
    except (StoreUnavailable, TimeoutError) as error:
        reason = str(error) or f"no answer within {TASK_SECONDS_MAX:g} s"
        return Failed(TaskError("artifacts_unavailable", f"the large values of the params cannot be read: {reason}"))
    return in_place(task.params, bodies, ANSWER_BYTES_MAX) or _too_large(task)


def _too_large(task: Task) -> Failed:
    what = (
        f"with its {len(task.artifacts)} large values in place, the params exceed {ANSWER_BYTES_MAX} bytes: "
        "pass less of them on, or pass where they can be found"
    )
    return Failed(TaskError("params_invalid", what, False))


def _shape(task: Task, params: bytes, meta: dict[str, Any]) -> ClaimedTask:
    identity = task.idempotency_key or task.task_id
    sink = task.sink
    return ClaimedTask(
        task.task_id,
        task.job_id,
        task.node_id,
        task.index,
        task.attempt,
        task.handler,
        Raw(params),
        task.queue,
        task.timeout_seconds,
        task.retry_count,
        identity,
        None if sink is None else ClaimedSink(sink.tool, Raw(sink.options), list(sink.path), identity, sink.run_key),
        meta,
    )


class _Node(Struct, frozen=True):
    """A node that tasks of a claim belong to."""

    plan: Plan
    row: NodeRow

    @property
    def rules(self) -> NodePlan:
        return self.plan.nodes[self.plan.index[self.row.node_id]]


class _Family:
    """The loops and the series of attempts that tasks belong to; each node is looked up once a claim."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._nodes: dict[tuple[str, str], _Node | None] = {}

    async def meta(self, task: Task) -> dict[str, Any]:
        """What is to be said about a task besides the task; mostly nothing, and then nothing is read."""
        is_iteration = "[" in task.task_id
        if not is_iteration and task.attempt == 1:
            return {}
        key = (task.job_id, task.node_id)
        if key not in self._nodes:
            self._nodes[key] = await self._node(task)
        node = self._nodes[key]
        if node is None:
            return {}
        meta: dict[str, Any] = {}
        place = loop_place(node.plan, node.row) if is_iteration else None
        loop = node.rules.loop
        if place is not None and loop is not None:
            meta["iterator"] = {
                "parent_execution_id": task.job_id,
                "iteration_index": task.index,
                "total_iterations": place.total,
                "iterator_name": loop.element,
                "mode": loop.mode,
            }
        if task.attempt > 1:
            row = node.row if place is None else await iteration(self._state.store, place, task.index)
            meta.update(_retry(task, node.rules, row))
        return meta

    async def _node(self, task: Task) -> _Node | None:
        job = await self._state.store.job(task.job_id)
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        rows = await self._state.store.nodes(task.job_id, task.node_id)
        return _Node(plan, rows[0]) if rows else None


def _retry(task: Task, rules: NodePlan, row: NodeRow | IterationRow | None) -> dict[str, Any]:
    if row is None:
        return {}
    progress = Progress() if row.progress is None else decode_progress(row.progress)
    parent = None if row.first_seq is None else event_id(task.job_id, row.first_seq)
    if task.retry_count > 0:
        retry = {
            "type": "on_error",
            "attempt_number": task.retry_count + 1,
            "max_attempts": rules.on_error.attempts_max,
            "parent_event_id": parent,
            "scheduled_at": instant(row.dispatched_at),
        }
    elif progress.calls and rules.on_success is not None:
        retry = {
            "type": "on_success",
            "attempt_number": progress.calls + 1,
            "max_attempts": rules.on_success.calls_max,
            "parent_event_id": parent,
            "continuation": "polling" if rules.on_success.next_call is None else "pagination",
        }
    else:
        # Another attempt for other reasons: somebody asked for it, or a worker was lost.
        return {}
    return {"retry": retry}
