"""Requests about schedules and runs: stored as rows first, then sent to the shard that decides."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from windlass.core.deliveries import NOT_KEPT
from windlass.core.errors import RequestRefused, ScheduleNotFound
from windlass.core.ids import JobId, RunId, WorkflowId
from windlass.core.jobs import JobSpec
from windlass.core.messages import Message
from windlass.core.runs.cron import Schedule
from windlass.core.runs.messages import ScheduleChanged
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.scheduling import (
    BACKFILL_MAX,
    Backfill,
    Span,
    backfilled,
    newest_runs,
    slots_in,
)
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW
from windlass.core.shards import shard_of
from windlass.engine.context import EngineContext
from windlass.engine.duties.scheduler import requested
from windlass.engine.hints import send_hints
from windlass.ports.store.runs import RunRequest

REDELIVERY_ATTEMPTS = 4

# Stores a request, sends its message to the shard that the storing returns, and waits until it is applied.
AwaitApplied = Callable[[str, Callable[[], Awaitable[int]], Message], Awaitable[bool]]
SubmitJobs = Callable[[Sequence[JobSpec]], Awaitable[object]]


class EngineRuns:
    """The RunControl contract."""

    def __init__(
        self,
        context: EngineContext,
        *,
        shards: int,
        await_applied: AwaitApplied,
        submit: SubmitJobs,
    ) -> None:
        self._store = context.store
        self._clock = context.clock
        self._plans = context.plans
        self._ids = context.ids
        self._notify = partial(send_hints, context.broker)
        self._shards = shards
        self._await_applied = await_applied
        self._submit = submit

    async def pause(self, workflow_id: str) -> ScheduleRow:
        return await self._pause(workflow_id, paused=True)

    async def resume(self, workflow_id: str) -> ScheduleRow:
        return await self._pause(workflow_id, paused=False)

    async def _pause(self, workflow_id: str, *, paused: bool) -> ScheduleRow:
        row = await self._store.runs.pause_schedule(
            workflow_id, paused=paused, now=self._clock.wall()
        )
        await self._notify(shard_of(workflow_id, self._shards), [ScheduleChanged(workflow_id)])
        return row

    async def backfill(self, workflow_id: str, since: int, until: int) -> Backfill:
        slots = await self._slots(workflow_id, Span(since, until))
        now = self._clock.now()
        request_id = self._ids.new(now)
        if slots:
            request = RunRequest(
                request_id=request_id,
                workflow_id=workflow_id,
                shard=shard_of(workflow_id, self._shards),
                kind="backfill",
                created_at=now,
                since=since,
                until=until,
            )
            await self._request(request)
        return await self._backfilled(workflow_id, slots, request_id)

    async def unfilled(self, workflow_id: str, since: int, until: int) -> Backfill:
        slots = await self._slots(workflow_id, Span(since, until))
        return await self._backfilled(workflow_id, slots, None)

    async def _backfilled(
        self, workflow_id: WorkflowId, slots: Sequence[int], request_id: str | None
    ) -> Backfill:
        if not slots:
            return Backfill([], {})
        schedule = await self._store.runs.schedule(workflow_id)
        runs = newest_runs(await self._store.runs.of_slots(workflow_id, slots))
        return backfilled(slots, runs, schedule, request_id)

    async def _slots(self, workflow_id: WorkflowId, span: Span) -> list[int]:
        if span.until > self._clock.wall():
            raise RequestRefused("only past slots can be backfilled; end the range now or earlier")
        schedule = await self._schedule(workflow_id)
        slots = slots_in(schedule, span, BACKFILL_MAX + 1)
        if len(slots) > BACKFILL_MAX:
            raise RequestRefused(
                f"the range has more than {BACKFILL_MAX} slots; backfill it in parts"
            )
        return slots

    async def _schedule(self, workflow_id: WorkflowId) -> Schedule:
        row = await self._store.runs.schedule(workflow_id)
        rules = (await self._plans.get(workflow_id, row.version)).runs
        if rules is None or rules.schedule is None:
            raise ScheduleNotFound(
                f"workflow has no schedule: {workflow_id}; deploy a version that has one"
            )
        return rules.schedule

    async def cancel(self, run_id: RunId, reason: str | None = None) -> bool:
        run = await self._store.runs.get(run_id)
        if run.completed_at is not None:
            return True
        now = self._clock.now()
        request = RunRequest(
            request_id=self._ids.new(now),
            workflow_id=run.workflow_id,
            shard=run.shard,
            kind="cancel",
            created_at=now,
            run_id=run_id,
            reason=reason,
        )
        return await self._request(request)

    async def _request(self, request: RunRequest) -> bool:
        async def store() -> int:
            await self._store.runs.put_request(request)
            return request.shard

        return await self._await_applied(request.request_id, store, requested(request))

    async def redeliver(self, delivery_id: str) -> JobId:
        delivery = await self._store.runs.delivery(delivery_id)
        if bytes(delivery.params) == bytes(NOT_KEPT):
            raise RequestRefused(
                f"the params of delivery {delivery_id} were too large to keep; retry its job instead"
            )
        now = self._clock.now()
        job_id = self._ids.new(now)
        job = JobSpec(
            job_id=job_id,
            workflow_id=WEBHOOK_WORKFLOW,
            version=REDELIVERY_ATTEMPTS,
            input=delivery.params,
            created_at=now,
            shard=shard_of(job_id, self._shards),
            origin="call",
            parent_job_id=delivery.job_id,
        )
        await self._submit([job])
        return job_id
