"""Routes of HTTP workers: claim tasks, send heartbeats, report results.

A reported result is stored before it is sent to the engine. The response is the verdict of the core.
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
from windlass.api.requests import read_duration, read_json, reject_query
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
from windlass.core.plan import Plan
from windlass.core.report_verdict import ReportVerdict, judge_start
from windlass.ports.artifact_reader import ArtifactReader
from windlass.ports.broker import TaskClaim, TaskReport
from windlass.ports.prompt_calls import PROMPT_SECONDS, promptly
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
# A claim is recorded soon after its response.
CLAIM_RECORDED_SECONDS_MAX = 2.0
# The worker of an emitted event that names none.
UNNAMED_WORKER = "http"
NOT_APPLIED = "stored, but not applied yet"
ENDED = "the attempt has ended"
LATE = "the attempt was closed before this result arrived; the event result_ignored records it"

# UNKNOWN is an error.
_VERDICT_VIEWS = {
    ReportVerdict.ACCEPTED: TaskResultView(accepted=True),
    ReportVerdict.REPEATED: TaskResultView(accepted=True, duplicate=True),
    ReportVerdict.LATE: TaskResultView(accepted=False, reason=LATE),
}


class TaskRoutes:
    """Handlers of HTTP workers."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._reader = ArtifactReader(state.artifacts)
        self._claims = ConcurrencyLimit(CLAIMS_MAX, "waiting claims")
        self._claim_decoder = msgspec.json.Decoder(ClaimRequest)
        self._heartbeat_decoder = msgspec.json.Decoder(HeartbeatRequest)
        self._result_decoder = msgspec.json.Decoder(TaskResultRequest)
        self._event_decoder = msgspec.json.Decoder(EmitEventRequest)

    async def claim(self, request: Request) -> Response:
        """Return tasks; wait for the first one as long as the worker wants."""
        reject_query(request)
        body = await read_json(request, self._claim_decoder)
        seconds = read_duration(body.wait, "wait", CLAIM_WAIT_SECONDS_MAX)
        with self._claims.acquire():
            claims = await self._consume(body, seconds, request)
        try:
            prepared = await prepare_claim(self._state, self._reader, claims)
        except WindlassError:
            await self._state.broker.return_tasks(
                body.worker_id, [claim.task.task_id for claim in claims]
            )
            raise
        await self._fail(body.worker_id, prepared.failed)
        if claims and await request.is_disconnected():
            prepared = prepared.abandoned()
        if prepared.returned:
            await self._state.broker.return_tasks(body.worker_id, prepared.returned)
        await self._report_started(body.worker_id, prepared.claims)
        return json_response(ClaimView(prepared.tasks, self._state.control.worker_timeout_seconds))

    async def _consume(
        self, body: ClaimRequest, seconds: float, request: Request
    ) -> Sequence[TaskClaim]:
        time = asyncio.get_running_loop().time
        deadline = time() + seconds
        next_check = time() + DISCONNECT_CHECK_SECONDS
        while True:
            remaining = deadline - time()
            wait = max(0.0, min(remaining, DISCONNECT_CHECK_SECONDS))
            claiming = self._state.broker.claim(
                body.worker_id, body.queues, body.max_tasks, wait, handlers=body.handlers
            )
            claims = await promptly(claiming, wait + PROMPT_SECONDS)
            if claims or remaining <= 0 or self._state.closing.is_set():
                return claims
            if time() >= next_check:
                if await request.is_disconnected():
                    return ()
                next_check = time() + DISCONNECT_CHECK_SECONDS

    async def _fail(self, worker_id: str, failed: Sequence[tuple[Task, Failed]]) -> None:
        """Report tasks as failed whose params cannot be read, as a Windlass worker does."""
        now = self._state.clock.now()
        for task, outcome in failed:
            seed = self._state.chance.getrandbits(32)
            message = TaskFinished.of(
                task, worker_id, outcome, started_at=now, finished_at=now, seed=seed
            )
            report = TaskReport(task.task_id, task.shard, message)
            await promptly(self._state.broker.finish(worker_id, [report]))

    async def _report_started(self, worker_id: str, claims: Sequence[TaskClaim]) -> None:
        """Report claimed tasks as started, so that their timeouts run even if the worker disappears."""
        now = self._state.clock.now()
        by_shard: dict[int, list[Message]] = {}
        for claim in claims:
            started = TaskStarted.of(claim.task, worker_id, now)
            by_shard.setdefault(claim.task.shard, []).append(started)
        for shard, messages in by_shard.items():
            await promptly(self._state.broker.send(shard, messages))

    async def heartbeat(self, request: Request) -> Response:
        """Extend the leases of a worker's tasks and return the tasks to stop."""
        reject_query(request)
        body = await read_json(request, self._heartbeat_decoder)
        broker = self._state.broker
        lost, cancelled = await promptly(
            asyncio.gather(
                broker.extend(body.worker_id, body.task_ids),
                broker.receive_cancellations(body.worker_id, 0.0),
            )
        )
        stop = list(dict.fromkeys((*lost, *cancelled)))
        return json_response(HeartbeatView(stop, self._state.control.worker_timeout_seconds))

    async def receive_result(self, request: Request) -> Response:
        """Report the result of a task."""
        reject_query(request)
        body = await read_json(request, self._result_decoder)
        task_id = task_id_of(body)
        outcome = outcome_of(body)
        address = await self._address(body.job_id, body.node_id, task_id.index)
        return await self._report(
            address,
            attempt=task_id.attempt,
            worker_id=body.worker_id,
            outcome=outcome,
            milliseconds=body.execution_duration_ms,
        )

    async def receive_event(self, request: Request) -> Response:
        """Accept a worker's event about an attempt, by default the current one: started, completed or failed."""
        reject_query(request)
        body = await read_json(request, self._event_decoder)
        data = body.data or EmittedData()
        outcome = None if body.event_type == "action_started" else _emitted(body, data)
        context = context_of(body.context)
        address = await self._address(_job_id(body), body.node_id, data.iteration_index)
        current = await self._current_attempt(address)
        attempt = current.number if data.attempt_number is None else data.attempt_number
        worker_id = _worker_id(body, current.worker_id)
        if outcome is None:
            return await self._judge_start(address, attempt)
        return await self._report(
            address,
            attempt=attempt,
            worker_id=worker_id,
            outcome=outcome,
            milliseconds=None if body.duration is None else body.duration * 1000,
            context=context,
        )

    async def _address(self, job_id: str, node_id: str, index: int | None) -> "TaskAddress":
        """Return the node or iteration that a report names. JobNotFound, NodeNotFound, RequestRefused."""
        job = await self._state.store.jobs.get(job_id)
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        if node_id not in plan.index:
            raise NodeNotFound(f"workflow {job.spec.workflow_id} has no node {node_id!r}")
        is_loop = plan.nodes[plan.index[node_id]].loop is not None
        address = TaskAddress(job, plan, node_id, index)
        if is_loop != (index is not None):
            raise _unknown(address)
        return address

    async def _current_attempt(self, address: "TaskAddress") -> "CurrentAttempt":
        """Return the last attempt of a node or an iteration; number 0 if there is none."""
        store = self._state.store
        rows = await store.jobs.nodes(address.job.spec.job_id, address.node_id)
        if not rows:
            return NO_ATTEMPT
        row = rows[0]
        if address.index is None:
            return CurrentAttempt(row.attempt, row.worker_id, row.status)
        loop = stored_loop(address.plan, row)
        if loop is None or address.index >= loop.begun:
            return NO_ATTEMPT
        iteration = await iteration_row(store, loop, address.index)
        if iteration is None:
            # Dispatched, and without a row yet: its first attempt is running.
            return CurrentAttempt(loop.first_attempt, None, "dispatched")
        return CurrentAttempt(iteration.attempt, iteration.worker_id, iteration.status)

    async def _judge_start(self, address: "TaskAddress", attempt: int) -> Response:
        """Respond to the start of an attempt. It changes nothing: the claim was recorded as the start."""
        with self._state.control.jobs.subscribe(address.job.spec.job_id) as changed:
            try:
                async with asyncio.timeout(CLAIM_RECORDED_SECONDS_MAX):
                    verdict = await self._verdict_on_start(address, attempt)
                    while verdict is None:
                        await changed.wait()
                        changed.clear()
                        verdict = await self._verdict_on_start(address, attempt)
            except TimeoutError:
                verdict = ReportVerdict.UNKNOWN
        if verdict is ReportVerdict.UNKNOWN:
            raise _unknown(address)
        if verdict is ReportVerdict.LATE:
            return json_response(TaskResultView(accepted=False, reason=ENDED))
        return json_response(TaskResultView(accepted=True))

    async def _verdict_on_start(self, address: "TaskAddress", attempt: int) -> ReportVerdict | None:
        current = await self._current_attempt(address)
        return judge_start(attempt, current.number, current.status)

    async def _report(
        self,
        address: "TaskAddress",
        *,
        attempt: int,
        worker_id: str,
        outcome: Succeeded | Failed,
        milliseconds: DurationMs | None,
        context: Raw | None = None,
    ) -> Response:
        """Report a result and respond with the core's verdict."""
        spec = address.job.spec
        now = self._state.clock.now()
        message = TaskFinished(
            job_id=spec.job_id,
            node_id=address.node_id,
            attempt=attempt,
            worker_id=worker_id,
            started_at=None if milliseconds is None else now - round(milliseconds * 1000),
            finished_at=now,
            outcome=await self._offload_output(spec.job_id, outcome),
            index=address.index or 0,
            seed=self._state.chance.getrandbits(32),
            context=context,
        )
        verdict = await self._state.control.jobs.report(
            address.task_id(attempt), spec.shard, message
        )
        if verdict is ReportVerdict.UNKNOWN:
            raise _unknown(address)
        if verdict is None:
            return json_response(TaskResultView(accepted=True, reason=NOT_APPLIED), 202)
        return json_response(_VERDICT_VIEWS[verdict])

    async def _offload_output(self, job_id: str, outcome: Succeeded | Failed) -> Succeeded | Failed:
        """Return the outcome with a large output moved to the artifact store; StoreUnavailable."""
        if isinstance(outcome, Failed) or len(memoryview(outcome.output)) <= INLINE_BYTES_MAX:
            return outcome
        body = bytes(outcome.output)
        return Succeeded(
            reference(await self._state.artifacts.put(job_id, body), len(body)), outcome.meta
        )


