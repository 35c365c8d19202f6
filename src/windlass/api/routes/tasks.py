"""Routes of HTTP workers: claim tasks, send heartbeats, report results.

A reported result is stored before it is acknowledged; the message to the engine is only a notification.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.policy import Policy
from windlass.api.problems import invalid
from windlass.api.requests import parse_duration, read_json, reject_query
from windlass.api.state import ApiState, ConcurrencyLimit
from windlass.api.task_payload import prepare_claim
from windlass.api.task_reports import (
    NULL,
    context_of,
    error_of,
    json_of,
    outcome_of,
    task_id_of,
)
from windlass.core.artifacts import INLINE_BYTES_MAX, reference
from windlass.core.changes import Task
from windlass.core.errors import NodeNotFound, RequestRefused, WindlassError
from windlass.core.ids import TaskId
from windlass.core.jobs import JobRecord
from windlass.core.messages import Failed, Message, Succeeded, TaskFinished, TaskStarted
from windlass.ports.broker import TaskClaim, TaskReport
from windlass.ports.store.jobs import StoredResult
from windlass.views.loops import iteration_row, stored_loop
from windlass.wire import (
    ClaimRequest,
    ClaimView,
    EmitEventRequest,
    EmittedData,
    HeartbeatRequest,
    HeartbeatView,
    TaskResultRequest,
    TaskResultView,
)
from windlass.wire.tasks import CLAIM_WAIT_SECONDS_MAX, DurationMs

TAG = "tasks"
# Claims that wait at once.
CLAIMS_MAX = 1_000
# How often a waiting claim checks that its client is still connected.
DISCONNECT_CHECK_SECONDS = 1.0
# The worker of an emitted event that names none.
UNNAMED_WORKER = "http"


class TaskRoutes:
    """Handlers of HTTP workers."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._claims = ConcurrencyLimit(CLAIMS_MAX, "waiting claims")
        self._claim_decoder = msgspec.json.Decoder(ClaimRequest)
        self._heartbeat_decoder = msgspec.json.Decoder(HeartbeatRequest)
        self._result_decoder = msgspec.json.Decoder(TaskResultRequest)
        self._event_decoder = msgspec.json.Decoder(EmitEventRequest)

    async def claim(self, request: Request) -> Response:
        """Return tasks; wait for the first one as long as the worker wants."""
        reject_query(request)
        body = await read_json(request, self._claim_decoder)
        if isinstance(body.wait, str):
            seconds = parse_duration(body.wait, "wait", CLAIM_WAIT_SECONDS_MAX)
        else:
            seconds = float(body.wait)
        with self._claims.acquire():
            deliveries = await self._consume(body, seconds, request)
        try:
            claim = await prepare_claim(self._state, deliveries)
        except WindlassError:
            await self._state.broker.return_tasks(body.worker_id, [delivery.task.task_id for delivery in deliveries])
            raise
        await self._fail(body.worker_id, claim.failed)
        if deliveries and await request.is_disconnected():
            claim = claim.abandoned()
        if claim.returned:
            await self._state.broker.return_tasks(body.worker_id, claim.returned)
        await self._report_started(body.worker_id, claim.deliveries)
        return json_response(ClaimView(claim.tasks))

    async def _consume(self, body: ClaimRequest, seconds: float, request: Request) -> Sequence[TaskClaim]:
        time = asyncio.get_running_loop().time
        deadline = time() + seconds
        next_check = time() + DISCONNECT_CHECK_SECONDS
        while True:
            remaining = deadline - time()
            wait = max(0.0, min(remaining, DISCONNECT_CHECK_SECONDS))
            deliveries = await self._state.broker.claim(body.worker_id, body.queues, body.max_tasks, wait)
            if deliveries or remaining <= 0 or self._state.closing.is_set():
                return deliveries
            if time() >= next_check:
                if await request.is_disconnected():
                    return ()
                next_check = time() + DISCONNECT_CHECK_SECONDS

    async def _fail(self, worker_id: str, failed: Sequence[tuple[Task, Failed]]) -> None:
        """Report tasks as failed whose params cannot be read, as a Windlass worker does."""
        now = self._state.clock.now()
        for task, outcome in failed:
            message = TaskFinished(
                job_id=task.job_id,
                node_id=task.node_id,
                attempt=task.attempt,
                worker_id=worker_id,
                started_at=now,
                finished_at=now,
                outcome=outcome,
                index=task.index,
                seed=self._state.chance.getrandbits(32),
            )
            await self._state.broker.finish(worker_id, [TaskReport(task.task_id, task.shard, message)])

    async def _report_started(self, worker_id: str, deliveries: Sequence[TaskClaim]) -> None:
        """Report claimed tasks as started, so that their timeouts run even if the worker disappears."""
        now = self._state.clock.now()
        by_shard: dict[int, list[Message]] = {}
        for delivery in deliveries:
            task = delivery.task
            started = TaskStarted(
                job_id=task.job_id,
                node_id=task.node_id,
                attempt=task.attempt,
                worker_id=worker_id,
                started_at=now,
                index=task.index,
            )
            by_shard.setdefault(task.shard, []).append(started)
        for shard, messages in by_shard.items():
            await self._state.broker.send(shard, messages)

    async def heartbeat(self, request: Request) -> Response:
        """Extend the leases of a worker's tasks and return the tasks to stop."""
        reject_query(request)
        body = await read_json(request, self._heartbeat_decoder)
        lost = await self._state.broker.extend(body.worker_id, body.task_ids)
        cancelled = await self._state.broker.receive_cancellations(body.worker_id, 0.0)
        return json_response(HeartbeatView(list(dict.fromkeys((*lost, *cancelled)))))

    async def receive_result(self, request: Request) -> Response:
        """Store the result of a task and notify the engine."""
        reject_query(request)
        body = await read_json(request, self._result_decoder)
        task_id = task_id_of(body)
        outcome = outcome_of(body)
        issued = await self._issued_attempts(body.job_id, body.node_id, task_id.index)
        if issued is None or task_id.attempt > issued.attempt:
            raise RequestRefused(f"task was never claimed: {body.task_id}; send the task_id of a claimed task")
        stored = await self._finish(issued, task_id.attempt, body.worker_id, outcome, body.execution_duration_ms)
        return json_response(TaskResultView(accepted=True, duplicate=not stored))

    async def receive_event(self, request: Request) -> Response:
        """Accept a worker's event about the current attempt: started, completed or failed."""
        reject_query(request)
        body = await read_json(request, self._event_decoder)
        data = body.data or EmittedData()
        issued = await self._issued_attempts(_job_id(body), body.node_id, data.iteration_index)
        attempt = data.attempt_number
        if issued is None or issued.attempt == 0 or (attempt is not None and attempt > issued.attempt):
            raise RequestRefused(
                f"node {body.node_id} of job {_job_id(body)} has no such attempt; "
                "send the attempt of the claimed task, and the iteration if the node is a loop"
            )
        attempt = issued.attempt if attempt is None else attempt
        worker_id = _worker_id(body, issued.worker_id)
        if body.event_type == "action_started":
            job = issued.job
            now = self._state.clock.now()
            started = TaskStarted(job.spec.job_id, body.node_id, attempt, worker_id, now, issued.index or 0)
            await self._state.broker.send(job.spec.shard, [started])
            return json_response(TaskResultView(accepted=True))
        milliseconds = None if body.duration is None else body.duration * 1000
        context = context_of(body.context)
        stored = await self._finish(issued, attempt, worker_id, _emitted(body), milliseconds, context)
        return json_response(TaskResultView(accepted=True, duplicate=not stored))

    async def _issued_attempts(self, job_id: str, node_id: str, index: int | None) -> "IssuedAttempts | None":
        """Return the attempts of a node or an iteration, None without any; JobNotFound, NodeNotFound."""
        store = self._state.store
        job = await store.jobs.get(job_id)
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.spec.workflow_id} has no node {node_id!r}")
        is_loop = plan.nodes[plan.index[node_id]].loop is not None
        rows = await store.jobs.nodes(job_id, node_id)
        if not rows or is_loop != (index is not None):
            return None
        row = rows[0]
        if index is None:
            return IssuedAttempts(job, node_id, None, row.attempt, row.worker_id)
        place = stored_loop(plan, row)
        if place is None or index >= place.begun:
            return None
        found = await iteration_row(store, place, index)
        if found is None:
            # Dispatched, and without a row yet: its first attempt is running.
            return IssuedAttempts(job, node_id, index, place.first_attempt, None)
        return IssuedAttempts(job, node_id, index, found.attempt, found.worker_id)

    async def _finish(
        self,
        issued: "IssuedAttempts",
        attempt: int,
        worker_id: str,
        outcome: Succeeded | Failed,
        milliseconds: DurationMs | None,
        context: Raw | None = None,
    ) -> bool:
        """Store the result and notify the engine; return False if the task already has a result, which is kept."""
        state = self._state
        shard = issued.job.spec.shard
        task_id = issued.task_id(attempt)
        now = state.clock.now()
        message = TaskFinished(
            issued.job.spec.job_id,
            issued.node_id,
            attempt,
            worker_id,
            now - round((milliseconds or 0.0) * 1000),
            now,
            await self._offload_output(issued.job.spec.job_id, outcome),
            issued.index or 0,
            state.chance.getrandbits(32),
            task_id,
            context,
        )
        if not await state.store.jobs.put_result(StoredResult(task_id, shard, message, now)):
            # Stop a worker that still runs the task.
            await state.broker.cancel([task_id])
            return False
        await state.broker.finish(worker_id, [TaskReport(task_id, shard, message)])
        return True

    async def _offload_output(self, job_id: str, outcome: Succeeded | Failed) -> Succeeded | Failed:
        """Return the outcome with a large output moved to the artifact store; StoreUnavailable."""
        if isinstance(outcome, Failed) or len(memoryview(outcome.output)) <= INLINE_BYTES_MAX:
            return outcome
        body = bytes(outcome.output)
        return Succeeded(reference(await self._state.artifacts.put(job_id, body), len(body)), outcome.meta)


