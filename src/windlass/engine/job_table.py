"""The jobs of one shard in memory: loading them, setting bad ones aside, and forgetting those that have finished."""

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from windlass.core.errors import JobNotFound, StoreUnavailable
from windlass.core.job import Job
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import JobMessage
from windlass.core.plan import Plan
from windlass.core.restoration import restore_job
from windlass.engine.new_job_cache import NewJobCache
from windlass.engine.plan_cache import Plans
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobSnapshot

# Jobs read by one query: their rows are in memory twice for a moment.
RESTORE_MAX = 200

log = logging.getLogger("windlass.engine")


def rebuild(plan: Plan, snapshot: JobSnapshot) -> Job:
    """Build a job in memory from its rows."""
    return restore_job(plan, snapshot.job, snapshot.nodes, snapshot.loops, snapshot.in_flight)


class JobTable:
    """The loaded jobs of a shard. A job that cannot be loaded is quarantined and stops no other."""

    def __init__(self, store: Store, plans: Plans, *, only_new_jobs: bool = False) -> None:
        self.jobs: dict[str, Job] = {}
        self.new_jobs = NewJobCache()
        # Jobs that cannot be loaded or advanced. They wait for an operator; the others continue.
        self.quarantined: set[str] = set()
        # None: this owner runs every unfinished job of the shard. Otherwise only these.
        self.admitted: set[str] | None = None
        if only_new_jobs:
            self.admitted = set()
        self._store = store
        self._plans = plans
        # Finished jobs that are still in memory.
        self._finished: set[str] = set()

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.jobs or job_id in self.new_jobs

    def clear(self) -> None:
        """Discard all jobs: the shard reloads."""
        self.jobs.clear()
        self.new_jobs.clear()
        self._finished.clear()

    def admit(self, job_id: str) -> None:
        """Let this owner run a job."""
        if self.admitted is not None:
            self.admitted.add(job_id)

    def add_new(self, spec: JobSpec) -> None:
        """Add a job that the shard creates with its current batch."""
        self.new_jobs.add(spec)
        self.admit(spec.job_id)

    def add_stored(self, spec: JobSpec) -> None:
        """Add a job that this process has stored."""
        self.new_jobs.add_stored(spec)
        self.admit(spec.job_id)

    # Loading

    async def load_all(self, shard: int) -> None:
        """Load the shard's unfinished jobs, oldest first; only the admitted ones, if not all are."""
        unfinished = await self._store.jobs.unfinished(shard)
        job_ids = [
            job_id for job_id in unfinished if self.admitted is None or job_id in self.admitted
        ]
        for start in range(0, len(job_ids), RESTORE_MAX):
            part = job_ids[start : start + RESTORE_MAX]
            snapshots = await self._read(part)
            for job_id in part:
                await self.load(job_id, snapshots.get(job_id))

    async def read_missing(self, batch: Sequence[JobMessage]) -> dict[str, JobSnapshot]:
        """Read the jobs of a batch that are not in memory in one query, if there are several."""
        jobs, new_jobs, quarantined = self.jobs, self.new_jobs, self.quarantined
        missing: dict[str, None] = {}
        for message in batch:
            job_id = message.job_id
            if job_id in jobs or job_id in new_jobs or job_id in quarantined:
                continue
            if job_id in missing or not new_jobs.add_trusted(message):
                missing[job_id] = None
        if len(missing) < 2:
            return {}
        return await self._read(list(missing))

    async def load(self, job_id: str, snapshot: JobSnapshot | None = None) -> Job | None:
        """Load a job from its snapshot, the cache of new jobs or its rows; None if that is not possible."""
        if job_id in self.quarantined:
            return None
        spec = self.new_jobs.pop(job_id)
        if snapshot is None and spec is not None:
            snapshot = JobSnapshot(JobRecord(spec))
        try:
            if snapshot is None:
                self.new_jobs.invalidate([job_id])
                snapshot = await self._store.jobs.restore(job_id)
            plan = await self._plans.get(snapshot.job.spec.workflow_id, snapshot.job.spec.version)
            job = self.jobs[job_id] = rebuild(plan, snapshot)
        except JobNotFound:
            return None
        except StoreUnavailable:
            raise
        except Exception:
            self.quarantined.add(job_id)
            log.exception("job %s cannot be loaded and is quarantined", job_id)
            return None
        if job.is_final:
            self._finished.add(job_id)
        return job

    async def _read(self, job_ids: Sequence[str]) -> dict[str, JobSnapshot]:
        """Read several jobs in few queries; nothing if one of them cannot be read, so that each is read alone."""
        self.new_jobs.invalidate(job_ids)
        snapshots: dict[str, JobSnapshot] = {}
        try:
            for start in range(0, len(job_ids), RESTORE_MAX):
                for snapshot in await self._store.jobs.restore_all(
                    job_ids[start : start + RESTORE_MAX]
                ):
                    snapshots[snapshot.job.spec.job_id] = snapshot
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("some of %d jobs cannot be read; reading them one by one", len(job_ids))
            snapshots.clear()
        return snapshots

    # Forgetting

    def mark_finished(self, job_ids: Iterable[str]) -> None:
        """Record that jobs have finished; `forget_finished` removes them."""
        self._finished.update(job_ids)

    @property
    def has_finished_jobs(self) -> bool:
        """Whether finished jobs are in memory."""
        return bool(self._finished)

    def forget_finished(self, uncommitted: AbstractSet[str]) -> None:
        """Remove finished jobs from memory, except those with uncommitted changes."""
        for job_id in self._finished - uncommitted:
            job = self.jobs.get(job_id)
            if job is not None and job.is_final:
                del self.jobs[job_id]
                self.new_jobs.remember_finished(job_id)
        self._finished &= uncommitted
