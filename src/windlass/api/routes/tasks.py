"""Workers in any language: they claim tasks, say that they live, and report how tasks ended.

A reported result is a row before it is acknowledged; the message that follows is only a hint.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Raw, Struct, field
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.problems import invalid
from windlass.api.requests import body_of, no_query, seconds_of
from windlass.api.state import ApiState, Slots
from windlass.api.task_payload import Claimed, prepared
from windlass.api.task_reports import (
    NULL,
    DurationMs,
    EmitBody,
    EmittedData,
    ResultBody,
    TaskId,
    WorkerId,
    attempt_of,
    context_of,
    error_of,
    json_of,
    outcome_of,
)
from windlass.core.artifacts import INLINE_BYTES_MAX, reference
from windlass.core.changes import Task
from windlass.core.errors import NodeNotFound, RequestRefused, WindlassError
from windlass.core.jobs import JobRecord
from windlass.core.messages import Failed, Message, Succeeded, TaskFinished, TaskStarted
from windlass.ports.broker import TaskClaim, TaskReport
from windlass.ports.store import StoredResult
from windlass.views.loops import iteration, loop_place
from windlass.wire import ClaimAnswer, HeartbeatAnswer, ResultAnswer

TAG = "tasks"
TASKS_MAX = 100
QUEUES_MAX = 32
HELD_MAX = 1_000
WAIT_SECONDS_MAX = 60.0
# Claims that may wait at once.
CLAIMS_MAX = 1_000
# How often a claim that waits looks whether its worker is still there to take the answer.
LOOK_SECONDS = 1.0
# The worker of an emitted event that names none.
NAMELESS_WORKER = "http"

QueueName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$", max_length=64)]
Wait = Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)]
WaitText = Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m)?$", max_length=20)]


class ClaimBody(Struct, frozen=True):
    """A worker asks for tasks. `wait` is a number of seconds or a duration, 60 s at most."""

    worker_id: WorkerId
    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=QUEUES_MAX)] = field(
        default_factory=lambda: ["default"]
    )
    max_tasks: Annotated[int, Meta(ge=1, le=TASKS_MAX)] = 1
    wait: Wait | WaitText = 0.0


class HeartbeatBody(Struct, frozen=True):
    """A worker says that it lives and what it holds."""

    worker_id: WorkerId
    task_ids: Annotated[list[TaskId], Meta(max_length=HELD_MAX)] = []


def router(state: ApiState) -> APIRouter:
    """Claim, heartbeat, and the two ways to report."""
    routes = APIRouter()
    desk = Desk(state)
    declare(routes, "POST", "/tasks/claim", desk.claim, _CLAIM)
    declare(routes, "POST", "/tasks/heartbeat", desk.beat, _HEARTBEAT)
    declare(routes, "POST", "/callbacks/task-result", desk.take_result, _RESULT)
    declare(routes, "POST", "/event/emit", desk.take_event, _EMIT)
    return routes


class Desk:
    """Where workers come to over HTTP."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._claims = Slots(CLAIMS_MAX, "waiting claims")
        self._claim_decoder = msgspec.json.Decoder(ClaimBody)
        self._beat_decoder = msgspec.json.Decoder(HeartbeatBody)
        self._result_decoder = msgspec.json.Decoder(ResultBody)
        self._event_decoder = msgspec.json.Decoder(EmitBody)

    async def claim(self, request: Request) -> Response:
        """Hand tasks out; waits for the first one as long as the worker wants."""
        no_query(request)
        wanted = await body_of(request, self._claim_decoder)
        wait = wanted.wait
        seconds = seconds_of(wait, "wait", WAIT_SECONDS_MAX) if isinstance(wait, str) else float(wait)
        with self._claims.held():
            deliveries = await self._take(wanted, seconds, request)
        try:
            claimed = await prepared(self._state, deliveries)
        except WindlassError:
            await self._state.broker.return_tasks(wanted.worker_id, [one.task.task_id for one in deliveries])
            raise
        await self._give_up(wanted.worker_id, claimed.failed)
        if deliveries and await request.is_disconnected():
            claimed = Claimed([], [], [], [*claimed.left, *(one.task.task_id for one in claimed.deliveries)])
        if claimed.left:
            await self._state.broker.return_tasks(wanted.worker_id, claimed.left)
        await self._announce(wanted.worker_id, claimed.deliveries)
        return answer(ClaimAnswer(claimed.tasks))

    async def _take(self, wanted: ClaimBody, seconds: float, request: Request) -> Sequence[TaskClaim]:
        time = asyncio.get_running_loop().time
        end = time() + seconds
        look = time() + LOOK_SECONDS
        while True:
            left = end - time()
            wait = max(0.0, min(left, LOOK_SECONDS))
            deliveries = await self._state.broker.claim(wanted.worker_id, wanted.queues, wanted.max_tasks, wait)
            if deliveries or left <= 0 or self._state.closing.is_set():
                return deliveries
            if time() >= look:
                if await request.is_disconnected():
                    return ()
                look = time() + LOOK_SECONDS

    async def _give_up(self, worker_id: str, failed: Sequence[tuple[Task, Failed]]) -> None:
        """What cannot be handed out as it should be has failed, as with a worker of our own."""
        now = self._state.clock.now()
        for task, outcome in failed:
            seed = self._state.chance.getrandbits(32)
            message = TaskFinished(
                task.job_id, task.node_id, task.attempt, worker_id, now, now, outcome, task.index, seed
            )
            await self._state.broker.finish(worker_id, [TaskReport(task.task_id, task.shard, message)])

    async def _announce(self, worker_id: str, deliveries: Sequence[TaskClaim]) -> None:
        """What was claimed counts as begun: from here on its timeout runs, whatever becomes of the worker."""
        now = self._state.clock.now()
        by_shard: dict[int, list[Message]] = {}
        for task in (delivery.task for delivery in deliveries):
            started = TaskStarted(task.job_id, task.node_id, task.attempt, worker_id, now, task.index)
            by_shard.setdefault(task.shard, []).append(started)
        for shard, messages in by_shard.items():
            await self._state.broker.send(shard, messages)

    async def beat(self, request: Request) -> Response:
        """Keep a worker's tasks for it, and say which of them it should stop."""
        no_query(request)
        body = await body_of(request, self._beat_decoder)
        lost = await self._state.broker.extend(body.worker_id, body.task_ids)
        cancelled = await self._state.broker.receive_cancellations(body.worker_id, 0.0)
        return answer(HeartbeatAnswer(list(dict.fromkeys((*lost, *cancelled)))))

    async def take_result(self, request: Request) -> Response:
        """Store how a task ended, and let the engine know."""
        no_query(request)
        body = await body_of(request, self._result_decoder)
        index, attempt = attempt_of(body)
        outcome = outcome_of(body)
        made = await self._made(body.job_id, body.node_id, index)
        if made is None or attempt > made.attempt:
            raise RequestRefused(f"the task {body.task_id} was never handed out; report the task ids that were claimed")
        stored = await self._finish(made, attempt, body.worker_id, outcome, body.execution_duration_ms)
        return answer(ResultAnswer(accepted=True, duplicate=not stored))

    async def take_event(self, request: Request) -> Response:
        """An event of a worker about the attempt that runs now: it began, completed or failed."""
        no_query(request)
        body = await body_of(request, self._event_decoder)
        data = body.data or EmittedData()
        made = await self._made(_job_id(body), body.node_id, data.iteration_index)
        attempt = data.attempt_number
        if made is None or made.attempt == 0 or (attempt is not None and attempt > made.attempt):
            raise RequestRefused(
                f"node {body.node_id} of job {_job_id(body)} has no such attempt to report about; "
                "name the attempt that was claimed, and the iteration if the node is a loop"
            )
        attempt = made.attempt if attempt is None else attempt
        worker_id = _worker_id(body, made.worker_id)
        if body.event_type == "action_started":
            job = made.job
            now = self._state.clock.now()
            started = TaskStarted(job.spec.job_id, body.node_id, attempt, worker_id, now, made.index or 0)
            await self._state.broker.send(job.spec.shard, [started])
            return answer(ResultAnswer(accepted=True))
        milliseconds = None if body.duration is None else body.duration * 1000
        context = context_of(body.context)
        stored = await self._finish(made, attempt, worker_id, _emitted(body), milliseconds, context)
        return answer(ResultAnswer(accepted=True, duplicate=not stored))

    async def _made(self, job_id: str, node_id: str, index: int | None) -> "Made | None":
        """The attempts made of a node, or of an iteration; None when there is none. JobNotFound, NodeNotFound."""
        store = self._state.store
        job = await store.job(job_id)
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.spec.workflow_id} has no node {node_id!r}")
        is_loop = plan.nodes[plan.index[node_id]].loop is not None
        rows = await store.nodes(job_id, node_id)
        if not rows or is_loop != (index is not None):
            return None
        row = rows[0]
        if index is None:
            return Made(job, node_id, None, row.attempt, row.worker_id)
        place = loop_place(plan, row)
        if place is None or index >= place.begun:
            return None
        found = await iteration(store, place, index)
        if found is None:
            # Begun, and nothing else happened to it yet: its first attempt is out.
            return Made(job, node_id, index, place.first_attempt, None)
        return Made(job, node_id, index, found.attempt, found.worker_id)

    async def _finish(
        self,
        made: "Made",
        attempt: int,
        worker_id: str,
        outcome: Succeeded | Failed,
        milliseconds: DurationMs | None,
        context: Raw | None = None,
    ) -> bool:
        """A row, then a message; false when the task has a result already, which then stands."""
        state = self._state
        shard = made.job.spec.shard
        task_id = made.task_id(attempt)
        now = state.clock.now()
        message = TaskFinished(
            made.job.spec.job_id,
            made.node_id,
            attempt,
            worker_id,
            now - round((milliseconds or 0.0) * 1000),
            now,
            await self._put_away(made.job.spec.job_id, outcome),
            made.index or 0,
            state.chance.getrandbits(32),
            task_id,
            context,
        )
        if not await state.store.put_result(StoredResult(task_id, shard, message, now)):
            # Whoever still holds the task works for nothing.
            await state.broker.cancel([task_id])
            return False
        await state.broker.finish(worker_id, [TaskReport(task_id, shard, message)])
        return True

    async def _put_away(self, job_id: str, outcome: Succeeded | Failed) -> Succeeded | Failed:
        """The outcome, its output in the artifact store if it is too large for a row; StoreUnavailable."""
        if isinstance(outcome, Failed) or len(memoryview(outcome.output)) <= INLINE_BYTES_MAX:
            return outcome
        body = bytes(outcome.output)
        return Succeeded(reference(await self._state.artifacts.put(job_id, body), len(body)), outcome.meta)