class IssuedAttempts(Struct, frozen=True):
    """The attempts of a node or an iteration that were dispatched, up to the last one."""

    job: JobRecord
    node_id: str
    index: int | None
    attempt: int
    worker_id: str | None

    def task_id(self, attempt: int) -> str:
        """Return the task id of an attempt."""
        return str(TaskId(self.job.spec.job_id, self.node_id, self.index, attempt))


def _job_id(body: EmitEventRequest) -> str:
    if body.job_id is not None:
        return body.job_id
    if body.execution_id is None:
        raise invalid("job_id", "missing job_id and execution_id", "send the job_id of the claimed task")
    return str(body.execution_id)


def _worker_id(body: EmitEventRequest, known: str | None) -> str:
    queue_meta = body.meta.queue_meta if body.meta is not None else None
    given = body.worker_id or (queue_meta.worker_id if queue_meta is not None else None)
    return given or known or UNNAMED_WORKER


def _emitted(body: EmitEventRequest) -> Succeeded | Failed:
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
    summary="Claim tasks; wait for the first one",
    responses={200: ClaimView},
    body=ClaimRequest,
    errors=(400, 422),
    request_example={"worker_id": "node-1", "queues": ["node"], "max_tasks": 4, "wait": "30s"},
    response_example={
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
    summary="Send a heartbeat and get the tasks to stop",
    responses={200: HeartbeatView},
    body=HeartbeatRequest,
    errors=(400, 422),
    request_example={"worker_id": "node-1", "task_ids": ["0198c9d2b7f0_slugify_1"]},
)
_RESULT = Operation(
    policy=Policy.OPERATE,
    tag=TAG,
    summary="Report the result of a task; repeating it changes nothing",
    responses={200: TaskResultView},
    body=TaskResultRequest,
    errors=(400, 404, 409, 422),
    request_example={
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
    summary="Report an event of a node's current attempt",
    responses={200: TaskResultView},
    body=EmitEventRequest,
    errors=(400, 404, 409, 422),
    request_example={
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


def routes(state: ApiState) -> list[Route]:
    """Return the routes of HTTP workers."""
    handlers = TaskRoutes(state)
    return [
        route("POST", "/api/v1/tasks/claim", handlers.claim, _CLAIM),
        route("POST", "/api/v1/tasks/heartbeat", handlers.heartbeat, _HEARTBEAT),
        route("POST", "/api/v1/callbacks/task-result", handlers.receive_result, _RESULT),
        route("POST", "/api/v1/event/emit", handlers.receive_event, _EMIT),
    ]
