"""The engine: owns shards, runs the duties around them, and accepts requests about jobs and runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

from windlass.core.changes import Changes
from windlass.core.plan import Plan
from windlass.engine.background import periodic, supervise
from windlass.engine.config import Duties, Sharing
from windlass.engine.counters import Counters
from windlass.engine.duties.pruner import PRUNE_EVERY_SECONDS, Pruner
from windlass.engine.duties.reaper import Reaper
from windlass.engine.duties.scheduler import CHECK_SECONDS, Scheduler
from windlass.engine.hints import send_hints
from windlass.engine.ids import Ids
from windlass.engine.job_control import EngineJobs
from windlass.engine.output_store import OutputStore
from windlass.engine.plan_cache import Plans
from windlass.engine.remote_job_watcher import POLL_SECONDS
from windlass.engine.run_control import EngineRuns
from windlass.engine.shard_owner import ShardOwner
from windlass.engine.submit import CheckInput, Submitter
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.control import CountersSnapshot
from windlass.ports.store import Store


class Engine:
    """Runs jobs durably on a store and a broker; alone, or sharing the work with other engines."""

    def __init__(
        self,
        *,
        store: Store,
        broker: Broker,
        clock: Clock,
        plans: Plans,
        artifacts: Artifacts,
        random: Random,
        owner: str,
        artifact_bytes_max: int,
        duties: Duties,
        check_input: CheckInput,
        only_new_jobs: bool = False,
        sharing: Sharing | None = None,
    ) -> None:
        self._clock = clock
        self._plans = plans
        self._settings = duties
        self._sharing = sharing
        self._only_new_jobs = only_new_jobs
        self._counters = Counters()
        self._duties: list[asyncio.Task[None]] = []
        ids = Ids(random)
        self.shard_owner = ShardOwner(
            store=store,
            broker=broker,
            clock=clock,
            plans=plans,
            outputs=OutputStore(store, artifacts, artifact_bytes_max),
            owner=owner,
            duties=duties,
            sharing=sharing,
            only_new_jobs=only_new_jobs,
            check_input=check_input,
            on_commit=self._on_commit,
        )
        submitter = Submitter(
            store=store,
            broker=broker,
            clock=clock,
            plans=plans,
            ids=ids,
            random=random,
            shards=self.shard_owner,
            check_input=check_input,
        )
        self.jobs = EngineJobs(
            store=store,
            broker=broker,
            clock=clock,
            plans=plans,
            ids=ids,
            submitter=submitter,
            shards=self.shard_owner,
            is_shared=self.is_shared,
        )
        self.runs = EngineRuns(
            store=store,
            clock=clock,
            plans=plans,
            ids=ids,
            shards=self.shard_owner.total,
            await_applied=self.jobs.await_applied,
            notify=partial(send_hints, broker),
            submit=submitter.store,
        )
        self._reaper = Reaper(broker, clock, duties.worker_timeout_seconds, duties.worker_check_seconds)
        self._pruner = Pruner(store, artifacts, clock, duties.retention_days)
        self._scheduler = Scheduler(
            store=store, broker=broker, clock=clock, total=self.shard_owner.total, shards=self.shard_owner.ready
        )

    async def start(self) -> None:
        """Take shards and start the duties. An engine that runs alone has recovered when this returns."""
        await self.shard_owner.start()
        if self._sharing is None or self._sharing.owns:
            self._start_owner_duties()
        if self._sharing is not None:
            self._start_duty("remote job watcher", POLL_SECONDS, self.jobs.poll)

    def _start_owner_duties(self) -> None:
        if self.shard_owner.leases is not None:
            self._start_duty("leases", self.shard_owner.leases.interval_seconds, self.shard_owner.leases.rebalance)
        self._start_duty("reaper", self._settings.worker_check_seconds, self._reaper.reap)
        self._start_duty("pruner", PRUNE_EVERY_SECONDS, self._prune)
        if not self._only_new_jobs:
            self._start_duty("scheduler", CHECK_SECONDS, self._scheduler.check)
        self._start_duty("run heartbeats", self._settings.run_heartbeat_seconds, self.shard_owner.send_run_heartbeats)

    def _start_duty(self, name: str, seconds: float, duty: Callable[[], Awaitable[object]]) -> None:
        self._duties.append(
            asyncio.create_task(supervise(name, lambda: periodic(seconds, duty, self._clock), self._clock))
        )

    async def _prune(self) -> None:
        # One engine is enough: the owner of the first shard.
        if self.shard_owner.find(0) is not None:
            await self._pruner.prune()

    async def stop(self) -> None:
        """Finish the current batches and give the shards back. Workers must have stopped before."""
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await self.shard_owner.stop()

    def _on_commit(self, changes: Changes) -> None:
        self._counters.add(changes)
        self.jobs.committed(changes)

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """Return the compiled plan of a version; WorkflowNotFound."""
        return await self._plans.get(workflow_id, version)

    @property
    def is_shared(self) -> bool:
        """Whether other processes run shards of the same jobs."""
        return self._sharing is not None

    @property
    def shards(self) -> Sequence[int]:
        """The shards that this process runs now."""
        return sorted(self.shard_owner.ready())

    def counters(self) -> CountersSnapshot:
        """Return what this process has done since it started."""
        return self._counters.snapshot()
