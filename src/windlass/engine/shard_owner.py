"""The shards that this process owns: taking them, giving them back, and the tasks that run for each."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from windlass.core.errors import StaleLease
from windlass.engine.background import periodic, supervise
from windlass.engine.config import Duties, Sharing
from windlass.engine.context import EngineContext
from windlass.engine.duties.sweeper import Sweeper
from windlass.engine.job_table import JobTable
from windlass.engine.lease_heartbeat import LeaseHeartbeat
from windlass.engine.leases import Leases
from windlass.engine.output_store import OutputStore
from windlass.engine.run_coordinator import RunCoordinator
from windlass.engine.shard import CommitListener, Shard
from windlass.engine.shard_lease import ShardLease
from windlass.engine.worker_timeout import WorkerTimeout
from windlass.ports.outage_log import OutageLog
from windlass.ports.store.leases import EngineRow

log = logging.getLogger("windlass.engine")


class _OwnedShard(Struct, frozen=True):
    """A shard and the tasks that run for it."""

    shard: Shard
    running: "asyncio.Task[None]"
    sweeping: "asyncio.Task[None]"


class ShardOwner:
    """Owns shards: the only one of an engine that runs alone, or a fair part of those that engines share."""

    def __init__(
        self,
        context: EngineContext,
        outputs: OutputStore,
        *,
        owner: str,
        duties: Duties,
        sharing: Sharing | None,
        only_new_jobs: bool,
        worker_timeout: WorkerTimeout,
        on_commit: CommitListener,
    ) -> None:
        # How many shards there are, in all processes.
        self.total = 1
        self._engine = EngineRow(owner, duties.worker_timeout_seconds)
        self.leases: Leases | None = None
        self.heartbeat: LeaseHeartbeat | None = None
        if sharing is not None:
            self.total = sharing.shards
            if sharing.owns:
                self.heartbeat = LeaseHeartbeat(
                    context.store.leases,
                    self._engine,
                    self,
                    context.clock,
                    lease_seconds=sharing.lease_seconds,
                )
                self.leases = Leases(
                    context.store,
                    self._engine,
                    self,
                    total=sharing.shards,
                    heartbeat=self.heartbeat,
                    lease_seconds=sharing.lease_seconds,
                    worker_timeout=worker_timeout,
                )
        self._context = context
        self._store = context.store
        self._clock = context.clock
        self._outputs = outputs
        self._duties = duties
        self._sharing = sharing
        self._only_new_jobs = only_new_jobs
        self._on_commit = on_commit
        self._owned: dict[int, _OwnedShard] = {}
        self._outages = OutageLog(log)

    # Starting and stopping

    async def start(self) -> None:
        """Take shards. An engine that runs alone has recovered its unfinished jobs when this returns."""
        if self._sharing is None:
            await self._hold_only_shard()
        elif self.leases is not None:
            await self.leases.rebalance()

    async def _hold_only_shard(self) -> None:
        self.hold(0)
        owned = self._owned[0]
        ready = asyncio.create_task(owned.shard.ready.wait())
        try:
            await asyncio.wait((ready, owned.running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if owned.running.done():
            await owned.running

    async def stop(self) -> None:
        """Finish the current batches and give all shards back."""
        await asyncio.gather(*(self.give_back(number) for number in list(self._owned)))
        if self.leases is not None:
            await self.leases.wait_given_back()
        self._owned.clear()
        if self.heartbeat is not None:
            await self.heartbeat.wait_ended()
        if self.leases is not None:
            await self._store.leases.deregister(self._engine.owner)

    # Owning single shards, for the leases

    def hold(self, number: int) -> None:
        """Start to own a shard. Its task ends with StaleLease if another engine has it."""
        shard = self._new_shard(number)
        sweeper = Sweeper(
            shard=shard,
            store=self._store,
            broker=self._context.broker,
            clock=self._clock,
            contents=self._context.contents,
            in_flight_check_seconds=self._duties.in_flight_check_seconds,
        )
        sweeping = supervise(
            f"the sweeper of shard {number}", lambda: self._sweep(sweeper), self._clock
        )
        running = asyncio.create_task(shard.run())
        self._owned[number] = _OwnedShard(shard, running, asyncio.create_task(sweeping))
        if self._sharing is not None:
            running.add_done_callback(partial(self._forget, number))

    def _new_shard(self, number: int) -> Shard:
        lease_seconds = None if self._sharing is None else self._sharing.lease_seconds
        return Shard(
            number,
            store=self._store,
            broker=self._context.broker,
            clock=self._clock,
            outputs=self._outputs,
            lease=ShardLease(
                number, self._engine, self._store.leases, lease_seconds, self.heartbeat
            ),
            table=JobTable(self._store, self._context.plans, only_new_jobs=self._only_new_jobs),
            runs=self._new_coordinator(number),
            on_commit=self._on_commit,
        )

    def _new_coordinator(self, number: int) -> RunCoordinator:
        missed_max = self._duties.run_heartbeats_missed_max
        silent_seconds_max = math.inf
        if missed_max is not None:
            silent_seconds_max = missed_max * self._duties.run_heartbeat_seconds
        return RunCoordinator(
            number,
            self.total,
            self._store,
            self._context.plans,
            prepare=self._context.check_input,
            silent_seconds_max=silent_seconds_max,
            heartbeat_seconds=self._duties.run_heartbeat_seconds,
        )

    async def _sweep(self, sweeper: Sweeper) -> None:
        await periodic(self._duties.sweep_seconds, sweeper.sweep, self._clock)

    def _forget(self, number: int, running: "asyncio.Task[None]") -> None:
        """Forget a shard whose task has ended: another engine has it, or it was given back."""
        failure = None
        if not running.cancelled():
            failure = running.exception()
        owned = self._owned.get(number)
        if owned is None or owned.running is not running:
            return
        del self._owned[number]
        owned.sweeping.cancel()
        if isinstance(failure, StaleLease):
            log.info("shard %d has another owner: %s", number, failure)
        elif isinstance(failure, Exception):
            self._outages.failed(f"shard {number} ended", failure)

    async def give_back(self, number: int) -> None:
        """Finish the current batch of a shard and release its lease."""
        owned = self._owned.get(number)
        if owned is None:
            return
        owned.sweeping.cancel()
        if not owned.shard.ready.is_set():
            # It recovers, or waits to try again. Like a crash: the next owner does all steps of the recovery, which it
            # would not if the lease were released.
            owned.running.cancel()
            await asyncio.wait({owned.running})
            return
        await owned.shard.stop()
        try:
            await owned.running
        except StaleLease:
            return
        await owned.shard.lease.release()

    def epochs(self) -> Mapping[int, int]:
        """Return the shards that this process owns or is taking, and the epochs under which they commit."""
        return {number: owned.shard.lease.epoch for number, owned in self._owned.items()}

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        """Record that leases (shard -> epoch) are valid until then, by the clock of the event loop."""
        for number, epoch in epochs.items():
            if number in self._owned:
                self._owned[number].shard.lease.renewed(epoch, until)

    # What this process owns

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards that this process owns or is taking."""
        return [owned.shard for owned in self._owned.values()]

    def find(self, number: int) -> Shard | None:
        """Return a shard that this process owns or is taking."""
        owned = self._owned.get(number)
        if owned is None:
            return None
        return owned.shard

    def ready(self) -> Mapping[int, Shard]:
        """Return the shards that accept messages."""
        return {
            number: owned.shard
            for number, owned in self._owned.items()
            if owned.shard.ready.is_set()
        }

    def has_job(self, job_id: str) -> bool:
        """Whether a job is in the memory of a shard of this process, which then notifies of its end."""
        return any(job_id in owned.shard.table for owned in self._owned.values())

    @property
    def running(self) -> "asyncio.Task[None] | None":
        """The task of the only shard of an engine that runs alone; it ends early only if the shard is lost."""
        owned = self._owned.get(0)
        if owned is None:
            return None
        return owned.running

    async def send_run_heartbeats(self) -> None:
        """Record that the runs of this process are served."""
        for shard in self.ready().values():
            await shard.runs.put_heartbeat()
