"""Questions across jobs, asked of plain dictionaries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.ports.overview import JobBrief, NodeEvents, NodeSpan
from windlass.ports.store import JobFilter, JobSnapshot

_UNFINISHED = ("pending", "running")


class Kept(Protocol):
    """All rows of one job, as the store keeps them."""

    row: JobRecord
    blocks: dict[tuple[int, int, int], bytes]
    events: list[Event]

    def restored(self) -> JobSnapshot:
        """The job as its rows have it."""
        ...


def is_wanted(job: JobRecord, wanted: JobFilter, deployed: Iterable[str]) -> bool:
    """Whether a job is in a list; by its workflow it is found as long as that is known."""
    term = wanted.search
    known = job.spec.workflow_id in deployed
    return (
        wanted.workflow_id in (None, job.spec.workflow_id)
        and wanted.status in (None, job.state.status)
        and (wanted.before is None or (job.spec.created_at, job.spec.job_id) < wanted.before)
        and (
            term is None
            or job.spec.job_id.startswith(term)
            or (known and (job.spec.workflow_id.startswith(term) or job.spec.idempotency_key == term))
        )
    )


class MemoryOverview:
    """The Overview contract on the dictionaries of a store."""

    def __init__(self, jobs: Mapping[str, Kept]) -> None:
        self._jobs = jobs

    def _newest(self, wanted: Callable[[JobRecord], bool]) -> list[JobBrief]:
        found = [kept.row for kept in self._jobs.values() if wanted(kept.row)]
        return [
            _brief(row) for row in sorted(found, key=lambda row: (row.spec.created_at, row.spec.job_id), reverse=True)
        ]

    async def recent(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        """As the contract says."""
        return [
            job
            for workflow_id in sorted(workflow_ids)
            for job in self._newest(lambda row, of=workflow_id: row.spec.workflow_id == of)[:each]
        ]

    async def ended(self, workflow_id: str, version: int | None, limit: int, looked_at_max: int) -> Sequence[JobBrief]:
        """As the contract says."""
        looked_at = self._newest(lambda row: row.spec.workflow_id == workflow_id)[:looked_at_max]
        found = [job for job in looked_at if job.status not in _UNFINISHED and version in (None, job.version)]
        return found[:limit]

    async def active(self, since: int, limit: int) -> Sequence[JobBrief]:
        """As the contract says."""
        found = self._newest(lambda row: row.spec.created_at >= since or (row.state.completed_at or 0) >= since)
        return sorted(found, key=lambda job: (-max(job.created_at, job.completed_at or 0), job.job_id))[:limit]

    async def unfinished_count(self, limit: int) -> int:
        """As the contract says."""
        return min(limit, len(self._newest(lambda row: row.state.status in _UNFINISHED)))

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        """As the contract says."""
        rows = [row for job_id in job_ids if job_id in self._jobs for row in self._jobs[job_id].restored().all_nodes()]
        spans = [
            NodeSpan(row.job_id, row.node_id, row.status, row.attempt, row.started_at, row.completed_at) for row in rows
        ]
        return spans[:limit]

    async def node_events(self, job_id: str, after_seq: int, limit: int, looked_at_max: int) -> NodeEvents:
        """As the contract says."""
        kept = self._jobs.get(job_id)
        left = [event for event in ([] if kept is None else kept.events) if event.seq > after_seq][:looked_at_max]
        found = [event for event in left if event.index is None]
        if len(found) > limit:
            return NodeEvents(found[:limit], found[limit - 1].seq)
        return NodeEvents(found, left[-1].seq if left else after_seq)

    async def blocks(self, job_id: str, number: int, generation: int, first: int, last: int) -> Sequence[bytes]:
        """As the contract says."""
        kept = self._jobs.get(job_id)
        blocks = {} if kept is None else kept.blocks
        keys = [(number, generation, block) for block in range(first, last + 1)]
        return [blocks[key] for key in keys if key in blocks]


def _brief(row: JobRecord) -> JobBrief:
    return JobBrief(
        row.spec.job_id, row.spec.workflow_id, row.spec.version, row.state.status, row.spec.created_at, row.state.started_at, row.state.completed_at
    )  # fmt: skip