class Made(Struct, frozen=True):
    """What was handed out of a node, or of one iteration of it: the attempts up to the last one."""

    job: JobRecord
    node_id: str
    index: int | None
    attempt: int
    worker_id: str | None

    def task_id(self, attempt: int) -> str:
        """What an attempt is called."""
        place = "" if self.index is None else f"[{self.index}]"
        return f"{self.job.spec.job_id}_{self.node_id}{place}_{attempt}"


def _job_id(body: EmitBody) -> str:
    if body.job_id is not None:
        return body.job_id
    if body.execution_id is None:
        raise invalid("job_id", "neither job_id nor execution_id is given", "name the job of the claimed task")
    return str(body.execution_id)


def _worker_id(body: EmitBody, known: str | None) -> str:
    queue_meta = body.meta.queue_meta if body.meta is not None else None
    given = body.worker_id or (queue_meta.worker_id if queue_meta is not None else None)
    return given or known or NAMELESS_WORKER


def _emitted(body: EmitBody) -> Succeeded | Failed:
    data = body.data
    if body.event_type == "action_failed":
        return Failed(error_of(body.error or (data.error if data is not None else None)))
    if body.result is not UNSET:
        return Succeeded(json_of(body.result, "result"))
    if data is not None and data.result is not UNSET:
        return Succeeded(json_of(data.result, "data.result"))
    return Succeeded(NULL)


