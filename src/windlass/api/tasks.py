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
from windlass.api.results import (
    NULL,
    DurationMs,
    EmitBody,
    ResultBody,
    TaskId,
    WorkerId,
    attempt_of,
    error_of,
    json_of,
    outcome_of,
)
from windlass.api.state import ApiState, Slots
from windlass.core.changes import NodeRow
from windlass.core.errors import NodeNotFound, RequestRefused
from windlass.core.messages import Failed, Message, Succeeded, TaskFinished, TaskStarted
from windlass.ports.broker import Delivery, Report
from windlass.ports.store import StoredJob, StoredResult
from windlass.wire import ClaimAnswer, ClaimedTask, HeartbeatAnswer, ResultAnswer

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
        if deliveries and await request.is_disconnected():
            await self._state.broker.give_back(wanted.worker_id, [one.task.task_id for one in deliveries])
            deliveries = ()
        await self._announce(wanted.worker_id, deliveries)
        return answer(ClaimAnswer([_claimed(delivery) for delivery in deliveries]))

    async def _take(self, wanted: ClaimBody, seconds: float, request: Request) -> Sequence[Delivery]:
        time = asyncio.get_running_loop().time
        end = time() + seconds
        look = time() + LOOK_SECONDS
        while True:
            left = end - time()
            wait = max(0.0, min(left, LOOK_SECONDS))
            deliveries = await self._state.broker.consume(wanted.worker_id, wanted.queues, wanted.max_tasks, wait)
            if deliveries or left <= 0 or self._state.closing.is_set():
                return deliveries
            if time() >= look:
                if await request.is_disconnected():
                    return ()
                look = time() + LOOK_SECONDS

    async def _announce(self, worker_id: str, deliveries: Sequence[Delivery]) -> None:
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
        cancelled = await self._state.broker.cancelled(body.worker_id, 0.0)
        return answer(HeartbeatAnswer(list(dict.fromkeys((*lost, *cancelled)))))

    async def take_result(self, request: Request) -> Response:
        """Store how a task ended, and let the engine know."""
        no_query(request)
        body = await body_of(request, self._result_decoder)
        index, attempt = attempt_of(body)
        outcome = outcome_of(body)
        job, row = await self._node(body.job_id, body.node_id)
        if index is not None or row is None or attempt > row.attempt:
            raise RequestRefused(f"the task {body.task_id} was never handed out; report the task ids that were claimed")
        milliseconds = body.execution_duration_ms
        stored = await self._finish(job, body.node_id, attempt, body.worker_id, outcome, milliseconds)
        return answer(ResultAnswer(accepted=True, duplicate=not stored))

    async def take_event(self, request: Request) -> Response:
        """An event of a worker about the attempt that runs now: it began, completed or failed."""
        no_query(request)
        body = await body_of(request, self._event_decoder)
        job, row = await self._node(_job_id(body), body.node_id)
        attempt = body.data.attempt_number if body.data is not None else None
        if row is None or (attempt is not None and attempt > row.attempt) or row.attempt == 0:
            raise RequestRefused(f"node {body.node_id} of job {job.job_id} has no such attempt to report about")
        attempt = row.attempt if attempt is None else attempt
        worker_id = _worker_id(body, row)
        if body.event_type == "action_started":
            started = TaskStarted(job.job_id, body.node_id, attempt, worker_id, self._state.clock.now())
            await self._state.broker.send(job.shard, [started])
            return answer(ResultAnswer(accepted=True))
        milliseconds = None if body.duration is None else body.duration * 1000
        stored = await self._finish(job, body.node_id, attempt, worker_id, _emitted(body), milliseconds)
        return answer(ResultAnswer(accepted=True, duplicate=not stored))

    async def _node(self, job_id: str, node_id: str) -> tuple[StoredJob, NodeRow | None]:
        """A job and its node as stored; JobNotFound, NodeNotFound."""
        job = await self._state.store.job(job_id)
        plan = await self._state.control.plan(job.workflow_id, job.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.workflow_id} has no node {node_id!r}")
        rows = await self._state.store.nodes(job_id, node_id)
        return job, rows[0] if rows else None

    async def _finish(
        self,
        job: StoredJob,
        node_id: str,
        attempt: int,
        worker_id: str,
        outcome: Succeeded | Failed,
        milliseconds: DurationMs | None,
    ) -> bool:
        """A row, then a message; false when the task has a result already, which then stands."""
        state = self._state
        task_id = f"{job.job_id}_{node_id}_{attempt}"
        now = state.clock.now()
        message = TaskFinished(
            job.job_id,
            node_id,
            attempt,
            worker_id,
            now - round((milliseconds or 0.0) * 1000),
            now,
            outcome,
            seed=state.chance.getrandbits(32),
            result_id=task_id,
        )
        if not await state.store.put_result(StoredResult(task_id, job.shard, message, now)):
            # Whoever still holds the task works for nothing.
            await state.broker.cancel([task_id])
            return False
        await state.broker.finish(worker_id, [Report(task_id, job.shard, message)])
        return True


def _claimed(delivery: Delivery) -> ClaimedTask:
    task = delivery.task
    return ClaimedTask(
        task.task_id,
        task.job_id,
        task.node_id,
        task.index,
        task.attempt,
        task.handler,
        Raw(task.params),
        task.queue,
        task.timeout_seconds,
        task.retry_count,
        task.idempotency_key or task.task_id,
    )


def _job_id(body: EmitBody) -> str:
    if body.job_id is not None:
        return body.job_id
    if body.execution_id is None:
        raise invalid("job_id", "neither job_id nor execution_id is given", "name the job of the claimed task")
    return str(body.execution_id)


def _worker_id(body: EmitBody, row: NodeRow) -> str:
    queue_meta = body.meta.queue_meta if body.meta is not None else None
    given = body.worker_id or (queue_meta.worker_id if queue_meta is not None else None)
    return given or row.worker_id or NAMELESS_WORKER


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
        "meta": {"queue_meta": {"worker_id": "worker-1"}},
    },
)
