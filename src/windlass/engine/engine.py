"""The engine: owns shards, runs the duties around them, and is where jobs are submitted, stopped and waited for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from random import Random

from msgspec import Struct

from windlass.core.changes import Changes
from windlass.core.errors import BrokerUnavailable, IdempotencyConflict, NodeNotFound, RequestRefused, StaleLease
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import CancelRequested, Message, RetryRequested, Submitted
from windlass.core.plan import Plan
from windlass.core.shards import shard_of
from windlass.core.states import JOB_FINAL, JobStatus
from windlass.engine.background import every, kept
from windlass.engine.counters import Counters
from windlass.engine.duties.pruner import PRUNE_EVERY_SECONDS, Pruner
from windlass.engine.duties.scheduler import CHECK_SECONDS, Scheduler
from windlass.engine.duties.sweeper import Sweeper
from windlass.engine.ids import Ids
from windlass.engine.job_waiters import JobWaiters
from windlass.engine.leases import Leases
from windlass.engine.new_job_cache import hint
from windlass.engine.output_store import OutputStore
from windlass.engine.plan_cache import Plans
from windlass.engine.remote_job_watcher import WATCH_SECONDS, RemoteJobWatcher
from windlass.engine.run_commands import Prepare
from windlass.engine.run_control import EngineRuns
from windlass.engine.run_coordinator import RunCoordinator
from windlass.engine.shard import Shard
from windlass.engine.submit_batcher import SubmitBatcher
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.control import CountersSnapshot, Submit
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobPosition, Request, SubmitResult

# A request is durable before it is applied. When the shard is busy recovering, its caller need not wait for all of it.
APPLIED_SECONDS_MAX = 5.0
log = logging.getLogger("windlass.engine")


class Sharing(Struct, frozen=True):
    """How the jobs are spread over engines: the number of shards, and how long an engine keeps one without a word."""

    shards: int
    lease_seconds: float
    # Whether this process owns shards, or only submits and waits.
    owns: bool = True


class Duties(Struct, frozen=True, kw_only=True):
    """Intervals and limits of the background duties; the settings of the same names describe them."""

    sweep_seconds: float
    retention_days: float
    worker_timeout_seconds: float
    worker_check_seconds: float
    in_flight_check_seconds: float
    run_heartbeat_seconds: float
    # None: runs are never orphaned.
    run_heartbeats_missed_max: int | None


class _Holding(Struct, frozen=True):
    """A shard that this process owns, and what runs for it."""

    shard: Shard
    running: "asyncio.Task[None]"
    sweeping: "asyncio.Task[None]"


class Engine:
    """Runs jobs durably on a store and a broker; alone, or sharing the work with other engines."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        clock: Clock,
        plans: Plans,
        artifacts: Artifacts,
        chance: Random,
        *,
        owner: str,
        artifact_bytes_max: int,
        duties: Duties,
        only_new_jobs: bool = False,
        sharing: Sharing | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._plans = plans
        self._owner = owner
        self._settings = duties
        self._sharing = sharing
        self._total = 1 if sharing is None else sharing.shards
        self._only_new_jobs = only_new_jobs
        self._ids = Ids(chance)
        self._intake = SubmitBatcher(self._stored)
        self._values = OutputStore(store, artifacts, artifact_bytes_max)
        self._held: dict[int, _Holding] = {}
        self._pruner = Pruner(store, artifacts, clock, self._settings.retention_days)
        self._reaped_at = clock.now()
        self._duties: list[asyncio.Task[None]] = []
        self._leases: Leases | None = None
        self._watcher = RemoteJobWatcher(store, None if sharing is None else broker, self._news_of, self._hear_done)
        self._waiting = JobWaiters()
        self._asked: dict[str, asyncio.Future[None]] = {}
        self._counts = Counters()
        # Checks the input of jobs that the rules about runs make.
        self._prepare = prepare
        self._scheduler = Scheduler(store, broker, clock, self._total, self._ready)
        self.runs = EngineRuns(
            store,
            clock,
            plans,
            self._ids,
            shards=self._total,
            await_applied=self._await_applied,
            notify=self._hint,
            submit=self._stored,
        )

    @property
    def shard(self) -> Shard:
        """The only shard of an engine that runs alone."""
        return self._held[0].shard

    async def start(self) -> None:
        """Begin: alone, take the shard over and recover what was unfinished, ready for work when it returns."""
        sharing = self._sharing
        if sharing is None:
            await self._hold_alone()
        elif sharing.owns:
            leases = self._leases = Leases(self._store, self._owner, sharing.shards, sharing.lease_seconds, self)
            await leases.look()
            self._keep("the leases", leases.look_seconds, leases.look)
        if sharing is None or sharing.owns:
            self._keep("the reaper", self._settings.worker_check_seconds, self._reap)
            self._keep("the pruner", PRUNE_EVERY_SECONDS, self._prune)
            if not self._only_new_jobs:
                self._keep("the scheduler", CHECK_SECONDS, self._scheduler.check)
            self._keep("the heartbeat of runs", self._settings.run_heartbeat_seconds, self._beat_runs)
        if sharing is not None:
            self._keep("the watcher", WATCH_SECONDS, self._watch)

    async def _hold_alone(self) -> None:
        self.hold(0)
        holding = self._held[0]
        ready = asyncio.create_task(holding.shard.ready.wait())
        await asyncio.wait((ready, holding.running), return_when=asyncio.FIRST_COMPLETED)
        if holding.running.done():
            ready.cancel()
            await holding.running

    def hold(self, number: int) -> None:
        """Begin to own a shard, as far as nobody else does."""
        ttl = None if self._sharing is None else self._sharing.lease_seconds
        parts = (self._store, self._broker, self._clock, self._plans, self._values)
        shard = Shard(number, self._owner, *parts, self._listen, ttl_seconds=ttl, desk=self._desk(number))
        if self._only_new_jobs:
            shard.admitted = set()
        sweeper = Sweeper(shard, self._store, self._broker, self._clock, self._settings.in_flight_check_seconds)
        sweeping = kept(f"the sweeper of shard {number}", lambda: self._sweep(sweeper), self._clock)
        running = asyncio.create_task(shard.run())
        self._held[number] = _Holding(shard, running, asyncio.create_task(sweeping))
        if self._sharing is not None:
            running.add_done_callback(lambda _: self._let_go(number, shard))

    def _desk(self, number: int) -> RunCoordinator:
        beats, seconds = self._settings.run_heartbeats_missed_max, self._settings.run_heartbeat_seconds
        return RunCoordinator(
            number,
            self._total,
            self._store,
            self._plans,
            prepare=self._prepare,
            silent_seconds_max=None if beats is None else beats * seconds,
            heartbeat_seconds=seconds,
        )

    def _ready(self) -> Mapping[int, Shard]:
        return {number: one.shard for number, one in self._held.items() if one.shard.ready.is_set()}

    async def _beat_runs(self) -> None:
        for shard in self._ready().values():
            await shard.runs.put_heartbeat()

    async def _sweep(self, sweeper: Sweeper) -> None:
        await every(self._settings.sweep_seconds, sweeper.sweep, self._clock)

    def _let_go(self, number: int, shard: Shard) -> None:
        """A shard has ended: another engine has it, or it was given back."""
        holding = self._held.get(number)
        if holding is None or holding.shard is not shard:
            return
        del self._held[number]
        holding.sweeping.cancel()
        failure = None if holding.running.cancelled() else holding.running.exception()
        if isinstance(failure, StaleLease):
            log.info("shard %d is another engine's: %s", number, failure)
        elif failure is not None:
            log.error("shard %d ended", number, exc_info=failure)

    async def give_back(self, number: int) -> None:
        """Finish the batch at hand and let another engine have the shard."""
        holding = self._held.get(number)
        if holding is None:
            return
        holding.sweeping.cancel()
        await holding.shard.stop()
        try:
            await holding.running
        except StaleLease:
            return
        await holding.shard.release()

    def holds(self) -> Mapping[int, int]:
        """The shards that this process has or is about to have, and the epochs under which it writes."""
        return {number: holding.shard.epoch for number, holding in self._held.items()}

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        """Note that leases (shard -> epoch) last until then, by the loop's clock."""
        for number, epoch in epochs.items():
            if number in self._held:
                self._held[number].shard.renewed(epoch, until)

    def _keep(self, name: str, seconds: float, duty: Callable[[], Awaitable[object]]) -> None:
        self._duties.append(asyncio.create_task(kept(name, lambda: every(seconds, duty, self._clock), self._clock)))

    async def _reap(self) -> None:
        """Take back what silent workers hold, unless it is this process that was stopped for a while."""
        now = self._clock.now()
        stalled = now - self._reaped_at > 2 * self._settings.worker_check_seconds * MICROSECONDS
        self._reaped_at = now
        if not stalled:
            await self._broker.reclaim(self._settings.worker_timeout_seconds)

    async def _prune(self) -> None:
        # One engine is enough, and whoever has the first shard is one.
        if 0 in self._held:
            await self._pruner.prune()

    async def stop(self) -> None:
        """End after the batches at hand and give the shards back. Workers must have stopped before."""
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await asyncio.gather(*(self.give_back(number) for number in list(self._held)))
        if self._leases is not None:
            await self._leases.settle()
        self._held.clear()
        if self._sharing is not None and self._sharing.owns:
            await self._store.leases.deregister(self._owner)

    @property
    def is_shared(self) -> bool:
        """Whether other processes run shards of the same jobs."""
        return self._sharing is not None

    @property
    def held(self) -> Sequence[Shard]:
        """The shards that this process has or is about to have, as they are in memory."""
        return [holding.shard for holding in self._held.values()]

    @property
    def shards(self) -> Sequence[int]:
        """The shards that this process runs now."""
        return sorted(number for number, holding in self._held.items() if holding.shard.ready.is_set())

    @property
    def lost(self) -> asyncio.Task[None] | None:
        """Of an engine that runs alone, the task that ends early only when its shard was lost to another owner."""
        return self._held[0].running if 0 in self._held else None

    # What people ask for

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """The compiled plan of a version; WorkflowNotFound."""
        return await self._plans.get(workflow_id, version)

    async def submit(self, wanted: Submit) -> JobRecord:
        """Store a job and let it begin; once this returns, the job is never lost. IdempotencyConflict."""
        answer = await self._intake.submit(await self._new_job(wanted))
        if answer.conflict:
            job_id = answer.job.spec.job_id
            raise IdempotencyConflict(
                f"idempotency key {wanted.idempotency_key!r} was used for job {job_id} with another request; "
                "send the same request again, or use a new key"
            )
        return answer.job

    async def submit_all(self, wanted: Sequence[Submit]) -> Sequence[SubmitResult]:
        """Store many jobs in one transaction; an answer for each, conflicts among them."""
        return await self._stored([await self._new_job(one) for one in wanted])

    async def _stored(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        with self._expecting(jobs):
            answers = await self._store.jobs.insert(jobs)
            self._admit(answers)
        await self._begin(answers)
        return answers

    async def _new_job(self, wanted: Submit) -> JobSpec:
        plan = self._plans.peek(wanted.workflow_id, wanted.version)
        if plan is None:
            plan = await self._plans.get(wanted.workflow_id, wanted.version)
        now = self._clock.now()
        job_id = self._ids.new(now)
        shard_key = None if plan.runs is None else wanted.workflow_id
        return JobSpec(
            job_id=job_id,
            workflow_id=wanted.workflow_id,
            version=wanted.version,
            input=wanted.input,
            created_at=now,
            shard=shard_of(shard_key or job_id, self._total),
            priority=wanted.priority,
            idempotency_key=wanted.idempotency_key,
            request_digest=wanted.request_digest,
            scheduled_at=wanted.scheduled_at,
            shard_key=shard_key,
        )

    @contextmanager
    def _expecting(self, jobs: Sequence[JobSpec]) -> Generator[None]:
        """Inside the block this process stores jobs; the shards that it owns itself may begin with them at once."""
        by_shard: dict[int, list[JobSpec]] = {}
        for job in jobs:
            if job.shard in self._held:
                by_shard.setdefault(job.shard, []).append(job)
        with ExitStack() as stack:
            for number, own in by_shard.items():
                stack.enter_context(self._held[number].shard.fresh.expecting(own))
            yield

    def _admit(self, answers: Sequence[SubmitResult]) -> None:
        for answer in answers:
            holding = self._held.get(answer.job.spec.shard)
            if answer.created and holding is not None:
                holding.shard.admit(answer.job.spec)

    async def _begin(self, answers: Sequence[SubmitResult]) -> None:
        hints: dict[int, list[Message]] = {}
        for answer in answers:
            if answer.created:
                job = answer.job
                # A shard of this process knows it already.
                told = Submitted(job.spec.job_id) if job.spec.shard in self._held else hint(job.spec)
                hints.setdefault(job.spec.shard, []).append(told)
        # At once: a broker sends what is said to many shards together.
        await asyncio.gather(*(self._hint(number, messages) for number, messages in hints.items()))

    async def _hint(self, shard: int, messages: Sequence[Message]) -> None:
        """Tell a shard of rows. Where that fails, its sweeper finds them: whoever asked need not hear of it."""
        try:
            await self._broker.send(shard, messages)
        except BrokerUnavailable as error:
            log.warning("shard %d was not told of %d messages: %s", shard, len(messages), error)

    async def resume(self, job_id: str) -> JobRecord:
        """Take up one unfinished job, in an engine that otherwise leaves old jobs alone."""
        job = await self._store.jobs.get(job_id)
        if job.state.is_final:
            raise RequestRefused(f"job {job_id} is {job.state.status}: there is nothing left to resume")
        await self.shard.take_up(job_id)
        return job

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Stop a job; one that has ended stays as it is. JobNotFound."""
        now = self._clock.now()
        request = Request(self._ids.new(now), job_id, "cancel", now, reason=reason)
        await self._ask(request, CancelRequested(job_id, request.request_id, reason))

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Run what failed or was cancelled again, or a node and all after it. RequestRefused, JobNotFound."""
        job = await self._store.jobs.get(job_id)
        state = job.state.status
        if state not in JOB_FINAL:
            raise RequestRefused(f"job {job_id} is {job.state.status}: only a finished job can be retried")
        if state is JobStatus.COMPLETED and from_node is None:
            raise RequestRefused(f"job {job_id} completed: name the node to start again from")
        if from_node is not None and from_node not in (await self.plan(job.spec.workflow_id, job.spec.version)).index:
            raise NodeNotFound(f"workflow {job.spec.workflow_id} has no node {from_node!r}")
        now = self._clock.now()
        request = Request(self._ids.new(now), job_id, "retry", now, from_node=from_node)
        await self._ask(request, RetryRequested(job_id, request.request_id, from_node))

    async def _ask(self, request: Request, message: Message) -> None:
        await self._await_applied(request.request_id, lambda: self._store.jobs.put_request(request), message)

    async def _await_applied(self, request_id: str, store: Callable[[], Awaitable[int]], message: Message) -> None:
        """Store a request and wait until it was applied, so that whoever looks next sees what came of it."""
        applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = applied
        self._watcher.listen()
        try:
            shard = await store()
            await self._hint(shard, [message])
            await asyncio.wait((applied,), timeout=APPLIED_SECONDS_MAX)
        finally:
            del self._asked[request_id]

    # Waiting

    async def wait(self, job_id: str) -> None:
        """Return once the job has ended and its end is durable."""
        if self._waiting.is_over(job_id):
            return
        with self._waiting.end(job_id) as end:
            if not self._is_here(job_id):
                self._watcher.listen()
                if JobStatus((await self._watcher.standing(job_id)).status) in JOB_FINAL:
                    return
            await end

    def _is_here(self, job_id: str) -> bool:
        """Whether a shard of this process has the job in memory, and so tells of its end."""
        shards = (holding.shard for holding in self._held.values())
        return any(job_id in shard.jobs or job_id in shard.fresh for shard in shards)

    async def _watch(self) -> None:
        """Look after the jobs that somebody here waits for and another process runs."""
        elsewhere = [job_id for job_id in self._waiting.job_ids if not self._is_here(job_id)]
        await self._watcher.look(elsewhere, list(self._asked))

    def _news_of(self, standing: JobPosition | None, request_id: str | None = None) -> None:
        """What a look into the database found to have changed."""
        if request_id is not None:
            self._settle(request_id)
        if standing is not None:
            self._waiting.tell(standing.job_id, has_ended=JobStatus(standing.status) in JOB_FINAL)

    def _hear_done(self, ids: Sequence[str]) -> None:
        """Jobs that some process says have ended, and requests that were applied; what runs here is known here."""
        for one in ids:
            if one in self._asked:
                self._settle(one)
            elif self._waiting.is_for(one) and not self._is_here(one):
                self._waiting.tell(one, has_ended=True)

    def _settle(self, request_id: str) -> None:
        applied = self._asked.get(request_id)
        if applied is not None and not applied.done():
            applied.set_result(None)

    def news(self, job_id: str) -> AbstractContextManager[asyncio.Event]:
        """An event that is set whenever something was stored about the job, until the block ends."""
        if not self._is_here(job_id):
            self._watcher.listen()
        return self._waiting.news(job_id)

    def counted(self) -> CountersSnapshot:
        """What this process has done since it started."""
        return self._counts.told()

    def _listen(self, changes: Changes) -> None:
        """After a commit: count it, and tell those who wait."""
        self._counts.add(changes)
        requests = changes.requests if changes.runs is None else [*changes.requests, *changes.runs.requests]
        for request_id in requests:
            self._settle(request_id)
        self._waiting.tell_all(changes)
        if self._sharing is not None and (changes.finished or requests):
            self._broker.notify_done([*changes.finished, *requests])
