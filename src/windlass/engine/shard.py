"""One shard: receive, decide, commit, publish, acknowledge. Nothing is published before it is durable.

The jobs in memory run ahead of their rows by one batch. If a commit fails or its outcome is unknown, they are discarded
and reloaded from the database: nothing was published, nothing acknowledged.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import zip_longest

from msgspec import Struct

from windlass.core.advance import advance
from windlass.core.changes import Changes, Task
from windlass.core.errors import RequestRefused, StaleLease, StoreUnavailable, StoreUnusable
from windlass.core.ids import RunId
from windlass.core.job import Job
from windlass.core.messages import (
    Continue,
    JobMessage,
    Message,
    Submitted,
    TaskFinished,
    split_batch,
)
from windlass.core.pagination import pending_merges
from windlass.core.report_verdict import ReportVerdict
from windlass.engine.background import supervise, wait_all
from windlass.engine.job_table import JobTable
from windlass.engine.output_merger import OutputMerger
from windlass.engine.output_store import OutputStore
from windlass.engine.recovery import Lost, Recovery
from windlass.engine.run_commands import RunBatch
from windlass.engine.run_coordinator import RunCoordinator
from windlass.engine.run_log import log_runs
from windlass.engine.shard_lease import ShardLease
from windlass.engine.timers import Timers
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.outage_log import OutageLog
from windlass.ports.store import Store

# Messages of one commit. Batches grow with load by themselves; this bounds their memory.
BATCH_MAX = 500
RECEIVE_SECONDS = 5.0
# Batches that are being committed or published at once.
COMMITS_MAX = 2
# After a failure the shard waits before it reloads, longer each time, so that a failing disk is not overloaded.
FAILURE_WAIT_SECONDS = 0.05
FAILURE_WAIT_SECONDS_MAX = 5.0

CommitListener = Callable[[Changes], None]
log = logging.getLogger("windlass.engine")


class _Commit(Struct, frozen=True):
    """A batch after its decision: whether it was stored, once that is known, and the task that also publishes it."""

    stored: "asyncio.Future[bool]"
    task: "asyncio.Future[None]"


class Shard:
    """Runs the jobs of one shard while its lease is valid.

    One class for the loop and the recovery: both change what is in memory, in flight and acknowledged.
    """

    def __init__(
        self,
        number: int,
        *,
        store: Store,
        broker: Broker,
        clock: Clock,
        outputs: OutputStore,
        lease: ShardLease,
        table: JobTable,
        runs: RunCoordinator,
        on_commit: CommitListener,
    ) -> None:
        self.number = number
        self.lease = lease
        self.table = table
        # The dictionary of the table itself: it is read for every message.
        self.jobs = table.jobs
        self.runs = runs
        self.recovery = Recovery(store, outputs, table)
        # Set while the shard accepts messages; clear while it reloads.
        self.ready = asyncio.Event()
        self._store = store
        self._broker = broker
        self._clock = clock
        self._outputs = outputs
        self._on_commit = on_commit
        self._timers = Timers(number, broker, clock)
        # Messages for the next batch that are not from the inbox.
        self._carried: list[Message] = []
        self._merger = OutputMerger(outputs, self.defer, self._wake)
        # Decided and not stored yet: one batch or two.
        self._uncommitted: list[Changes] = []
        self._is_next_decided = False
        # Cancelled tasks of committed batches that the broker does not know of yet, because it was unavailable.
        self._cancels: list[str] = []
        self._stopping = False
        self._has_recovered = False
        self._outages = OutageLog(log)
        self._lost: StaleLease | None = None
        self._failures = 0

    async def run(self) -> None:
        """Run the shard until `stop`, or until the lease is lost (StaleLease)."""
        timers = asyncio.ensure_future(supervise("timers", self._timers.run, self._clock))
        try:
            while not self._stopping:
                await self._run_until_failure()
        finally:
            timers.cancel()

    async def stop(self) -> None:
        """Finish the current batch, then end `run`."""
        self._stopping = True
        await self._wake()

    async def check_lease(self) -> None:
        """End `run` if the shard has another owner: without anything to commit it would not notice."""
        try:
            await self.lease.check_owner()
        except StaleLease as error:
            self._lost = error
            await self._wake()

    async def _wake(self) -> None:
        """End a wait for messages."""
        await self._broker.send(self.number, [])

    async def _run_until_failure(self) -> None:
        try:
            await self._recover()
            await self._process_batches()
        except StaleLease:
            raise
        except Exception as error:
            if isinstance(error, StoreUnusable) and not self._has_recovered:
                # The caller that starts the engine gets the error: waiting for a repair would look like a hang.
                raise
            # After any failure the memory may be wrong. The rows are not.
            self.ready.clear()
            self._failures += 1
            self._outages.failed(
                f"shard {self.number}: discarding in-memory state; reloading from the database",
                error,
            )
            wait = min(
                FAILURE_WAIT_SECONDS * 2 ** min(self._failures, 16), FAILURE_WAIT_SECONDS_MAX
            )
            await self._clock.sleep(wait)

    # Receive, decide, commit, publish, acknowledge

    async def _process_batches(self) -> None:
        """Decide each batch while the one before is being stored; publish that one while this one is being stored."""
        commits: deque[_Commit] = deque()
        try:
            while not self._stopping:
                while commits and commits[0].task.done():
                    await commits.popleft().task
                self._raise_failure()
                carried, self._carried = self._carried, []
                received = await self._broker.receive(
                    self.number, BATCH_MAX, 0.0 if carried else RECEIVE_SECONDS
                )
                if not received and not carried:
                    continue
                changes = await self.decide([*carried, *received])
                self._is_next_decided = True
                if commits and not await commits[-1].stored:
                    await commits[-1].task
                self._is_next_decided = False
                if len(commits) >= COMMITS_MAX:
                    await commits.popleft().task
                commits.append(
                    self._begin_commit(changes, len(received), commits[-1] if commits else None)
                )
        finally:
            # All of them: nothing may be published after the memory was reloaded.
            await wait_all([commit.task for commit in commits])

    def _raise_failure(self) -> None:
        """Raise what another task found: that the shard has another owner, or that outputs cannot be merged."""
        if self._lost is not None:
            raise self._lost
        if self._merger.failure is not None:
            raise self._merger.failure

    async def decide(self, batch: Sequence[Message]) -> Changes:
        """Apply the rules to each message. The jobs in memory are then ahead of their rows until the commit."""
        changes = Changes()
        self._uncommitted.append(changes)
        now, wall = self._clock.now(), self._clock.wall()
        jobs = self.jobs
        messages, run_messages = split_batch(batch)
        for run_message in run_messages:
            await self.runs.apply(RunBatch(self, changes, now, wall), run_message)
        snapshots = await self.table.read_missing(messages)
        for message, following in zip_longest(messages, messages[1:]):
            job = jobs.get(message.job_id)
            if job is None:
                job = await self.table.load(message.job_id, snapshots.pop(message.job_id, None))
                if job is None:
                    self._dismiss(message, changes)
                    continue
            # Not for a finished job: it needs no values, and could leave the memory while they are read.
            if (job.large or job.plan.has_pagination) and not job.is_final:
                await self._outputs.provide_for(job, message)
            try:
                # Results of one job arrive together: it counts them all before it dispatches.
                dispatches = type(message) is not TaskFinished or not _is_result_of(
                    job.id, following
                )
                advance(job, message, now, changes, wall=wall, dispatches=dispatches)
                if job.wanted:
                    await self._continue_with_values(job, changes, now)
            except StoreUnavailable:
                raise
            except Exception:
                # The job is in an invalid state. It is quarantined; the rest of the batch is decided again.
                self.table.quarantined.add(message.job_id)
                raise
            if job.values:
                self._outputs.forget_values(job)
        if self.runs.is_concerned(changes):
            await self.runs.apply_job_changes(RunBatch(self, changes, now, wall))
        self._carried.extend(Continue(job_id) for job_id in dict.fromkeys(changes.unfinished_turns))
        return changes

    async def apply(self, message: JobMessage, changes: Changes, now: int) -> Job | None:
        """Apply a message to a job as part of the current batch; return the job, None if it cannot be loaded."""
        job = self.jobs.get(message.job_id) or await self.table.load(message.job_id)
        if job is None:
            return None
        if (job.large or job.plan.has_pagination) and not job.is_final:
            await self._outputs.provide_for(job, message)
        advance(job, message, now, changes, wall=self._clock.wall())
        await self._continue_with_values(job, changes, now)
        self._outputs.forget_values(job)
        return job

    async def _continue_with_values(self, job: Job, changes: Changes, now: int) -> None:
        """Read the large values that ready nodes need and dispatch these nodes, until none needs any."""
        while job.wanted:
            await self._outputs.provide(job)
            advance(job, Continue(job.id), now, changes)

    async def provide_values(self, job: Job) -> None:
        """Read the large outputs that a job has requested. StoreUnavailable."""
        await self._outputs.provide(job)

    def defer(self, message: JobMessage) -> None:
        """Apply a message with the next batch."""
        self._carried.append(message)

    def _dismiss(self, message: JobMessage, changes: Changes) -> None:
        """Refuse the stored report of a job that does not exist; that of a quarantined job waits with it."""
        if (
            isinstance(message, TaskFinished)
            and message.result_id
            and message.job_id not in self.table.quarantined
        ):
            changes.results.setdefault(message.result_id, ReportVerdict.UNKNOWN)

    def _begin_commit(self, changes: Changes, received: int, before: "_Commit | None") -> "_Commit":
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # Also one that is done: it may have failed since it was last checked.
        published_before = before.task if before is not None else None
        writing = self._write(changes)
        task = asyncio.ensure_future(
            self._commit(
                changes, received, writing, stored=stored, published_before=published_before
            )
        )
        return _Commit(stored, task)

    def _write(self, changes: Changes) -> "asyncio.Future[None] | None":
        """Give the batch to the store at once: later, a worker on the same event loop may keep the loop busy."""
        if not changes:
            return None
        return asyncio.ensure_future(self._store.commit(self.number, self.lease.epoch, changes))

    async def _commit(
        self,
        changes: Changes,
        received: int,
        writing: "asyncio.Future[None] | None",
        *,
        stored: "asyncio.Future[bool] | None" = None,
        published_before: "asyncio.Future[None] | None" = None,
    ) -> None:
        """Wait until the batch is stored, then publish it after the batch before it."""
        try:
            if writing is not None:
                await writing
            self._uncommitted.remove(changes)
            if stored is not None:
                stored.set_result(True)
                if self._is_next_decided:
                    # The next batch goes to the store first: it is written while workers run what is published here.
                    await asyncio.sleep(0)
            if published_before is not None:
                await published_before
            await self._publish_and_acknowledge(changes, received)
        except BaseException as failure:
            if stored is not None and not stored.done():
                stored.set_result(False)
            # Receiving must end to notice the failure. If waking fails too, the first failure is the one to raise: it
            # may say that the lease is lost.
            try:
                await self._wake()
            finally:
                raise failure
        self._failures = 0
        self._outages.succeeded()
        self._on_commit(changes)

    async def _publish_and_acknowledge(self, changes: Changes, received: int) -> None:
        # Also without changes: messages that changed nothing were not committed under an epoch, and another owner may
        # need them.
        self._cancels += changes.cancels
        await self.lease.assert_valid()
        if changes.tasks:
            await self.publish(changes.tasks)
        await self._publish_cancels()
        self._timers.set(changes.timers)
        self._merger.start(changes.merges)
        if changes.runs is not None:
            self._timers.set(changes.runs.timers)
            log_runs(changes.runs)
            for shard, job_id in changes.runs.notifications:
                await self._broker.send(shard, [Submitted(job_id)])
        if received:
            await self._broker.acknowledge(self.number, received)
        self.table.mark_finished(changes.finished)
        if self.table.has_finished_jobs:
            self.table.forget_finished(self.ahead())

    async def _publish_cancels(self) -> None:
        if self._cancels:
            await self._broker.cancel(self._cancels)
            self._cancels = []

    async def publish(self, tasks: Sequence[Task]) -> None:
        """Publish tasks to workers; StaleLease if the shard has another owner."""
        await self.lease.assert_valid()
        await self._broker.publish(tasks, self.lease.epoch)

    def ahead(self) -> set[str]:
        """Return the jobs that are ahead of their rows, or may soon be: a decision about them is not stored yet."""
        found = {job_id for changes in self._uncommitted for job_id in changes.events}
        # A finished job that is retried has no event until its run admits it.
        found.update(one.job_id for changes in self._uncommitted for one in changes.arrivals)
        return found

    def runs_ahead(self) -> set[RunId]:
        """Return the runs that are ahead of their rows."""
        return {
            run_id
            for changes in self._uncommitted
            if changes.runs is not None
            for run_id in changes.runs.runs
        }

    # Recovery

    async def _recover(self) -> None:
        """Take the lease and reload the jobs; stored results are applied before tasks are published again."""
        self._merger.cancel()
        await self.lease.take()
        began_at = self._clock.now()
        self._is_next_decided = False
        self.table.clear()
        self._uncommitted.clear()
        self._carried.clear()
        self._timers.clear()
        await self.table.load_all(self.number)
        self._timers.set(self.recovery.timers(self.jobs.values()))
        # First: a run that waits for its schedule must find it.
        self._carried.extend(await self.runs.load(self.jobs, is_whole=self.table.admitted is None))
        self._timers.set(self.runs.timers())
        self._carried.extend(self.recovery.hints(self.jobs.values()))
        for job in self.jobs.values():
            self._merger.start(pending_merges(job))
        await self._apply_requests()
        await self._broker.register_owner(self.number, self.lease.epoch)
        await self._publish_cancels()
        await self._broker.rewind(self.number)
        self._carried.extend(await self.recovery.results(self.number, self.jobs))
        # Before the inbox is drained: a task whose result arrives in between is then not taken for lost.
        lost = await self.recovery.lost(self.jobs.values(), self._broker)
        await self._drain()
        self.table.new_jobs.trust_after(began_at)
        if self.lease.is_abandoned and lost.messages:
            changes = await self.decide(lost.messages)
            await self._commit(changes, 0, self._write(changes))
        await self._publish_again(lost)
        self.ready.set()
        self._has_recovered = True

    async def _apply_requests(self) -> None:
        """Apply stored requests before any result, and without the broker: it may be what is down.

        Results that arrived since a cancel was stored do not complete its job.
        """
        requests = await self.recovery.requests(self.number, self.jobs)
        if requests:
            carried, self._carried = self._carried, []
            changes = await self.decide([*carried, *requests])
            await self._commit(changes, 0, self._write(changes))

    async def _drain(self) -> None:
        """Process all messages that are in the inbox."""
        while True:
            carried, self._carried = self._carried, []
            received = await self._broker.receive(self.number, BATCH_MAX, 0.0)
            if not received and not carried:
                return
            changes = await self.decide([*carried, *received])
            await self._commit(changes, len(received), self._write(changes))

    async def _publish_again(self, lost: Lost) -> None:
        for start in range(0, len(lost.places), BATCH_MAX):
            places = lost.places[start : start + BATCH_MAX]
            await self.publish(await self.recovery.tasks(self.jobs, places))

    async def resume(self, job_id: str) -> None:
        """Continue one unfinished job that this owner has ignored so far. RequestRefused if it cannot be loaded."""
        self.table.admit(job_id)
        job = await self.table.load(job_id)
        if job is None:
            raise RequestRefused(f"job cannot be loaded: {job_id}; see the log of this process")
        if job.plan.runs is not None:
            await self.runs.adopt(job)
            self._timers.set(self.runs.timers())
        self._timers.set(self.recovery.timers([job]))
        lost = await self.recovery.lost([job], self._broker)
        messages = self.recovery.hints([job])
        self._merger.start(pending_merges(job))
        if self.lease.is_abandoned:
            messages.extend(lost.messages)
        await self._broker.send(self.number, messages)
        await self._publish_again(lost)


def _is_result_of(job_id: str, message: JobMessage | None) -> bool:
    return type(message) is TaskFinished and message.job_id == job_id