class TaskAddress(Struct, frozen=True):
    """The node of a job, or the iteration, that a report is about."""

    job: JobRecord
    plan: Plan
    node_id: str
    index: int | None

    def task_id(self, attempt: int) -> str:
        """Return the task id of an attempt."""
        return str(TaskId(self.job.spec.job_id, self.node_id, self.index, attempt))


class CurrentAttempt(Struct, frozen=True):
    """The number of an attempt, the worker that runs it, and the status of its node or iteration."""

    number: int
    worker_id: str | None
    status: str


NO_ATTEMPT = CurrentAttempt(0, None, "pending")


def _unknown(address: TaskAddress) -> RequestRefused:
    return RequestRefused(
        f"node {address.node_id} of job {address.job.spec.job_id} has no such attempt, or nobody claimed it; "
        "send the task_id of a claimed task, or its attempt, and the iteration if the node is a loop"
    )


def _job_id(body: EmitEventRequest) -> str:
    if body.job_id is not None:
        return body.job_id
    if body.execution_id is None:
        raise invalid(
            "job_id", "missing job_id and execution_id", "send the job_id of the claimed task"
        )
    return str(body.execution_id)


def _worker_id(body: EmitEventRequest, known: str | None) -> str:
    queue_meta = body.meta.queue_meta if body.meta is not None else None
    given = body.worker_id or (queue_meta.worker_id if queue_meta is not None else None)
    # The claim names the worker; events of other systems may use another name for it.
    return known or given or UNNAMED_WORKER


def _emitted(body: EmitEventRequest, data: EmittedData) -> Succeeded | Failed:
    if body.event_type == "action_failed":
        return Failed(error_of(body.error or data.error))
    if body.result is not UNSET:
        return Succeeded(json_of(body.result, "result"))
    if data.result is not UNSET:
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
        ],
        "worker_timeout_seconds": 15.0,
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
    responses={200: TaskResultView, 202: TaskResultView},
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
    responses={200: TaskResultView, 202: TaskResultView},
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