_CLAIM = Operation(
    policy=Policy.OPERATE,
    tag=TAG,
    summary="Claim tasks of queues; waits for the first one",
    answers={200: ClaimAnswer},
    body=ClaimBody,
    refusals=(400, 422),
    example={"worker_id": "node-1", "queues": ["node"], "max_tasks": 4, "wait": "30s"},
    answer_example={
        "tasks": [
            {
                "task_id": "0198c9d2b7f0_each[17]_1",
                "job_id": "0198c9d2b7f0",
                "node_id": "each",
                "index": 17,
                "attempt": 1,
                "handler": "slugify",
                "params": {"text": "Hello"},
                "queue": "node",
                "timeout_seconds": 300.0,
                "retry_count": 0,
                "idempotency_key": "0198c9d2b7f0_each[17]",
                "sink": None,
                "meta": {
                    "iterator": {
                        "parent_execution_id": "0198c9d2b7f0",
                        "iteration_index": 17,
                        "total_iterations": 100,
                        "iterator_name": "title",
                        "mode": "async",
                    }
                },
            }
        ]
    },
)
_HEARTBEAT = Operation(
    policy=Policy.OPERATE,
    tag=TAG,
    summary="Say that a worker lives and what it holds; the answer names what to stop",
    answers={200: HeartbeatAnswer},
    body=HeartbeatBody,
    refusals=(400, 422),
    example={"worker_id": "node-1", "task_ids": ["0198c9d2b7f0_slugify_1"]},
)
_RESULT = Operation(
    policy=Policy.OPERATE,
    tag=TAG,
    summary="Report how a task ended; a repetition changes nothing",
    answers={200: ResultAnswer},
    body=ResultBody,
    refusals=(400, 404, 409, 422),
    example={
        "task_id": "abc123_echo_handler_1",
        "job_id": "abc123",
        "node_id": "echo_handler",
        "status": "completed",
        "output": {"echoed_params": {"message": "hello"}},
        "worker_id": "worker-xyz",
        "execution_duration_ms": 5,
    },
)
_EMIT = Operation(
    policy=Policy.OPERATE,
    tag=TAG,
    summary="Report about the attempt of a node that runs now, as an event",
    answers={200: ResultAnswer},
    body=EmitBody,
    refusals=(400, 404, 409, 422),
    example={
        "job_id": "abc123",
        "node_id": "fetch_data",
        "event_type": "action_completed",
        "duration": 1.234,
        "result": {"status": "success"},
        "data": {"attempt_number": 1, "iteration_index": 17},
        "context": {"workload": {"api_url": "https://api.example.com"}},
        "meta": {"queue_meta": {"worker_id": "worker-1"}},
    },
)
