"""Reading jobs, nodes, iterations and events, the same in both dialects."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Raw, structs

from windlass.core.changes import IterationRow, MergeOutputs, NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.report_verdict import ReportVerdict
from windlass.ports.message_codec import encode_message
from windlass.ports.store.jobs import (
    IterationFilter,
    JobFilter,
    JobPosition,
    NodeBrief,
    StoredResult,
    no_job,
)
from windlass.stores.columns import ITERATION, NODE, job_of_row
from windlass.stores.database import Database, Row
from windlass.stores.rows import (
    brief_of,
    events_of,
    indexes_in,
    job_query,
    jobs_of_rows,
    verdicts_of,
)


def nodes_of(rows: Iterable[Row]) -> list[NodeRow]:
    """Return nodes from their rows."""
    return [NODE.row(row) for row in rows]


def ids_of(rows: Iterable[Row]) -> list[str]:
    """Return the first column."""
    return [row[0] for row in rows]


class SqlJobs:
    """The part of the JobStore contract that both dialects do alike."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job_id: str) -> JobRecord:
        row = await self._database.first("job_get", job_id=job_id)
        if row is None:
            raise no_job(job_id)
        return job_of_row(row)

    async def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        query, values = job_query(wanted)
        return await self._database.read(query, jobs_of_rows, **values)

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        rows = await self._database.rows("job_positions", job_ids=list(job_ids))
        return [JobPosition(*row) for row in rows]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return await self._database.read("job_unfinished", ids_of, shard=shard)

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        if node_id is None:
            return await self._database.read("node_list", nodes_of, job_id=job_id)
        return await self._database.read("node_get", nodes_of, job_id=job_id, node_id=node_id)

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        return await self._database.read(
            "node_page", nodes_of, job_id=job_id, first=first, stop=first + limit
        )

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        rows = await self._database.rows("node_briefs", job_id=job_id, numbers=list(numbers))
        return [brief_of(row) for row in rows]

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        def convert(pages: Iterable[Row]) -> Sequence[Event]:
            return events_of(pages, after_seq, limit)

        return await self._database.read(
            "event_pages", convert, job_id=job_id, after=after_seq, limit=limit
        )

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        rows = await self._database.rows("iteration_list", **structs.asdict(wanted))
        return [ITERATION.row(row) for row in rows]

    async def iteration_counts(
        self, job_id: str, number: int, generation: int
    ) -> Mapping[str, int]:
        rows = await self._database.rows(
            "iteration_counts", job_id=job_id, number=number, generation=generation
        )
        return {status: count for status, count in rows}  # noqa: C416

    async def unrecorded_iterations(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        gaps = await self._database.rows(
            "iteration_gaps",
            job_id=wanted.job_id,
            number=wanted.number,
            generation=wanted.generation,
            after=wanted.after,
            begun=begun,
            limit=wanted.limit,
        )
        return indexes_in(gaps, wanted.limit)

    async def iteration_outputs(
        self, wanted: MergeOutputs, start: int, stop: int
    ) -> Sequence[Raw | None]:
        rows = await self._database.rows(
            "iteration_outputs",
            job_id=wanted.job_id,
            number=wanted.number,
            generation=wanted.generation,
            start=start,
            stop=stop,
        )
        outputs: list[Raw | None] = [None] * (stop - start)
        for index, output in rows:
            outputs[index - start] = Raw(output.encode())
        return outputs

    async def call_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        rows = await self._database.rows(
            "call_output_list",
            job_id=wanted.job_id,
            number=wanted.number,
            generation=wanted.generation,
            index=wanted.index,
            calls=wanted.count,
        )
        return [Raw(output.encode()) for (output,) in rows]

    async def unapplied_requests(self, request_ids: Sequence[str]) -> Sequence[str]:
        wanted = list(request_ids)
        of_jobs = await self._database.read("request_unapplied", ids_of, request_ids=wanted)
        of_runs = await self._database.read("run_request_unapplied", ids_of, request_ids=wanted)
        return [*of_jobs, *of_runs]

    async def put_result(self, result: StoredResult) -> None:
        await self._database.write(
            "result_insert",
            result_id=result.result_id,
            job_id=result.message.job_id,
            shard=result.shard,
            message=encode_message(result.message).decode(),
            created_at=result.created_at,
        )

    async def verdicts(self, result_ids: Sequence[str]) -> Mapping[str, ReportVerdict]:
        rows = await self._database.read("result_verdicts", list, result_ids=list(result_ids))
        return verdicts_of(result_ids, rows)
