"""Jobs in SQLite."""

from collections.abc import Sequence
from contextlib import suppress

from windlass.core.errors import JobNotFound
from windlass.core.jobs import JobSpec
from windlass.core.loop_state import LoopRows
from windlass.ports.store.jobs import JobSnapshot, Request, StoredResult, SubmitResult, no_job
from windlass.stores.columns import REQUEST, job_of_row
from windlass.stores.rows import in_flight_of, loop_of, loops_to_restore, result_of
from windlass.stores.sql.jobs import SqlJobs, ids_of, nodes_of
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements
from windlass.stores.sqlite.runs import SqliteRuns
from windlass.stores.sqlite.submits import Submits

# Deletes from every table with rows of a job, the job's own row last.
DELETES = (
    "event_delete",
    "iteration_delete",
    "call_output_delete",
    "chunk_delete",
    "node_delete",
    "request_delete",
    "result_delete",
    "log_delete",
    "delivery_delete_of_jobs",
    "job_delete",
)


class SqliteJobs(SqlJobs):
    """The JobStore contract on one SQLite file."""

    def __init__(self, database: SqliteStatements, runs: SqliteRuns) -> None:
        super().__init__(database)
        self._sqlite = database
        self._runs = runs
        self._submits = Submits(database)

    async def insert(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        return await self._submits.submit(jobs)

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        return await self._sqlite.read(
            "job_pending", ids_of, shard=shard, created_before=created_before, limit=limit
        )

    async def restore(self, job_id: str) -> JobSnapshot:
        return await self._restored(job_id, with_loops=True)

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        found: list[JobSnapshot] = []
        for job_id in job_ids:
            with suppress(JobNotFound):
                found.append(await self.restore(job_id))
        return found

    async def snapshot(self, job_id: str) -> JobSnapshot:
        return await self._restored(job_id, with_loops=False)

    async def _restored(self, job_id: str, *, with_loops: bool) -> JobSnapshot:
        def read(connection: Connection) -> JobSnapshot:
            # One transaction, so that all rows are from the same moment.
            connection.execute("begin")
            try:
                return self._read_job(connection, job_id, with_loops=with_loops)
            finally:
                connection.execute("rollback")

        return await self._sqlite.query(read)

    def _read_job(self, connection: Connection, job_id: str, *, with_loops: bool) -> JobSnapshot:
        row = self._sqlite.execute_first(connection, "job_get", job_id=job_id)
        if row is None:
            raise no_job(job_id)
        nodes = nodes_of(self._sqlite.execute(connection, "job_nodes", job_id=job_id))
        newest_page = self._sqlite.execute_first(connection, "job_in_flight", job_id=job_id)
        loops: list[LoopRows] = []
        if with_loops:
            for number, generation in loops_to_restore(nodes):
                loops.append(self._read_loop(connection, job_id, number, generation))
        in_flight = None if newest_page is None else newest_page[0]
        return JobSnapshot(job_of_row(row), nodes, loops, in_flight_of(in_flight))

    def _read_loop(
        self, connection: Connection, job_id: str, number: int, generation: int
    ) -> LoopRows:
        key = {"job_id": job_id, "number": number, "generation": generation}
        chunks = list(self._sqlite.execute(connection, "chunk_list", **key))
        rows = self._sqlite.execute(connection, "iteration_restore", **key)
        return loop_of(number, generation, chunks, rows)

    async def put_request(self, request: Request) -> int:
        def insert(connection: Connection) -> int:
            row = self._sqlite.execute_first(connection, "job_shard", job_id=request.job_id)
            if row is None:
                raise no_job(request.job_id)
            values = dict(zip(REQUEST.names, REQUEST.values(request), strict=True))
            self._sqlite.execute(connection, "request_insert", shard=row[0], **values)
            return row[0]

        return await self._sqlite.transact(insert)

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        rows = await self._sqlite.rows("request_list", shard=shard, limit=limit)
        return [REQUEST.row(row) for row in rows]

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        rows = await self._sqlite.rows("result_list", shard=shard, limit=limit)
        return [result_of(row) for row in rows]

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        def delete(connection: Connection) -> Sequence[str]:
            ended = self._sqlite.execute(
                connection, "job_ended", finished_before=finished_before, limit=limit
            )
            job_ids = ids_of(ended)
            if job_ids:
                for query in DELETES:
                    self._sqlite.execute(connection, query, job_ids=job_ids)
            self._runs.prune(connection, finished_before, limit)
            return job_ids

        return await self._sqlite.transact(delete)
