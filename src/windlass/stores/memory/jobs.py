"""Jobs in dictionaries."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from windlass.core.changes import NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.states import JobStatus
from windlass.ports.store.jobs import (
    JobFilter,
    JobPosition,
    JobSnapshot,
    NodeBrief,
    SubmitResult,
)
from windlass.stores.memory.logs import MemoryLogs
from windlass.stores.memory.loops import MemoryLoops
from windlass.stores.memory.requests import MemoryRequests
from windlass.stores.memory.runs import MemoryRuns
from windlass.stores.memory.tables import JobRows, Tables


class MemoryJobs(MemoryLoops, MemoryRequests):
    """The JobStore contract in the memory of one process."""

    def __init__(self, tables: Tables, runs: MemoryRuns, logs: MemoryLogs) -> None:
        MemoryLoops.__init__(self, tables)
        MemoryRequests.__init__(self, tables, runs)
        self._logs = logs

    async def insert(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        self._tables.check_open()
        return [self.insert_one(job) for job in jobs]

    def insert_one(self, job: JobSpec) -> SubmitResult:
        """Store one job."""
        key = None if job.idempotency_key is None else (job.workflow_id, job.idempotency_key)
        if key is not None and key in self._tables.keys:
            known = self._tables.job(self._tables.keys[key]).row
            return SubmitResult(
                known, created=False, conflict=known.spec.request_digest != job.request_digest
            )
        row = JobRecord(job)
        data = Raw(msgspec.json.encode({"workflow_id": job.workflow_id, "version": job.version}))
        created = Event(
            seq=1, type="job_created", node_id=None, index=None, at=job.created_at, data=data
        )
        self._tables.jobs[job.job_id] = JobRows(row, created)
        if key is not None:
            self._tables.keys[key] = job.job_id
        return SubmitResult(row)

    async def get(self, job_id: str) -> JobRecord:
        return self._tables.job(job_id).snapshot().job

    async def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        found = [row for row in self._tables.job_rows() if self._is_listed(row, wanted)]
        found.sort(key=lambda row: (row.spec.created_at, row.spec.job_id), reverse=True)
        return found[: wanted.limit]

    def _is_listed(self, job: JobRecord, wanted: JobFilter) -> bool:
        spec = job.spec
        if not wanted.selects(job):
            return False
        if wanted.before is not None and (spec.created_at, spec.job_id) >= wanted.before:
            return False
        if wanted.search is None or spec.job_id.startswith(wanted.search):
            return True
        # The other ways to find a job depend on its workflow being deployed.
        if spec.workflow_id not in self._tables.workflows:
            return False
        return spec.workflow_id.startswith(wanted.search) or spec.idempotency_key == wanted.search

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        found = [
            self._tables.jobs[job_id].snapshot().job
            for job_id in job_ids
            if job_id in self._tables.jobs
        ]
        return [JobPosition(job.spec.job_id, job.seq, job.state.status) for job in found]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return self._ids(lambda row: row.spec.shard == shard and not row.state.is_final)

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        def is_wanted(job: JobRecord) -> bool:
            is_pending = job.state.status == JobStatus.PENDING
            return job.spec.shard == shard and is_pending and job.spec.created_at < created_before

        return self._ids(is_wanted)[:limit]

    def _ids(self, is_wanted: Callable[[JobRecord], bool]) -> Sequence[str]:
        found = [row for row in self._tables.job_rows() if is_wanted(row)]
        found.sort(key=lambda row: (row.spec.created_at, row.spec.job_id))
        return [row.spec.job_id for row in found]

    async def restore(self, job_id: str) -> JobSnapshot:
        return self._tables.job(job_id).restored()

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        return [
            self._tables.jobs[job_id].restored()
            for job_id in job_ids
            if job_id in self._tables.jobs
        ]

    async def snapshot(self, job_id: str) -> JobSnapshot:
        return self._tables.job(job_id).snapshot()

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        if job_id not in self._tables.jobs:
            return []
        rows = self._tables.jobs[job_id].snapshot().all_nodes()
        return [row for row in rows if node_id in (None, row.node_id)]

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        found = [row for row in await self.nodes(job_id) if first <= row.number < first + limit]
        return sorted(found, key=lambda row: row.number)

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        return [_brief(row) for row in await self.nodes(job_id) if row.number in numbers]

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        if job_id not in self._tables.jobs:
            return []
        return [event for event in self._tables.jobs[job_id].events if event.seq > after_seq][
            :limit
        ]

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        self._tables.check_open()
        ended: list[tuple[int, str]] = []
        for job in self._tables.job_rows():
            completed_at, job_id = job.state.completed_at, job.spec.job_id
            is_old = (
                job.state.is_final and completed_at is not None and completed_at < finished_before
            )
            if is_old and not self._runs.is_job_needed(job_id):
                ended.append((completed_at or 0, job_id))
        deleted = [job_id for _, job_id in sorted(ended)[:limit]]
        self._delete(deleted)
        self._logs.delete_of_jobs(deleted)
        self._runs.prune(finished_before, deleted)
        return deleted

    def _delete(self, job_ids: Sequence[str]) -> None:
        tables = self._tables
        for job_id in job_ids:
            spec = tables.jobs.pop(job_id).row.spec
            if spec.idempotency_key is not None:
                del tables.keys[spec.workflow_id, spec.idempotency_key]
        tables.requests = {
            key: held for key, held in tables.requests.items() if held[0].job_id not in job_ids
        }
        tables.results = {
            key: held
            for key, held in tables.results.items()
            if held[0].message.job_id not in job_ids
        }


def _brief(row: NodeRow) -> NodeBrief:
    return NodeBrief(
        number=row.number,
        status=row.status,
        completed_at=row.completed_at,
        head=None if row.output is None else str(row.output, "utf-8")[:32],
        meta=row.meta,
        progress=row.progress,
    )
