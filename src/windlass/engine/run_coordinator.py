"""The runs of one shard: applies the rules about runs to messages and to what happens to jobs.

Everything happens in the current batch: the rows of runs and of their jobs are committed together.
"""

import logging
import math
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from windlass.core.changes import Arrival, Changes
from windlass.core.errors import ScheduleNotFound, StoreUnavailable
from windlass.core.events import Event
from windlass.core.ids import JobId, WorkflowId, retry_run_id
from windlass.core.job import Job
from windlass.core.runs.changes import RunTimer
from windlass.core.runs.commands import Command
from windlass.core.runs.decide import NO_CONTEXT, ScheduleContext, decide
from windlass.core.runs.messages import (
    ContainerEnded,
    JobArrived,
    JobFinished,
    JobRefused,
    JobStarted,
    JobTriggered,
    RunLost,
    RunMessage,
    RunRequested,
    RunSignal,
    ScheduleChanged,
)
from windlass.core.runs.registry import NO_RULES, Run, RunRegistry
from windlass.core.runs.rows import RunRow, ScheduleRow
from windlass.core.runs.rules import RunRules
from windlass.core.runs.scheduling import Span, newest_runs, slots_in
from windlass.core.runs.states import RunState
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, refusal_of
from windlass.core.shards import shard_of
from windlass.core.turn import STARTED
from windlass.engine.plan_cache import Plans
from windlass.engine.run_commands import Prepare, RunBatch, RunCommands
from windlass.engine.run_log import log_heartbeats
from windlass.engine.run_rules import RunRulesLoader
from windlass.ports.store import Store

SCHEDULES_PAGE = 1_000
# Commands that follow from one message; more mean an endless loop in the rules.
COMMANDS_MAX = 1_000_000

