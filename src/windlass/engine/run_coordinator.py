"""Runs of one shard: brings what happens to jobs before the rules about runs, and carries out what they order.

All of it in the batch at hand: the rows of runs and of their jobs are committed together.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import Changes, Timer
from windlass.core.errors import InputInvalid, NotFound, ScheduleNotFound, StoreUnavailable
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.jobs import JobSpec
from windlass.core.messages import CancelRequested, Message, RetryRequested, RunAdmitted, Submitted
from windlass.core.runs.commands import CancelJob, MakeCall, MakeJob, Order, ReleaseJob, RetryJob, TriggerJob
from windlass.core.runs.cron import slots_between
from windlass.core.runs.decide import NOTHING, ScheduleContext, decide
from windlass.core.runs.ids import job_run_id, slot_run_id, workflow_of
from windlass.core.runs.messages import (
    ContainerEnded,
    JobArrived,
    JobEnded,
    JobRefused,
    JobStarted,
    JobTriggered,
    RunAsked,
    RunDue,
    RunLost,
    RunNews,
    ScheduleChanged,
)
from windlass.core.runs.registry import RunRegistry
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.scheduling import BACKFILL_MAX
from windlass.core.runs.states import RunState
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, call_input, refusal_of
from windlass.core.shards import shard_of, shard_of_workflow
from windlass.core.turn import STARTED
from windlass.engine.job_table import JobTable
from windlass.engine.plan_cache import Plans
from windlass.engine.version_selection import VersionResolver, stable_choice
from windlass.ports.store import Store

SCHEDULES_PAGE = 1_000
# Orders of one batch; each ends or starts a job, so that many mean that the rules go round in circles.
ORDERS_MAX = 1_000_000
# Rules of versions that stay in memory although no run uses them.
RULES_KEPT = 1_000

Prepare = Callable[[Raw | None, object], Raw]
log = logging.getLogger("windlass.engine")


class Floor(Protocol):
    """The shard, as far as its runs need it."""

    jobs: dict[str, Job]
    table: JobTable

    async def apply(self, message: Message, changes: Changes, now: int) -> Job | None:
        """Apply a message to a job, in the batch at hand; the job, if it can be found."""
        ...

    def carry(self, message: Message) -> None:
        """Have a message applied with the next batch."""
        ...


class RunCoordinator:
    """The runs of one shard."""

    def __init__(
        self,
        number: int,
        total: int,
        store: Store,
        plans: Plans,
        *,
        prepare: Prepare | None = None,
        silent_seconds_max: float | None = None,
        heartbeat_seconds: float,
    ) -> None:
        self.book = RunRegistry(number)
        # Workflows whose rows or rules cannot be followed. They wait for a person; the others go on.
        self.quarantined: set[str] = set()
        self._number = number
        self._total = total
        self._store = store
        self._plans = plans
        self._versions = VersionResolver(store)
        self._prepare = prepare or _plain_input
        self._silent_seconds_max = silent_seconds_max
        self._heartbeat_seconds = heartbeat_seconds
        # What recovery read of schedules, until they are looked at.
        self._told: dict[str, ScheduleRow] = {}
        self._news: list[RunNews] = []

    # Recovery

    async def load(self, jobs: Mapping[str, Job], *, is_whole: bool) -> list[Message]:
        """Rebuild the memory from rows; what must be decided first. Not of a shard whose jobs are left alone."""
        self.book = RunRegistry(self._number)
        self._told.clear()
        self._news.clear()
        if not is_whole:
            return []
        rows = [
            row
            for row in await self._store.runs.unfinished(self._number)
            if row.workflow_id not in self.quarantined and await self._learn(row.workflow_id, row.version)
        ]
        schedules = [row for row in await self._schedules() if row.workflow_id not in self.quarantined]
        names = sorted({row.workflow_id for row in rows} | {row.workflow_id for row in schedules})
        for workflow_id, succeeded in (await self._store.runs.last_successes(names)).items():
            self.book.shelf(workflow_id).last_succeeded = succeeded
        for name in names:
            self.book.shelf(name)
        self.book.restore(rows)
        for row in rows:
            job = jobs.get(row.job_id or "")
            if row.state is RunState.CONTAINER_CREATING and job is not None:
                self.book.creating[job.id] = job.seq
        self._told = {row.workflow_id: row for row in schedules}
        self._news.extend(await self._lost())
        changed = [ScheduleChanged(f"{row.workflow_id}:") for row in schedules]
        # Something must be decided even if there is no schedule: what nobody served is to be told so.
        return [*changed, ScheduleChanged(":")] if self._news else list(changed)

    def timers(self) -> list[Timer]:
        """The waits that the rows tell of."""
        return self.book.timers()

    async def _schedules(self) -> list[ScheduleRow]:
        found: list[ScheduleRow] = []
        after = ""
        while True:
            page = await self._store.runs.changed_schedules(0, SCHEDULES_PAGE, after)
            found += [row for row in page if shard_of_workflow(row.workflow_id, self._total) == self._number]
            if len(page) < SCHEDULES_PAGE:
                return found
            after = page[-1].workflow_id

    async def _lost(self) -> list[RunLost]:
        """Runs that nobody served for longer than they allow, or the engine does."""
        silent = await self._store.runs.heartbeat_age_seconds(self._number)
        if silent is None:
            return []
        found: list[RunLost] = []
        for shelf in self.book.shelves.values():
            for run in shelf.runs.values():
                beats = self.book.rules_of(run).constraints.missed_heartbeats_max
                limit = self._silent_seconds_max if beats is None else beats * self._heartbeat_seconds
                if run.state is not RunState.PRE_RUN and limit is not None and silent > limit:
                    found.append(RunLost(run.id, silent))
        return found

    async def beat(self) -> None:
        """Say that the runs under way are served."""
        runs = [run for shelf in self.book.shelves.values() for run in shelf.runs.values() if not run.is_planned]
        if runs:
            await self._store.runs.put_heartbeat(self._number)
            for run in runs:
                run.detail.heartbeats += 1

    async def adopt(self, job: Job) -> None:
        """Take in the run of a job that is taken up by itself."""
        row = await self._store.runs.of_job(job.id)
        if row is None or row.completed_at is not None or not await self._learn(row.workflow_id, row.version):
            return
        await self._know(row.workflow_id)
        self.book.restore([row])
        if row.state is RunState.CONTAINER_CREATING:
            self.book.creating[job.id] = job.seq

    # The batch at hand

    def is_concerned(self, changes: Changes) -> bool:
        """Whether something happened to jobs that are runs, or that make calls for them."""
        return bool(changes.arrivals or self._news or not self.book.by_job.keys().isdisjoint(changes.events))

    async def take(self, floor: Floor, message: Message, changes: Changes, now: int) -> None:
        """Apply a message about a run or a schedule."""
        workflow_id = workflow_of(message.job_id)
        if workflow_id in self.quarantined:
            return
        if isinstance(message, RunDue):
            await self._decide(floor, message, changes, now)
        elif isinstance(message, ScheduleChanged | RunAsked):
            given = await self._given(message, workflow_id)
            if given is not None:
                await self._decide(floor, message, changes, now, given)

    async def follow(self, floor: Floor, changes: Changes, now: int) -> None:
        """Tell the rules what the batch did to jobs, until nothing more follows from it."""
        news: deque[RunNews] = deque(self._news)
        self._news.clear()
        heard = 0
        while True:
            while news:
                await self._decide(floor, news.popleft(), changes, now)
            arrivals = list(dict.fromkeys(changes.arrivals))
            changes.arrivals.clear()
            for job_id, request in arrivals:
                arrived = await self._arrived(floor.jobs[job_id], request)
                if arrived is not None:
                    await self._decide(floor, arrived, changes, now)
                elif request is not None:
                    changes.requests.append(request.request_id)
            news.extend(self._started(changes))
            if changes.runs is not None and changes.runs.containers:
                news.extend(ContainerEnded(*one) for one in changes.runs.containers)
                changes.runs.containers.clear()
            ended, heard = changes.finished[heard:], len(changes.finished)
            news.extend(_ended(floor.jobs[job_id]) for job_id in ended if job_id in self.book.by_job)
            if not news and not changes.arrivals:
                break

    async def _decide(
        self, floor: Floor, message: RunDue | RunAsked | ScheduleChanged | RunNews, changes: Changes, now: int,
        given: ScheduleContext = NOTHING,
    ) -> None:  # fmt: skip
        orders: deque[Order] = deque()
        try:
            orders.extend(decide(self.book, message, now, changes, given))
            for _ in range(ORDERS_MAX):
                if not orders:
                    return
                answer = await self._carry_out(floor, orders.popleft(), changes, now)
                if answer is not None:
                    orders.extend(decide(self.book, answer, now, changes))
        except StoreUnavailable:
            raise
        except Exception:
            # Half moved: the workflow is set aside, and the rest of the batch starts over from the rows.
            self._set_aside(message)
            raise

    def _set_aside(self, message: RunDue | RunAsked | ScheduleChanged | RunNews) -> None:
        if isinstance(message, JobStarted | ContainerEnded | JobEnded):
            run = self.book.by_job.get(message.job_id)
            name = "" if run is None else run.workflow_id
        elif isinstance(message, JobArrived):
            name = message.workflow_id
        else:
            name = workflow_of(message.job_id if isinstance(message, RunDue | RunAsked | ScheduleChanged)
                               else message.run_id)  # fmt: skip
        if name:
            self.quarantined.add(name)
        log.error("the runs of workflow %s cannot be followed and are set aside", name)

    # What the rules need to know

    async def _learn(self, workflow_id: str, version: int) -> bool:
        """Have a version's rules at hand; False when they cannot be had."""
        if (workflow_id, version) in self.book.rules:
            return True
        try:
            plan = await self._plans.get(workflow_id, version)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("version %d of workflow %s cannot be used; its runs are set aside", version, workflow_id)
            self.quarantined.add(workflow_id)
            return False
        if plan.runs is not None:
            self._forget_rules()
            self.book.rules[workflow_id, version] = plan.runs
        return True

    def _forget_rules(self) -> None:
        if len(self.book.rules) < RULES_KEPT + 2 * len(self.book.shelves):
            return
        used = {(run.workflow_id, run.version) for shelf in self.book.shelves.values() for run in shelf.runs.values()}
        self.book.rules = {key: rules for key, rules in self.book.rules.items() if key in used}

    async def _know(self, workflow_id: str) -> None:
        """Have at hand how a workflow's last run ended."""
        if workflow_id not in self.book.shelves:
            last = await self._store.runs.last_successes([workflow_id])
            self.book.shelf(workflow_id).last_succeeded = last.get(workflow_id)

    async def _arrived(self, job: Job, request: RetryRequested | None) -> JobArrived | None:
        """What to tell of a job that may begin or be retried; None when that was told before."""
        plan = job.plan
        if (job.ended if request is None else not job.ended) or plan.workflow_id in self.quarantined:
            return None
        if request is not None:
            run_id = job_run_id(plan.workflow_id, job.id, request.request_id)
            if await self._store.runs.existing([run_id]):
                return None
        await self._know(plan.workflow_id)
        if plan.runs is not None:
            self.book.rules[plan.workflow_id, plan.version] = plan.runs
        return JobArrived(
            job.id, plan.workflow_id, plan.version, job.spec.created_at, job.spec.scheduled_at,
            None if request is None else request.request_id, None if request is None else request.from_node,
        )  # fmt: skip

    async def _given(self, message: ScheduleChanged | RunAsked, workflow_id: str) -> ScheduleContext | None:
        if isinstance(message, RunAsked) and message.kind != "backfill":
            return NOTHING
        row = self._told.pop(workflow_id, None) if isinstance(message, ScheduleChanged) else None
        if row is None:
            try:
                row = await self._store.runs.schedule(workflow_id)
            except ScheduleNotFound:
                known = self.book.shelves.get(workflow_id)
                if known is None or known.schedule is None:
                    return NOTHING if isinstance(message, RunAsked) else None
                row = msgspec.structs.replace(known.schedule, is_gone=True)
        await self._know(workflow_id)
        rules = None
        if not row.is_gone and await self._learn(workflow_id, row.version):
            rules = self.book.rules.get((workflow_id, row.version))
        if isinstance(message, ScheduleChanged):
            return ScheduleContext(row, rules)
        schedule = None if rules is None else rules.schedule
        if schedule is None or message.since is None or message.until is None:
            return NOTHING
        slots = slots_between(schedule, message.since / MICROSECONDS, message.until / MICROSECONDS, BACKFILL_MAX)
        ids = [slot_run_id(workflow_id, round(slot * MICROSECONDS)) for slot in slots]
        return ScheduleContext(row, rules, frozenset(await self._store.runs.existing(ids)))

    def _started(self, changes: Changes) -> list[JobStarted]:
        """Jobs of which a task has started since they were let go."""
        creating = self.book.creating
        found: list[JobStarted] = []
        if not creating:
            return found
        for job_id in creating.keys() & changes.events.keys():
            for event in changes.events[job_id]:
                if event.seq > creating[job_id] and event.type in STARTED:
                    found.append(JobStarted(job_id, event.at))
                    break
        return found

    # What the rules order

    async def _carry_out(self, floor: Floor, order: Order, changes: Changes, now: int) -> RunNews | None:
        match order:
            case MakeJob():
                return await self._make_job(floor, order, changes, now)
            case MakeCall():
                given = call_input(order)
                job = self._new_job(order.job_id, WEBHOOK_WORKFLOW, order.hook.attempts_max, given, now)
                self._add(floor, job, changes, Submitted(job.job_id))
            case ReleaseJob():
                job = floor.jobs.get(order.job_id)
                self.book.creating[order.job_id] = 1 if job is None else job.seq
                floor.carry(RunAdmitted(order.job_id))
            case RetryJob():
                return await self._retry_job(floor, order, changes, now)
            case CancelJob():
                await floor.apply(CancelRequested(order.job_id, RetryRequested.OF_RUN, order.reason), changes, now)
            case TriggerJob():
                return await self._trigger(floor, order, changes, now)
        return None

    async def _make_job(self, floor: Floor, order: MakeJob, changes: Changes, now: int) -> JobRefused | None:
        try:
            plan = await self._plans.get(order.workflow_id, order.version)
            given = self._prepare(plan.input_schema, order.input)
        except (InputInvalid, NotFound) as error:
            return JobRefused(order.run_id, f"its job cannot be made: {error}")
        job = self._new_job(order.job_id, order.workflow_id, order.version, given, now, order.scheduled_at)
        self.book.creating[job.job_id] = 1
        self._add(floor, job, changes, RunAdmitted(job.job_id))
        return None

    async def _retry_job(self, floor: Floor, order: RetryJob, changes: Changes, now: int) -> JobRefused | None:
        request_id = f"{RetryRequested.OF_RUN}{order.job_id}"
        job = await floor.apply(RetryRequested(order.job_id, request_id, order.from_node), changes, now)
        run = self.book.by_job[order.job_id]
        if job is None or job.ended:
            return JobRefused(run.id, "there is nothing in its job that could be run again")
        self.book.creating[order.job_id] = job.seq
        return None

    async def _trigger(self, floor: Floor, order: TriggerJob, changes: Changes, now: int) -> JobTriggered:
        try:
            choice = stable_choice(order.job_id)
            version = await self._versions.resolve(order.workflow_id, order.version, choice)
            plan = await self._plans.get(order.workflow_id, version)
            given = self._prepare(plan.input_schema, order.input)
        except (InputInvalid, NotFound) as error:
            return JobTriggered(order.run_id, order.purpose, order.job_id, str(error))
        job = self._new_job(order.job_id, order.workflow_id, version, given, now)
        if job.shard == self._number:
            self._add(floor, job, changes, Submitted(job.job_id))
        else:
            changes.of_runs().jobs.append(job)
            changes.of_runs().hints.append((job.shard, job.job_id))
        return JobTriggered(order.run_id, order.purpose, order.job_id)

    def _new_job(self, job_id: str, workflow_id: str, version: int, given: Raw, now: int,
                 scheduled_at: int | None = None) -> JobSpec:  # fmt: skip
        shard = shard_of(job_id, self._total)
        return JobSpec(job_id, workflow_id, version, given, now, shard, scheduled_at=scheduled_at)

    def _add(self, floor: Floor, job: JobSpec, changes: Changes, first: Message) -> None:
        changes.of_runs().jobs.append(job)
        floor.table.add_new(job)
        floor.carry(first)


def _plain_input(_: Raw | None, value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


class _Error(Struct, frozen=True):
    message: str = "it failed"


def _ended(job: Job) -> JobEnded:
    text = None if job.state.error is None else msgspec.json.decode(job.state.error, type=_Error).message
    is_call = job.plan.workflow_id == WEBHOOK_WORKFLOW
    refusal = refusal_of(job.outputs[0]) if is_call else None
    return JobEnded(job.id, job.state.status, text, refusal)
