"""Queries across jobs, the same in both dialects."""

from collections.abc import Iterable, Sequence

from windlass.ports.store.overview import JobBrief, NodeEvents, NodeSpan
from windlass.stores.columns import JOB_BRIEF, NODE_SPAN
from windlass.stores.database import Database, Row
from windlass.stores.rows import chunk_bodies, node_events_of


def _briefs_of(rows: Iterable[Row]) -> list[JobBrief]:
    return [JOB_BRIEF.row(row) for row in rows]


def _spans_of(rows: Iterable[Row]) -> list[NodeSpan]:
    return [NODE_SPAN.row(row) for row in rows]


class SqlOverview:
    """The OverviewStore contract."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recent_jobs(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        return await self._database.read(
            "overview_recent_jobs", _briefs_of, workflow_ids=list(workflow_ids), each=each
        )

    async def ended_jobs(
        self, workflow_id: str, version: int | None, limit: int, examined_max: int
    ) -> Sequence[JobBrief]:
        return await self._database.read(
            "overview_ended_jobs",
            _briefs_of,
            workflow_id=workflow_id,
            version=version,
            limit=limit,
            examined_max=examined_max,
        )

    async def active_jobs(self, since: int, limit: int) -> Sequence[JobBrief]:
        return await self._database.read(
            "overview_active_jobs", _briefs_of, since=since, limit=limit
        )

    async def unfinished_count(self, limit: int) -> int:
        [(count,)] = await self._database.rows("overview_unfinished_count", limit=limit)
        return count

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        return await self._database.read(
            "overview_node_spans", _spans_of, job_ids=list(job_ids), limit=limit
        )

    async def node_events(
        self, job_id: str, after_seq: int, limit: int, examined_max: int
    ) -> NodeEvents:
        def convert(pages: Iterable[Row]) -> NodeEvents:
            return node_events_of(pages, after_seq, limit, examined_max)

        return await self._database.read(
            "event_pages", convert, job_id=job_id, after=after_seq, limit=examined_max
        )

    async def collection_chunks(
        self, job_id: str, number: int, generation: int, first: int, last: int
    ) -> Sequence[bytes]:
        return await self._database.read(
            "overview_chunks",
            chunk_bodies,
            job_id=job_id,
            number=number,
            generation=generation,
            first=first,
            last=last,
        )
