"""Queries across jobs on dictionaries."""

from collections.abc import Callable, Sequence

from windlass.core.jobs import JobRecord
from windlass.core.states import JOB_FINAL, JobStatus
from windlass.ports.store.overview import JobBrief, NodeEvents, NodeSpan
from windlass.stores.memory.tables import Tables


class MemoryOverview:
    """The OverviewStore contract in the memory of one process."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def _newest(self, is_wanted: Callable[[JobRecord], bool]) -> list[JobBrief]:
        found = [row for row in self._tables.job_rows() if is_wanted(row)]
        found.sort(key=lambda row: (row.spec.created_at, row.spec.job_id), reverse=True)
        return [_brief(row) for row in found]

    async def recent_jobs(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        found: list[JobBrief] = []
        for workflow_id in sorted(workflow_ids):
            found += self._newest(lambda row, wanted=workflow_id: row.spec.workflow_id == wanted)[
                :each
            ]
        return found

    async def ended_jobs(
        self, workflow_id: str, version: int | None, limit: int, examined_max: int
    ) -> Sequence[JobBrief]:
        examined = self._newest(lambda row: row.spec.workflow_id == workflow_id)[:examined_max]
        found = [
            job
            for job in examined
            if JobStatus(job.status) in JOB_FINAL and version in (None, job.version)
        ]
        return found[:limit]

    async def active_jobs(self, since: int, limit: int) -> Sequence[JobBrief]:
        found = self._newest(
            lambda row: row.spec.created_at >= since or (row.state.completed_at or 0) >= since
        )
        return sorted(
            found, key=lambda job: (-max(job.created_at, job.completed_at or 0), job.job_id)
        )[:limit]

    async def unfinished_count(self, limit: int) -> int:
        return min(limit, len(self._newest(lambda row: not row.state.is_final)))

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        spans: list[NodeSpan] = []
        for job_id in job_ids:
            if job_id not in self._tables.jobs:
                continue
            for row in self._tables.jobs[job_id].snapshot().all_nodes():
                span = NodeSpan(
                    job_id=row.job_id,
                    node_id=row.node_id,
                    status=row.status,
                    attempt=row.attempt,
                    started_at=row.started_at,
                    completed_at=row.completed_at,
                    first_started_at=row.first_started_at,
                )
                spans.append(span)
        return spans[:limit]

    async def node_events(
        self, job_id: str, after_seq: int, limit: int, examined_max: int
    ) -> NodeEvents:
        if job_id not in self._tables.jobs:
            return NodeEvents([], after_seq)
        events = self._tables.jobs[job_id].events
        examined = [event for event in events if event.seq > after_seq][:examined_max]
        found = [event for event in examined if event.index is None]
        if len(found) > limit:
            return NodeEvents(found[:limit], found[limit - 1].seq)
        return NodeEvents(found, examined[-1].seq if examined else after_seq)

    async def collection_chunks(
        self, job_id: str, number: int, generation: int, first: int, last: int
    ) -> Sequence[bytes]:
        if job_id not in self._tables.jobs:
            return []
        chunks = self._tables.jobs[job_id].chunks
        keys = [(number, generation, chunk) for chunk in range(first, last + 1)]
        return [chunks[key] for key in keys if key in chunks]


def _brief(row: JobRecord) -> JobBrief:
    return JobBrief(
        job_id=row.spec.job_id,
        workflow_id=row.spec.workflow_id,
        version=row.spec.version,
        status=row.state.status,
        created_at=row.spec.created_at,
        started_at=row.state.started_at,
        completed_at=row.state.completed_at,
    )
