"""One shard: gather, decide, commit, release. Nothing leaves before it is durable.

The memory of the shard runs ahead of its rows by one batch. When a commit fails, or nobody knows whether it took
effect, the memory is dropped and rebuilt from the rows: nothing was released, nothing acknowledged.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import zip_longest

from msgspec import Struct

from windlass.core.advance import advance
from windlass.core.changes import Changes, MergeOutputs, Task
from windlass.core.errors import JobNotFound, RequestRefused, StaleLease, StoreUnavailable
from windlass.core.ids import RunId
from windlass.core.job import Job
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import Continue, JobMessage, Message, Submitted, TaskFinished, split_batch
from windlass.core.pagination import asked_for
from windlass.engine.background import kept, settled
from windlass.engine.new_job_cache import NewJobCache
from windlass.engine.output_store import OutputStore
from windlass.engine.plan_cache import Plans
from windlass.engine.recovery import Lost, Recovery, rebuild
from windlass.engine.run_commands import RunBatch
from windlass.engine.run_coordinator import RunCoordinator
from windlass.engine.timers import Timers
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobSnapshot
from windlass.ports.store.leases import Lease

# Messages that one commit covers at most. Batches grow with load by themselves; this bounds their memory.
BATCH_MAX = 500
GATHER_SECONDS = 5.0
# Batches that are being stored or released at one time.
UNDERWAY_MAX = 2
# After a failure the shard waits before it rebuilds, longer each time, so that a broken disk is not hammered.
FAILURE_WAIT_SECONDS = 0.05
FAILURE_WAIT_SECONDS_MAX = 5.0
# How often a lease that may be over is asked for again before anything is released under it.
ASSURE_MAX = 3

Listener = Callable[[Changes], None]
log = logging.getLogger("windlass.engine")


class _Commit(Struct, frozen=True):
    """A batch on its way: whether it was stored, once that is known, and the task that then releases it."""

    stored: "asyncio.Future[bool]"
    task: "asyncio.Future[None]"


class Shard:
    """Owns the jobs of one shard while its lease lasts."""

    def __init__(
        self,
        number: int,
        owner: str,
        store: Store,
        broker: Broker,
        clock: Clock,
        plans: Plans,
        values: OutputStore,
        listener: Listener,
        *,
        ttl_seconds: float | None = None,
        desk: RunCoordinator,
    ) -> None:
        self.number = number
        self.owner = owner
        self.jobs: dict[str, Job] = {}
        self.fresh = NewJobCache()
        # Jobs whose rows or rules cannot be followed. They wait for a person; the others go on.
        self.quarantined: set[str] = set()
        # None: every unfinished job of the shard is this owner's to run. Else only these; the others wait.
        self.admitted: set[str] | None = None
        self._store = store
        self._broker = broker
        self._clock = clock
        self._plans = plans
        self._values = values
        self._listener = listener
        self._lease = Lease(0, abandoned=False)
        # None: this owner is the only one there is, and takes the shard whoever had it before.
        self._ttl_seconds = ttl_seconds
        # Until then nobody else can have the shard; by the loop's clock, which nobody sets.
        self._lasts_until = math.inf
        self._timers = Timers(number, broker, clock)
        self._carried: list[Message] = []
        # Jobs that have ended, until they can be dropped from memory.
        self._leaving: set[str] = set()
        # What was decided and is not stored yet: a batch or two.
        self._unstored: list[Changes] = []
        self._is_next_decided = False
        self._stopping = False
        self._lost: StaleLease | None = None
        self._failures = 0
        self.ready = asyncio.Event()
        # Outputs being put together, beside everything else.
        self._gathering: set[asyncio.Future[None]] = set()
        self._gather_failure: Exception | None = None
        self.recovery = Recovery(store, plans, values, self.quarantined)
        self.runs = desk

    async def run(self) -> None:
        """Own the shard until `stop` or until the lease is lost (StaleLease)."""
        timers = asyncio.ensure_future(kept("timers", self._timers.run, self._clock))
        try:
            while not self._stopping:
                await self._run_until_failure()
        finally:
            timers.cancel()

    async def stop(self) -> None:
        """Finish the batch at hand, then end `run`."""
        self._stopping = True
        await self._broker.send(self.number, [])

    async def check_lease(self) -> None:
        """End `run` when the shard has another owner by now: one with nothing to commit would not find out."""
        epoch = self._lease.epoch
        newest = await self._store.leases.epoch(self.number)
        # Unless this owner itself took the shard again meanwhile.
        if newest != epoch == self._lease.epoch:
            self._lost = StaleLease(f"shard {self.number} has a new owner (epoch {newest}, not {epoch})")
            await self._broker.send(self.number, [])

    def renewed(self, epoch: int, until: float) -> None:
        """Note that the lease lasts until then, by the loop's clock."""
        if epoch == self._lease.epoch:
            self._lasts_until = until

    async def publish(self, tasks: Sequence[Task]) -> None:
        """Hand tasks to workers; StaleLease when the shard is another's by now."""
        await self._assure()
        await self._broker.publish(tasks)

    async def _assure(self) -> None:
        """Ask for a lease that may be over: a process that was stopped since its commit cannot know otherwise."""
        epoch = self._lease.epoch
        for _ in range(ASSURE_MAX):
            now = asyncio.get_running_loop().time()
            if self._ttl_seconds is None or now < self._lasts_until:
                return
            seen = await self._store.leases.renew(self.owner, {self.number: epoch}, self._ttl_seconds)
            if (self.number, self.owner, epoch) not in [(row.shard, row.owner, row.epoch) for row in seen.leases]:
                raise StaleLease(f"shard {self.number} has another owner; the lease of epoch {epoch} is over")
            self.renewed(epoch, now + self._ttl_seconds)
        raise StoreUnavailable(f"the lease of shard {self.number} ends before its renewal is known; is it too short?")

    async def release(self) -> None:
        """Give the lease back: what was running was handed back, not lost."""
        await self._store.leases.release(self.number, self._lease.epoch)

    async def _run_until_failure(self) -> None:
        try:
            await self._recover()
            await self._take_turns()
        except StaleLease:
            raise
        except Exception:
            # Whatever it was, the memory cannot be trusted any more. The rows can.
            self.ready.clear()
            self._failures += 1
            log.exception("shard %d drops its memory and rebuilds it from rows", self.number)
            wait = min(FAILURE_WAIT_SECONDS * 2 ** min(self._failures, 16), FAILURE_WAIT_SECONDS_MAX)
            await self._clock.sleep(wait)

    async def _take_turns(self) -> None:
        """Decide each batch while the one before it is being committed; release that one while this is committed."""
        underway: deque[_Commit] = deque()
        try:
            while not self._stopping:
                while underway and underway[0].task.done():
                    await underway.popleft().task
                if self._lost is not None:
                    raise self._lost
                if self._gather_failure is not None:
                    raise self._gather_failure
                carried, self._carried = self._carried, []
                gathered = await self._broker.receive(self.number, BATCH_MAX, 0.0 if carried else GATHER_SECONDS)
                if not gathered and not carried:
                    continue
                changes = await self.decide([*carried, *gathered])
                self._is_next_decided = True
                if underway and not await underway[-1].stored:
                    await underway[-1].task
                self._is_next_decided = False
                if len(underway) >= UNDERWAY_MAX:
                    await underway.popleft().task
                underway.append(self._begin_commit(changes, len(gathered), underway[-1] if underway else None))
        finally:
            # All of them: what is still being released must not come after the memory was rebuilt.
            await settled([commit.task for commit in underway])

    def _begin_commit(self, changes: Changes, gathered: int, before: "_Commit | None") -> "_Commit":
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # Also when it is done: it may have failed since somebody looked, and must not be passed over.
        released = before.task if before is not None else None
        writing = self._write(changes)
        return _Commit(stored, asyncio.ensure_future(self._commit(changes, gathered, writing, stored, released)))

    def _write(self, changes: Changes) -> "asyncio.Future[None] | None":
        """Hand the batch to the store. Not later: a worker on the same loop may keep it busy for a while."""
        return asyncio.ensure_future(self._store.commit(self.number, self.epoch, changes)) if changes else None

    async def decide(self, batch: Sequence[Message]) -> Changes:
        """Apply the rules to each message. The jobs in memory are then ahead of their rows until the commit."""
        changes = Changes()
        self._unstored.append(changes)
        now = self._clock.now()
        jobs = self.jobs
        messages, run_messages = split_batch(batch)
        for run_message in run_messages:
            await self.runs.apply(RunBatch(self, changes, now), run_message)
        restored = await self._restored(messages)
        for message, following in zip_longest(messages, messages[1:]):
            job = jobs.get(message.job_id)
            if job is None:
                job = await self._load(message.job_id, restored.pop(message.job_id, None))
                if job is None:
                    self._dismiss(message, changes)
                    continue
            # One that has ended needs nothing, and must not be dropped from memory while something is fetched for it.
            if (job.has_large or job.plan.has_series) and not job.ended:
                await self._values.provide_for(job, message)
            try:
                # Results of one job come in crowds: it counts them all before it goes on.
                dispatches = type(message) is not TaskFinished or not _is_result_of(job.id, following)
                advance(job, message, now, changes, dispatches=dispatches)
                if job.wanted:
                    await self._proceed(job, changes, now)
            except StoreUnavailable:
                raise
            except Exception:
                # The job is half moved: it is set aside, and the rest of the batch starts over from the rows.
                self.quarantined.add(message.job_id)
                raise
            if job.values:
                self._values.let_go(job)
        if self.runs.is_concerned(changes):
            await self.runs.apply_job_changes(RunBatch(self, changes, now))
        self._carried.extend(Continue(job_id) for job_id in dict.fromkeys(changes.unfinished_turns))
        return changes

    async def apply(self, message: JobMessage, changes: Changes, now: int) -> Job | None:
        """Apply a message to a job in the current batch; return the job, if it exists."""
        job = self.jobs.get(message.job_id) or await self._load(message.job_id)
        if job is None:
            return None
        if (job.has_large or job.plan.has_series) and not job.ended:
            await self._values.provide_for(job, message)
        advance(job, message, now, changes)
        await self._proceed(job, changes, now)
        if job.values:
            self._values.let_go(job)
        return job

    async def _proceed(self, job: Job, changes: Changes, now: int) -> None:
        """Fetch what nodes wait for that are ready, until none does."""
        while job.wanted:
            await self._values.provide(job)
            advance(job, Continue(job.id), now, changes)

    def defer(self, message: JobMessage) -> None:
        """Have a message applied with the next batch."""
        self._carried.append(message)

    def _dismiss(self, message: JobMessage, changes: Changes) -> None:
        """A stored result of a job that is gone is done with; that of one set aside waits with it."""
        if isinstance(message, TaskFinished) and message.result_id and message.job_id not in self.quarantined:
            changes.results.append(message.result_id)

    async def _restored(self, batch: Sequence[JobMessage]) -> dict[str, JobSnapshot]:
        """The jobs of a batch that are not in memory, where there are several: one by one is a round trip for each."""
        jobs, fresh, quarantined = self.jobs, self.fresh, self.quarantined
        unknown: dict[str, None] = {}
        for one in batch:
            job_id = one.job_id
            if job_id in jobs or job_id in fresh or job_id in quarantined:
                continue
            if job_id in unknown or not fresh.hear(one, self.number):
                unknown[job_id] = None
        if len(unknown) < 2:
            return {}
        fresh.looked_up(unknown)
        return await self.recovery.restored(list(unknown))

    async def _load(self, job_id: str, restored: JobSnapshot | None = None) -> Job | None:
        if job_id in self.quarantined:
            return None
        fresh = self.fresh.pop(job_id)
        if restored is None and fresh is not None:
            restored = JobSnapshot(JobRecord(fresh))
        try:
            if restored is None:
                self.fresh.looked_up([job_id])
                restored = await self._store.jobs.restore(job_id)
            plan = await self._plans.get(restored.job.spec.workflow_id, restored.job.spec.version)
            job = self.jobs[job_id] = rebuild(plan, restored)
        except JobNotFound:
            return None
        except StoreUnavailable:
            raise
        except Exception:
            self.quarantined.add(job_id)
            log.exception("job %s cannot be loaded and is set aside", job_id)
            return None
        if job.ended:
            self._leaving.add(job_id)
        return job

    async def _commit(
        self,
        changes: Changes,
        gathered: int,
        writing: "asyncio.Future[None] | None",
        stored: "asyncio.Future[bool] | None" = None,
        released: "asyncio.Future[None] | None" = None,
    ) -> None:
        """Once it is stored, say so, then release: in the order of the batches, so after the one before it."""
        try:
            if writing is not None:
                await writing
            self._unstored.remove(changes)
            if stored is not None:
                stored.set_result(True)
                if self._is_next_decided:
                    # The next batch goes to the store first: it is written while workers run what is released here.
                    await asyncio.sleep(0)
            if released is not None:
                await released
            await self._let_go(changes, gathered)
        except BaseException as failure:
            if stored is not None and not stored.done():
                stored.set_result(False)
            # Whoever waits for messages must not wait for one that can no longer come. Should that fail too, the
            # first failure is still the one to act on: it may say that the shard is lost.
            try:
                await self._broker.send(self.number, [])
            finally:
                raise failure
        self._failures = 0
        self._listener(changes)

    async def _let_go(self, changes: Changes, gathered: int) -> None:
        # Messages without a consequence, too: they were not stored under an epoch, and may be another owner's by now.
        await self._assure()
        if changes.tasks:
            await self.publish(changes.tasks)
        if changes.cancels:
            await self._broker.cancel(changes.cancels)
        self._timers.set(changes.timers)
        self._gather(changes.gathers)
        if changes.runs is not None:
            self._timers.set(changes.runs.timers)
            for shard, job_id in changes.runs.notifications:
                await self._broker.send(shard, [Submitted(job_id)])
        if gathered:
            await self._broker.acknowledge(self.number, gathered)
        self._leaving.update(changes.finished)
        if self._leaving:
            self._forget_ended()

    def _gather(self, wanted: Sequence[MergeOutputs]) -> None:
        """Have outputs put together; the job is told with the next batch."""
        for one in wanted:
            task = asyncio.ensure_future(self._tell_gathered(one))
            self._gathering.add(task)
            task.add_done_callback(self._gathering.discard)

    async def _tell_gathered(self, wanted: MergeOutputs) -> None:
        try:
            gathered = await self._values.gather(wanted)
            # Only now: the list is another one after each batch.
            self._carried.append(gathered)
        except Exception as failure:
            # The shard starts over from the rows, which tell that this is still to be done.
            self._gather_failure = failure
        await self._broker.send(self.number, [])

    def ahead(self) -> set[str]:
        """Jobs whose memory is ahead of their rows: something was decided about them and is not stored yet."""
        return {job_id for changes in self._unstored for job_id in changes.events}

    def runs_ahead(self) -> set[RunId]:
        """Return the runs whose memory is ahead of their rows."""
        return {run_id for changes in self._unstored if changes.runs is not None for run_id in changes.runs.runs}

    def _forget_ended(self) -> None:
        """Drop ended jobs from memory, but not before all that was decided about them is stored."""
        spoken_of = self.ahead()
        for job_id in self._leaving - spoken_of:
            job = self.jobs.get(job_id)
            if job is not None and job.ended:
                del self.jobs[job_id]
                self.fresh.ended(job_id)
        self._leaving &= spoken_of

    async def _recover(self) -> None:
        """Take the lease and rebuild the memory; results that wait are applied before tasks go out again."""
        for task in self._gathering:
            task.cancel()
        self._gather_failure = None
        self._lease = await self._taken()
        began_at = self._clock.now()
        self._is_next_decided = False
        self.jobs.clear()
        self.fresh.clear()
        self._leaving.clear()
        self._unstored.clear()
        self._carried.clear()
        self._timers.clear()
        await self._broker.rewind(self.number)
        self.jobs.update(await self.recovery.load(self.number, self.admitted))
        self._timers.set(self.recovery.timers(self.jobs.values()))
        # First of all: what waits for its schedule must find it.
        self._carried.extend(await self.runs.load(self.jobs, is_whole=self.admitted is None))
        self._timers.set(self.runs.timers())
        self._carried.extend(self.recovery.hints(self.jobs.values()))
        for job in self.jobs.values():
            self._gather(asked_for(job))
        self._carried.extend(await self.recovery.results(self.number, self.jobs))
        # Asked before the inbox is emptied: a result that comes in between is then not taken for a lost task.
        lost = await self.recovery.lost(self.jobs.values(), self._broker)
        await self._drain()
        self.fresh.believe_after(began_at)
        if self._lease.abandoned and lost.messages:
            changes = await self.decide(lost.messages)
            await self._commit(changes, 0, self._write(changes))
        await self._publish_again(lost)
        self.ready.set()

    async def _taken(self) -> Lease:
        if self._ttl_seconds is None:
            return await self._store.leases.take(self.number, self.owner)
        now = asyncio.get_running_loop().time()
        lease = await self._store.leases.claim(self.number, self.owner, self._ttl_seconds)
        if lease is None:
            raise StaleLease(f"shard {self.number} has another owner")
        self._lasts_until = now + self._ttl_seconds
        return lease

    @property
    def epoch(self) -> int:
        """The epoch of the lease under which the shard writes."""
        return self._lease.epoch

    def admit(self, spec: JobSpec) -> None:
        """Start a job that this process stored itself."""
        self.fresh.admit(spec)
        if self.admitted is not None:
            self.admitted.add(spec.job_id)

    async def take_up(self, job_id: str) -> None:
        """Go on with one unfinished job that was left alone so far."""
        if self.admitted is not None:
            self.admitted.add(job_id)
        job = await self._load(job_id)
        if job is None:
            raise RequestRefused(f"job {job_id} cannot be loaded; the log says why")
        if job.plan.runs is not None:
            await self.runs.adopt(job)
            self._timers.set(self.runs.timers())
        self._timers.set(self.recovery.timers([job]))
        lost = await self.recovery.lost([job], self._broker)
        hints = self.recovery.hints([job])
        self._gather(asked_for(job))
        await self._broker.send(self.number, [*hints, *lost.messages] if self._lease.abandoned else hints)
        await self._publish_again(lost)

    async def _drain(self) -> None:
        while True:
            carried, self._carried = self._carried, []
            gathered = await self._broker.receive(self.number, BATCH_MAX, 0.0)
            if not gathered and not carried:
                return
            changes = await self.decide([*carried, *gathered])
            await self._commit(changes, len(gathered), self._write(changes))

    async def _publish_again(self, lost: Lost) -> None:
        for start in range(0, len(lost.places), BATCH_MAX):
            places = lost.places[start : start + BATCH_MAX]
            await self.publish(await self.recovery.tasks(self.jobs, places))


def _is_result_of(job_id: str, message: JobMessage | None) -> bool:
    return type(message) is TaskFinished and message.job_id == job_id
