"""Carries out the commands of runs for jobs, in the batch in which they were decided."""

from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import Changes
from windlass.core.errors import InputInvalid, NotFound, TemplateFailed, TemplateInvalid
from windlass.core.ids import JobId
from windlass.core.job import Job
from windlass.core.jobs import JobSpec
from windlass.core.messages import (
    CancelRequested,
    JobMessage,
    RetryRequested,
    RunAdmitted,
    Submitted,
)
from windlass.core.prefetch import request_for_template
from windlass.core.runs.commands import (
    AdmitJob,
    CancelJob,
    Command,
    MakeCall,
    MakeJob,
    RetryJob,
    TriggerJob,
)
from windlass.core.runs.messages import JobRefused, JobTriggered
from windlass.core.runs.registry import RunRegistry
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, call_input
from windlass.core.scopes import run_scope
from windlass.core.shards import shard_of
from windlass.core.templates.template import compile_template
from windlass.engine.job_table import JobTable
from windlass.engine.plan_cache import Plans
from windlass.engine.version_selection import VersionResolver, stable_choice
from windlass.ports.store import Store

Prepare = Callable[[Raw | None, object], Raw]


class ShardJobs(Protocol):
    """The jobs of a shard, as far as its runs need them."""

    jobs: dict[JobId, Job]
    table: JobTable

    async def apply(self, message: JobMessage, changes: Changes, now: int) -> Job | None:
        """Apply a message to a job in the current batch; return the job, if it exists."""
        ...

    async def provide_values(self, job: Job) -> None:
        """Read the large outputs that a job has requested. StoreUnavailable."""
        ...

    def defer(self, message: JobMessage) -> None:
        """Have a message applied with the next batch."""
        ...


class RunBatch(Struct, frozen=True):
    """The batch in which the rules about runs decide: its jobs, its changes, and its time."""

    shard: ShardJobs
    changes: Changes
    now: int
    wall: int


class RunCommands:
    """The commands of the runs of one shard."""

    def __init__(
        self,
        registry: RunRegistry,
        store: Store,
        plans: Plans,
        *,
        shards: int,
        prepare: Prepare | None,
    ) -> None:
        self._registry = registry
        self._versions = VersionResolver(store, plans)
        self._plans = plans
        self._shards = shards
        self._prepare = prepare or _encoded

    async def execute(self, batch: RunBatch, command: Command) -> JobRefused | JobTriggered | None:
        """Carry out a command; return what the run must know of it at once."""
        match command:
            case MakeJob():
                return await self._make_job(batch, command)
            case MakeCall():
                self._make_call(batch, command)
            case AdmitJob():
                self._admit_job(batch, command)
            case RetryJob():
                return await self._retry_job(batch, command)
            case CancelJob():
                cancel = CancelRequested(command.job_id, None, command.reason)
                await batch.shard.apply(cancel, batch.changes, batch.now)
            case TriggerJob():
                return await self._trigger_job(batch, command)
        return None

    async def _make_job(self, batch: RunBatch, command: MakeJob) -> JobRefused | None:
        try:
            plan = await self._plans.get(command.workflow_id, command.version)
            input = self._prepare(plan.input_schema, command.input)
        except (InputInvalid, NotFound) as error:
            return JobRefused(command.run_id, f"cannot create the job: {error}")
        job = JobSpec(
            job_id=command.job_id,
            workflow_id=command.workflow_id,
            version=command.version,
            input=input,
            created_at=batch.now,
            shard=self._registry.shard,
            scheduled_at=command.scheduled_at,
            shard_key=command.workflow_id,
            origin=command.origin,
            depth=command.depth,
        )
        self._registry.creating[job.job_id] = 1
        _add(batch, job, RunAdmitted(job.job_id))
        return None

    def _make_call(self, batch: RunBatch, command: MakeCall) -> None:
        job = JobSpec(
            job_id=command.job_id,
            workflow_id=WEBHOOK_WORKFLOW,
            version=command.hook.attempts_max,
            input=call_input(command),
            created_at=batch.now,
            shard=self._registry.shard,
            shard_key=command.workflow_id,
            origin="call",
            parent_run_id=command.run_id,
            parent_job_id=command.parent_job_id,
        )
        _add(batch, job, Submitted(job.job_id))

    def _admit_job(self, batch: RunBatch, command: AdmitJob) -> None:
        job = batch.shard.jobs.get(command.job_id)
        self._registry.creating[command.job_id] = 1 if job is None else job.seq
        batch.shard.defer(RunAdmitted(command.job_id))

    async def _retry_job(self, batch: RunBatch, command: RetryJob) -> JobRefused | None:
        retry = RetryRequested(command.job_id, None, command.from_node)
        job = await batch.shard.apply(retry, batch.changes, batch.now)
        run = self._registry.by_job[command.job_id]
        if job is None or job.is_final:
            return JobRefused(run.id, "the job has no nodes that can be run again")
        self._registry.creating[command.job_id] = job.seq
        return None

    async def _trigger_job(self, batch: RunBatch, command: TriggerJob) -> JobTriggered:
        try:
            choice = stable_choice(command.job_id)
            version = await self._versions.resolve(command.workflow_id, command.version, choice, {})
            plan = await self._plans.get(command.workflow_id, version)
            input = self._prepare(plan.input_schema, await _rendered_input(batch, command))
        except (InputInvalid, NotFound, TemplateFailed, TemplateInvalid) as error:
            return JobTriggered(command.run_id, command.purpose, command.job_id, str(error))
        shard_key = plan.shard_key
        job = JobSpec(
            job_id=command.job_id,
            workflow_id=command.workflow_id,
            version=version,
            input=input,
            created_at=batch.now,
            shard=shard_of(shard_key or command.job_id, self._shards),
            shard_key=shard_key,
            origin="trigger_job",
            parent_run_id=command.run_id,
            parent_job_id=command.parent_job_id,
            depth=command.depth,
        )
        if job.shard == self._registry.shard:
            _add(batch, job, Submitted(job.job_id))
        else:
            changes = batch.changes.of_runs()
            changes.jobs.append(job)
            changes.notifications.append((job.shard, job.job_id))
        return JobTriggered(command.run_id, command.purpose, command.job_id)


async def _rendered_input(batch: RunBatch, command: TriggerJob) -> object:
    """Return the input of a job that an action starts, rendered over the run and its job. TemplateFailed."""
    template = compile_template(command.input)
    if template.evaluate is None:
        return command.input
    job = await _job_of(batch.shard, command.parent_job_id)
    if job is not None and request_for_template(job, template, None):
        await batch.shard.provide_values(job)
    try:
        return msgspec.json.decode(template.render(run_scope(job, template, command.run)))
    finally:
        if job is not None:
            job.values.clear()


async def _job_of(shard: ShardJobs, job_id: JobId | None) -> Job | None:
    """Return the job of a run, which may have ended long ago and left the memory; None if it has none."""
    if job_id is None:
        return None
    return shard.jobs.get(job_id) or await shard.table.load(job_id)


def _add(batch: RunBatch, job: JobSpec, first: JobMessage) -> None:
    """Create a job of this shard and start it with the next batch."""
    batch.changes.of_runs().jobs.append(job)
    batch.shard.table.add_new(job)
    batch.shard.defer(first)


def _encoded(_: Raw | None, value: object) -> Raw:
    return Raw(msgspec.json.encode(value))