log = logging.getLogger("windlass.engine")


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
        silent_seconds_max: float = math.inf,
        heartbeat_seconds: float,
    ) -> None:
        self.registry = RunRegistry(number)
        self._number = number
        self._total = total
        self._store = store
        self._rules = RunRulesLoader(self.registry, store, plans)
        self._commands = RunCommands(self.registry, store, plans, shards=total, prepare=prepare)
        self._silent_seconds_max = silent_seconds_max
        self._heartbeat_seconds = heartbeat_seconds
        # Rows of schedules that recovery read, until their first message.
        self._loaded_schedules: dict[WorkflowId, ScheduleRow] = {}

    @property
    def quarantined(self) -> set[WorkflowId]:
        """Workflows whose rows or rules cannot be used. They wait for an operator; the others continue."""
        return self._rules.quarantined

    # Recovery

    async def load(self, jobs: Mapping[JobId, Job], *, is_whole: bool) -> list[RunMessage]:
        """Rebuild the registry from rows; return what must be decided first. Nothing if only new jobs are run."""
        self.registry.clear()
        self._loaded_schedules.clear()
        self.registry.heartbeats = (await self._store.runs.heartbeats()).get(self._number, 0)
        if not is_whole:
            return []
        rows = [
            row
            for row in await self._store.runs.unfinished(self._number)
            if await self._is_usable(row)
        ]
        schedules = [
            row for row in await self._read_schedules() if row.workflow_id not in self.quarantined
        ]
        await self._load_workflows([*rows, *schedules])
        self.registry.restore(rows)
        for row in rows:
            self._restore_creating(row, jobs.get(row.job_id or ""))
        self._loaded_schedules = {row.workflow_id: row for row in schedules}
        changed = [ScheduleChanged(row.workflow_id) for row in schedules]
        return [*changed, *await self._lost_runs()]

    async def _is_usable(self, row: RunRow) -> bool:
        if row.workflow_id in self.quarantined:
            return False
        return await self._rules.load(row.workflow_id, row.version)

    async def _load_workflows(self, rows: Iterable[RunRow | ScheduleRow]) -> None:
        workflow_ids = sorted({row.workflow_id for row in rows})
        succeeded = await self._store.runs.last_successes(workflow_ids)
        for workflow_id in workflow_ids:
            self.registry.workflow(workflow_id).last_succeeded = succeeded.get(workflow_id)

    def _restore_creating(self, row: RunRow, job: Job | None) -> None:
        if row.state is RunState.CONTAINER_CREATING and job is not None:
            self.registry.creating[job.id] = job.seq

    async def _read_schedules(self) -> list[ScheduleRow]:
        """Return the schedules of this shard."""
        found: list[ScheduleRow] = []
        after = ""
        while True:
            page = await self._store.runs.changed_schedules(0, SCHEDULES_PAGE, after)
            found += [row for row in page if shard_of(row.workflow_id, self._total) == self._number]
            if len(page) < SCHEDULES_PAGE:
                return found
            after = page[-1].workflow_id

    async def _lost_runs(self) -> list[RunLost]:
        """Return the runs that no engine served for longer than they, or the engine's settings, allow."""
        silent = await self._store.runs.heartbeat_age_seconds(self._number)
        if silent is None:
            return []
        started = [run for run in self.registry.runs() if run.state is not RunState.PRE_RUN]
        lost = [run for run in started if silent > self._silence_limit(run)]
        return [RunLost(run.workflow_id, run.id, silent) for run in lost]

    def _silence_limit(self, run: Run) -> float:
        heartbeats = self.registry.rules_of(run).constraints.missed_heartbeats_max
        if heartbeats is None:
            return self._silent_seconds_max
        return heartbeats * self._heartbeat_seconds

    async def adopt(self, job: Job) -> None:
        """Load the run of a single job that is resumed."""
        row = await self._store.runs.of_job(job.id)
        if (
            row is None
            or row.completed_at is not None
            or not await self._rules.load(row.workflow_id, row.version)
        ):
            return
        await self._rules.load_last_success(row.workflow_id)
        self.registry.restore([row])
        self._restore_creating(row, job)

    def timers(self) -> list[RunTimer]:
        """Return the timers of the runs in memory."""
        return self.registry.timers()

    async def put_heartbeat(self) -> None:
        """Record that the active runs are served."""
        if any(not run.is_planned for run in self.registry.runs()):
            self.registry.heartbeats = await self._store.runs.put_heartbeat(self._number)
            log_heartbeats(self.registry.runs())

    # The current batch

    def is_concerned(self, changes: Changes) -> bool:
        """Return whether a batch changed jobs of runs, or jobs that make calls for them."""
        return bool(changes.arrivals) or not self.registry.by_job.keys().isdisjoint(changes.events)

    async def apply(self, batch: RunBatch, message: RunMessage) -> None:
        """Apply a message about a run or a schedule."""
        if message.workflow_id in self.quarantined:
            return
        context = NO_CONTEXT
        if isinstance(message, ScheduleChanged):
            context = await self._changed_context(message)
        elif isinstance(message, RunRequested) and message.kind == "backfill":
            context = await self._backfill_context(message)
        await self._decide(batch, message, context)

    async def apply_job_changes(self, batch: RunBatch) -> None:
        """Apply the rules to what the batch did to jobs, until nothing more follows from it."""
        changes = batch.changes
        finished = 0
        while True:
            await self._decide_arrivals(batch)
            signals: list[RunSignal] = [*self._started(changes), *_ended_containers(changes)]
            of_runs = [
                job_id for job_id in changes.finished[finished:] if job_id in self.registry.by_job
            ]
            signals += [_job_finished(batch.shard.jobs[job_id]) for job_id in of_runs]
            finished = len(changes.finished)
            for signal in signals:
                await self._decide(batch, signal)
            if not signals and not changes.arrivals:
                return

    async def _decide_arrivals(self, batch: RunBatch) -> None:
        arrivals = batch.changes.arrivals
        # They are listed until all are decided: their jobs stay in memory.
        decided: set[Arrival] = set()
        for arrival in arrivals:
            if arrival in decided:
                continue
            decided.add(arrival)
            arrived = await self._job_arrived(batch.shard.jobs[arrival.job_id], arrival)
            if arrived is not None:
                await self._decide(batch, arrived)
            elif arrival.request_id is not None:
                batch.changes.requests.append(arrival.request_id)
        arrivals.clear()

    async def _decide(
        self,
        batch: RunBatch,
        message: RunMessage | RunSignal,
        context: ScheduleContext = NO_CONTEXT,
    ) -> None:
        try:
            commands: deque[Command] = deque(
                decide(
                    self.registry,
                    message,
                    batch.now,
                    batch.changes,
                    context=context,
                    wall=batch.wall,
                )
            )
            for _ in range(COMMANDS_MAX):
                if not commands:
                    return
                answer = await self._commands.execute(batch, commands.popleft())
                if answer is not None:
                    commands.extend(
                        decide(self.registry, answer, batch.now, batch.changes, wall=batch.wall)
                    )
        except StoreUnavailable:
            raise
        except Exception:
            # The state in memory is inconsistent: the workflow is quarantined, and the shard reloads the rest.
            self._quarantine(message)
            raise

    def _quarantine(self, message: RunMessage | RunSignal) -> None:
        workflow_id = self._workflow_of(message)
        if workflow_id is not None:
            self.quarantined.add(workflow_id)
        log.error("workflow %s quarantined: its runs cannot be decided", workflow_id)

    def _workflow_of(self, message: RunMessage | RunSignal) -> WorkflowId | None:
        match message:
            case JobStarted() | ContainerEnded() | JobFinished():
                run = self.registry.by_job.get(message.job_id)
            case JobRefused() | JobTriggered():
                run = self.registry.find(message.run_id)
            case _:
                return message.workflow_id
        return None if run is None else run.workflow_id

    # What the rules need to know

    async def _changed_context(self, message: ScheduleChanged) -> ScheduleContext:
        """Read a schedule that changed, if there ever was one."""
        row = self._loaded_schedules.pop(message.workflow_id, None)
        if row is None:
            row = await self._read_schedule(message.workflow_id)
        if row is None:
            return NO_CONTEXT
        return ScheduleContext(row, await self._rules_of(row))

    async def _backfill_context(self, message: RunRequested) -> ScheduleContext:
        """Read a schedule, and which slots of a backfill have runs."""
        row = await self._read_schedule(message.workflow_id)
        if row is None or message.since is None or message.until is None:
            return NO_CONTEXT
        rules = await self._rules_of(row)
        if rules.schedule is None:
            return NO_CONTEXT
        slots = slots_in(rules.schedule, Span(message.since, message.until))
        rows = await self._store.runs.of_slots(message.workflow_id, slots)
        return ScheduleContext(row, rules, newest_runs(rows))

    async def _read_schedule(self, workflow_id: WorkflowId) -> ScheduleRow | None:
        try:
            return await self._store.runs.schedule(workflow_id)
        except ScheduleNotFound:
            known = self.registry.workflows.get(workflow_id)
            if known is None or known.schedule is None:
                return None
            return msgspec.structs.replace(known.schedule, is_gone=True)

    async def _rules_of(self, row: ScheduleRow) -> RunRules:
        await self._rules.load_last_success(row.workflow_id)
        if row.is_gone or not await self._rules.load(row.workflow_id, row.version):
            return NO_RULES
        return self.registry.rules.get((row.workflow_id, row.version), NO_RULES)

    async def _job_arrived(self, job: Job, arrival: Arrival) -> JobArrived | None:
        """Return the signal for a job that may start or be retried; None for a repeated one."""
        plan = job.plan
        is_retry = arrival.request_id is not None
        if job.is_final is not is_retry or plan.workflow_id in self.quarantined:
            return None
        if arrival.request_id is not None:
            run_id = retry_run_id(plan.workflow_id, arrival.request_id)
            if await self._store.runs.existing([run_id]):
                return None
        await self._rules.load_last_success(plan.workflow_id)
        if plan.runs is not None:
            self._rules.put(plan.workflow_id, plan.version, plan.runs)
        return JobArrived(
            job_id=job.id,
            workflow_id=plan.workflow_id,
            version=plan.version,
            created_at=job.spec.created_at,
            scheduled_at=job.spec.scheduled_at,
            request_id=arrival.request_id,
            from_node=arrival.from_node,
            depth=job.spec.depth,
            origin=job.spec.origin,
        )

    def _started(self, changes: Changes) -> list[JobStarted]:
        """Return the jobs of which a task has started since they were admitted."""
        creating = self.registry.creating
        active = creating.keys() & changes.events.keys()
        found: list[JobStarted] = []
        for job_id in active:
            started_at = _first_start(changes.events[job_id], creating[job_id])
            if started_at is not None:
                found.append(JobStarted(job_id, started_at))
        return found


def _first_start(events: Iterable[Event], after: int) -> int | None:
    """Return when the first task of a job started, by its events after a number; None if none has."""
    starts = [event.at for event in events if event.seq > after and event.type in STARTED]
    return min(starts, default=None)


def _ended_containers(changes: Changes) -> list[ContainerEnded]:
    if changes.runs is None:
        return []
    found = [ContainerEnded(job_id, container) for job_id, container in changes.runs.containers]
    changes.runs.containers.clear()
    return found


class _Error(Struct, frozen=True):
    message: str = "the job failed"


def _job_finished(job: Job) -> JobFinished:
    error = None
    if job.state.error is not None:
        error = msgspec.json.decode(job.state.error, type=_Error).message
    refusal = None
    if job.plan.workflow_id == WEBHOOK_WORKFLOW:
        refusal = refusal_of(job.outputs[0])
    return JobFinished(job.id, job.state.status, error, refusal)
