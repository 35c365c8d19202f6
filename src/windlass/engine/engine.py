"""The engine: owns shards, runs the duties around them, and accepts requests about jobs and runs."""

from collections.abc import Sequence
from random import Random

from windlass.core.changes import Changes
from windlass.core.plan import Plan
from windlass.engine.config import Duties, Sharing
from windlass.engine.context import CheckInput, EngineContext
from windlass.engine.counters import Counters
from windlass.engine.duties.contents_watch import ContentsWatch
from windlass.engine.engine_duties import EngineDuties
from windlass.engine.ids import Ids
from windlass.engine.job_control import EngineJobs
from windlass.engine.output_store import OutputStore
from windlass.engine.plan_cache import Plans
from windlass.engine.remote_job_watcher import POLL_SECONDS
from windlass.engine.run_control import EngineRuns
from windlass.engine.shard_owner import ShardOwner
from windlass.engine.submit import Submitter
from windlass.engine.worker_timeout import REFRESH_SECONDS, WorkerTimeout
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
        context = EngineContext(
            store=store,
            broker=broker,
            clock=clock,
            plans=plans,
            ids=Ids(random),
            contents=ContentsWatch(broker),
            check_input=check_input,
        )
        self._contents = context.contents
        self._plans = plans
        self._sharing = sharing
        self._only_new_jobs = only_new_jobs
        self._counters = Counters()
        self._leases = store.leases
        self._worker_timeout = WorkerTimeout(duties.worker_timeout_seconds)
        self.shard_owner = ShardOwner(
            context,
            OutputStore(store, artifacts, artifact_bytes_max),
            owner=owner,
            duties=duties,
            sharing=sharing,
            only_new_jobs=only_new_jobs,
            worker_timeout=self._worker_timeout,
            on_commit=self._on_commit,
        )
        submitter = Submitter(context, self.shard_owner, random)
        self.jobs = EngineJobs(context, self.shard_owner, submitter, is_shared=self.is_shared)
        self.runs = EngineRuns(
            context,
            shards=self.shard_owner.total,
            await_applied=self.jobs.await_applied,
            submit=submitter.store,
        )
        self._duties = EngineDuties(context, artifacts, self.shard_owner, duties)

    async def start(self) -> None:
        """Take shards and start the duties. An engine that runs alone has recovered when this returns."""
        await self._contents.check()
        await self.shard_owner.start()
        if self._sharing is None or self._sharing.owns:
            self._duties.start_owner_duties(with_schedules=not self._only_new_jobs)
        if self._sharing is not None and not self._sharing.owns:
            # Now, because a wait that begins while the server of the broker subscribes could miss an end.
            self.jobs.watch_other_processes()
            await self._refresh_worker_timeout()
            self._duties.start("worker timeout", REFRESH_SECONDS, self._refresh_worker_timeout)
        if self._sharing is not None:
            self._duties.start("remote job watcher", POLL_SECONDS, self.jobs.poll)

    async def stop(self) -> None:
        """Finish the current batches and give the shards back. Workers must have stopped before."""
        await self._duties.stop()
        await self.shard_owner.stop()

    async def _refresh_worker_timeout(self) -> None:
        await self._worker_timeout.refresh(self._leases)

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

    @property
    def shard_count(self) -> int:
        """How many shards there are, in all processes."""
        return self.shard_owner.total

    @property
    def worker_timeout_seconds(self) -> float:
        """After which time without a heartbeat an engine counts a worker as lost."""
        return self._worker_timeout.seconds

    def counters(self) -> CountersSnapshot:
        """Return what this process has done since it started."""
        return self._counters.snapshot()
