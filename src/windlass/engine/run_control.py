"""What may be asked of schedules and runs: rows first, then a hint to the shard that decides."""

from collections.abc import Awaitable, Callable, Sequence

from windlass.core.deliveries import NOT_KEPT
from windlass.core.errors import RequestRefused, ScheduleNotFound
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobSpec
from windlass.core.messages import Message
from windlass.core.runs.cron import Schedule, slots_between
from windlass.core.runs.ids import derived_job_id, slot_run_id
from windlass.core.runs.messages import ScheduleChanged
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.scheduling import BACKFILL_MAX
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW
from windlass.core.shards import shard_of, shard_of_workflow
from windlass.engine.duties.scheduler import asked
from windlass.engine.ids import Ids
from windlass.engine.plan_cache import Plans
from windlass.ports.clock import Clock
from windlass.ports.runs import RunRequest
from windlass.ports.store import Store

REDELIVERY_ATTEMPTS = 4

# Stores something and waits until the shard that is told of it has applied it.
Ask = Callable[[str, Callable[[], Awaitable[int]], Message], Awaitable[None]]
Hint = Callable[[int, Sequence[Message]], Awaitable[None]]
Submitting = Callable[[Sequence[JobSpec]], Awaitable[object]]


class EngineRuns:
    """The RunControl contract."""

    def __init__(
        self, store: Store, clock: Clock, plans: Plans, ids: Ids, total: int, ask: Ask, hint: Hint,
        submit: Submitting,
    ) -> None:  # fmt: skip
        self._store = store
        self._clock = clock
        self._plans = plans
        self._ids = ids
        self._total = total
        self._ask = ask
        self._hint = hint
        self._submit = submit

    async def pause(self, workflow_id: str) -> ScheduleRow:
        return await self._pause(workflow_id, paused=True)

    async def resume(self, workflow_id: str) -> ScheduleRow:
        return await self._pause(workflow_id, paused=False)

    async def _pause(self, workflow_id: str, *, paused: bool) -> ScheduleRow:
        row = await self._store.runs.pause(workflow_id, paused=paused, now=self._clock.now())
        await self._hint(shard_of_workflow(workflow_id, self._total), [ScheduleChanged(f"{workflow_id}:")])
        return row

    async def backfill(self, workflow_id: str, since: int, until: int) -> Sequence[int]:
        now = self._clock.now()
        slots = await self._slots(workflow_id, since, until, now)
        if slots:
            shard = shard_of_workflow(workflow_id, self._total)
            request = RunRequest(self._ids.new(now), workflow_id, shard, "backfill", now, since=since, until=until)
            await self._request(request)
        return slots

    async def unfilled(self, workflow_id: str, since: int, until: int) -> Sequence[int]:
        slots = await self._slots(workflow_id, since, until, self._clock.now())
        run_ids = {slot: slot_run_id(workflow_id, slot) for slot in slots}
        known = set(await self._store.runs.known_runs(list(run_ids.values()))) if run_ids else set[str]()
        return [slot for slot in slots if run_ids[slot] not in known]

    async def _slots(self, workflow_id: str, since: int, until: int, now: int) -> list[int]:
        if until > now:
            raise RequestRefused("only slots of the past can be filled in; end the stretch now or earlier")
        schedule = await self._schedule(workflow_id)
        slots = slots_between(schedule, since / MICROSECONDS, until / MICROSECONDS, BACKFILL_MAX + 1)
        if len(slots) > BACKFILL_MAX:
            raise RequestRefused(f"the stretch has more than {BACKFILL_MAX} slots; fill it in part by part")
        return [round(slot * MICROSECONDS) for slot in slots]

    async def _schedule(self, workflow_id: str) -> Schedule:
        row = await self._store.runs.schedule(workflow_id)
        rules = (await self._plans.get(workflow_id, row.version)).runs
        if rules is None or rules.schedule is None:
            raise ScheduleNotFound(f"workflow {workflow_id} has no schedule; deploy a version that has one")
        return rules.schedule

    async def cancel(self, run_id: str, reason: str | None = None) -> None:
        run = await self._store.runs.run(run_id)
        if run.completed_at is not None:
            return
        now = self._clock.now()
        await self._request(RunRequest(self._ids.new(now), run.workflow_id, run.shard, "cancel", now, run_id, reason))

    async def _request(self, request: RunRequest) -> None:
        async def store() -> int:
            await self._store.runs.request(request)
            return request.shard

        await self._ask(request.request_id, store, asked(request))

    async def redeliver(self, delivery_id: str) -> str:
        delivery = await self._store.runs.delivery(delivery_id)
        if bytes(delivery.params) == bytes(NOT_KEPT):
            raise RequestRefused(f"what was sent by {delivery_id} was too large to keep; run its job again instead")
        now = self._clock.now()
        job_id = derived_job_id(now, self._ids.new(now), delivery.workflow_id)
        shard = shard_of(job_id, self._total)
        await self._submit([JobSpec(job_id, WEBHOOK_WORKFLOW, REDELIVERY_ATTEMPTS, delivery.params, now, shard)])
        return job_id
