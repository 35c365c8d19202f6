"""Questions across jobs, in SQLite."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.ports.overview import JobBrief, NodeEvents, NodeSpan
from windlass.stores.rows import encoded_text, without_items
from windlass.stores.sqlite.connection import Connection

# How the store reads: an operation on a connection, awaited.
Read = Callable[[Callable[[Connection], Any]], Awaitable[Any]]


class SqliteOverview:
    """The Overview contract on one SQLite file."""

    def __init__(self, sql: dict[str, str], read: Read) -> None:
        self._sql = sql
        self._read = read

    async def _rows(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        return await self._read(lambda connection: list(connection.execute(self._sql[name], values)))

    async def recent(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        return [JobBrief(*row) for row in await self._rows("recent_jobs", encoded_text(workflow_ids), each)]

    async def ended(self, workflow_id: str, version: int | None, limit: int, looked_at_max: int) -> Sequence[JobBrief]:
        rows = await self._rows("ended_jobs_of_workflow", workflow_id, version, limit, looked_at_max)
        return [JobBrief(*row) for row in rows]

    async def active(self, since: int, limit: int) -> Sequence[JobBrief]:
        return [JobBrief(*row) for row in await self._rows("active_jobs", since, limit)]

    async def unfinished_count(self, limit: int) -> int:
        [(count,)] = await self._rows("count_unfinished", limit)
        return count

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        return [NodeSpan(*row) for row in await self._rows("node_spans", encoded_text(job_ids), limit)]

    async def node_events(self, job_id: str, after_seq: int, limit: int, looked_at_max: int) -> NodeEvents:
        def read(connection: Connection) -> NodeEvents:
            pages = connection.execute(self._sql["events_of_job"], (job_id, after_seq, looked_at_max))
            return without_items((body for body, _ in pages), after_seq, limit, looked_at_max)

        return await self._read(read)

    async def blocks(self, job_id: str, number: int, generation: int, first: int, last: int) -> Sequence[bytes]:
        rows = await self._rows("chunks_between", job_id, number, generation, first, last)
        return [body.encode() for (body,) in rows]
