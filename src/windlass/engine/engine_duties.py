"""The background duties of an engine: started and stopped together."""

import asyncio
from collections.abc import Awaitable, Callable

from windlass.engine.background import periodic, supervise
from windlass.engine.config import Duties
from windlass.engine.context import EngineContext
from windlass.engine.duties.clock_watcher import CHECK_SECONDS as CLOCK_CHECK_SECONDS
from windlass.engine.duties.clock_watcher import ClockWatcher
from windlass.engine.duties.contents_watch import CHECK_SECONDS as CHECK_CONTENTS_SECONDS
from windlass.engine.duties.pruner import PRUNE_EVERY_SECONDS, Pruner
from windlass.engine.duties.reaper import Reaper
from windlass.engine.duties.scheduler import CHECK_SECONDS, Scheduler
from windlass.engine.shard_owner import ShardOwner
from windlass.ports.artifacts import Artifacts


class EngineDuties:
    """Runs the duties around the shards of this process. Each shard has its own sweeper and timers."""

    def __init__(
        self,
        context: EngineContext,
        artifacts: Artifacts,
        shard_owner: ShardOwner,
        settings: Duties,
    ) -> None:
        self._clock = context.clock
        self._shard_owner = shard_owner
        self._settings = settings
        self._reaper = Reaper(context.broker, context.clock, settings)
        self._pruner = Pruner(context.store, artifacts, context.clock, settings.retention_days)
        self._clock_watcher = ClockWatcher(context.clock)
        self._scheduler = Scheduler(
            store=context.store,
            broker=context.broker,
            clock=context.clock,
            total=shard_owner.total,
            shards=shard_owner.ready,
        )
        self._contents = context.contents
        self._running: list[asyncio.Task[None]] = []

    def start_owner_duties(self, *, with_schedules: bool) -> None:
        """Start the duties of an engine that owns shards."""
        leases = self._shard_owner.leases
        heartbeat = self._shard_owner.heartbeat
        if heartbeat is not None:
            self._supervise("lease heartbeat", heartbeat.run)
        if leases is not None:
            self.start("leases", leases.interval_seconds, leases.rebalance)
        self.start("broker contents", CHECK_CONTENTS_SECONDS, self._contents.check)
        self.start("reaper", self._settings.worker_check_seconds, self._reaper.reap)
        self.start("pruner", PRUNE_EVERY_SECONDS, self._prune)
        self.start("clock watcher", CLOCK_CHECK_SECONDS, self._clock_watcher.check)
        if with_schedules:
            self.start("scheduler", CHECK_SECONDS, self._scheduler.check)
        self.start(
            "run heartbeats",
            self._settings.run_heartbeat_seconds,
            self._shard_owner.send_run_heartbeats,
        )

    def start(self, name: str, seconds: float, duty: Callable[[], Awaitable[object]]) -> None:
        """Run a duty periodically until `stop`."""
        self._supervise(name, lambda: periodic(seconds, duty, self._clock))

    def _supervise(self, name: str, loop: Callable[[], Awaitable[object]]) -> None:
        self._running.append(asyncio.create_task(supervise(name, loop, self._clock)))

    async def stop(self) -> None:
        """Stop all duties."""
        for duty in self._running:
            duty.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _prune(self) -> None:
        # One engine is enough: the owner of the first shard.
        has_more = True
        while has_more and self._shard_owner.find(0) is not None:
            has_more = await self._pruner.prune()
