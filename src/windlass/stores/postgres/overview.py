"""Questions across jobs, in PostgreSQL."""

from collections.abc import Sequence

from windlass.ports.overview import JobBrief, NodeEvents, NodeSpan
from windlass.stores.postgres.pool import PostgresPool
from windlass.stores.rows import without_items


class PostgresOverview:
    """The Overview contract on one PostgreSQL database."""

    def __init__(self, pool: PostgresPool, sql: dict[str, str]) -> None:
        self._pool = pool
        self._sql = sql

    async def recent(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        return [JobBrief(*row) for row in await self._pool.read(self._sql["recent_jobs"], list(workflow_ids), each)]

    async def ended(self, workflow_id: str, version: int | None, limit: int, looked_at_max: int) -> Sequence[JobBrief]:
        values = (workflow_id, version, limit, looked_at_max)
        return [JobBrief(*row) for row in await self._pool.read(self._sql["ended_jobs_of_workflow"], *values)]

    async def active(self, since: int, limit: int) -> Sequence[JobBrief]:
        return [JobBrief(*row) for row in await self._pool.read(self._sql["active_jobs"], since, limit)]

    async def unfinished_count(self, limit: int) -> int:
        [(count,)] = await self._pool.read(self._sql["count_unfinished"], limit)
        return count

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        return [NodeSpan(*row) for row in await self._pool.read(self._sql["node_spans"], list(job_ids), limit)]

    async def node_events(self, job_id: str, after_seq: int, limit: int, looked_at_max: int) -> NodeEvents:
        pages = await self._pool.read(self._sql["events_of_job"], job_id, after_seq, looked_at_max)
        return without_items((body for (body,) in pages), after_seq, limit, looked_at_max)

    async def blocks(self, job_id: str, number: int, generation: int, first: int, last: int) -> Sequence[bytes]:
        rows = await self._pool.read(self._sql["chunks_between"], job_id, number, generation, first, last)
        return [body.encode() for (body,) in rows]
