"""Jobs in PostgreSQL."""

from array import array
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from windlass.core.changes import NodeRow
from windlass.core.errors import CommitUnknown
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.loop_state import LoopRows
from windlass.ports.store.jobs import (
    JobSnapshot,
    Request,
    StoredResult,
    SubmitResult,
    no_job,
)
from windlass.stores.columns import ITERATION, NODE, REQUEST, job_of_row
from windlass.stores.postgres.batched_query import BatchedQuery
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.parameters import job_parameter
from windlass.stores.postgres.pool import Session
from windlass.stores.postgres.rows import restored_of
from windlass.stores.postgres.runs import PostgresRuns
from windlass.stores.rows import chunk_bodies, jobs_of_rows, loops_to_restore, result_of
from windlass.stores.sql.jobs import SqlJobs, ids_of

# A known key is looked up in a second query, and its job may be deleted in between.
INSERT_ATTEMPTS = 3


class PostgresJobs(SqlJobs):
    """The JobStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements, runs: PostgresRuns) -> None:
        super().__init__(database)
        self._postgres = database
        self._runs = runs
        self._pending = BatchedQuery(database, "job_pending")
        self._requests = BatchedQuery(database, "request_list")
        self._results = BatchedQuery(database, "result_list")

    async def insert(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        results: dict[str, SubmitResult] = {}
        left = list(jobs)
        for _ in range(INSERT_ATTEMPTS):
            if not left:
                break
            rows = await self._postgres.write("job_insert", jobs=job_parameter(left))
            inserted = set(ids_of(rows))
            for job in left:
                if job.job_id in inserted:
                    results[job.job_id] = SubmitResult(JobRecord(job))
            left = [job for job in left if job.job_id not in inserted]
            known = await self._known(left)
            for job in left:
                first = known.get((job.workflow_id, job.idempotency_key))
                if first is not None:
                    conflict = first.spec.request_digest != job.request_digest
                    results[job.job_id] = SubmitResult(first, created=False, conflict=conflict)
            left = [job for job in left if job.job_id not in results]
        if left:
            raise CommitUnknown(
                f"jobs with idempotency key {left[0].idempotency_key!r} are being deleted; try again"
            )
        return [results[job.job_id] for job in jobs]

    async def _known(self, jobs: Sequence[JobSpec]) -> dict[tuple[str, str | None], JobRecord]:
        if not jobs:
            return {}
        rows = await self._postgres.rows(
            "job_list_by_idempotency_key",
            workflow_ids=[job.workflow_id for job in jobs],
            idempotency_keys=[job.idempotency_key for job in jobs],
        )
        found = jobs_of_rows(rows)
        return {(job.spec.workflow_id, job.spec.idempotency_key): job for job in found}

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        return ids_of(await self._pending.rows(shard, created_before, limit))

    async def snapshot(self, job_id: str) -> JobSnapshot:
        return await self._postgres.query(lambda session: self._job_and_nodes(session, job_id))

    async def restore(self, job_id: str) -> JobSnapshot:
        found = await self.snapshot(job_id)
        if not loops_to_restore(found.nodes):
            return found
        return await self._postgres.query(lambda session: self._with_loops(session, job_id))

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        rows = await self._postgres.rows("job_list_new", job_ids=list(job_ids))
        restored = [JobSnapshot(job_of_row(row), []) for row in rows]
        others = list(set(job_ids).difference(one.job.spec.job_id for one in restored))
        if others:
            for found in await self._postgres.query(
                lambda session: self._jobs_and_nodes(session, others)
            ):
                if loops_to_restore(found.nodes):
                    restored.append(await self.restore(found.job.spec.job_id))
                else:
                    restored.append(found)
        return restored

    async def _with_loops(self, session: Session, job_id: str) -> JobSnapshot:
        # One snapshot for several queries, so that all rows are from the same moment.
        async with session.transaction(isolation="repeatable_read", readonly=True):
            found = await self._job_and_nodes(session, job_id)
            loops = [
                await self._loop(session, job_id, *key) for key in loops_to_restore(found.nodes)
            ]
            return structs.replace(found, loops=loops)

    async def _job_and_nodes(self, session: Session, job_id: str) -> JobSnapshot:
        found = await self._jobs_and_nodes(session, [job_id])
        if not found:
            raise no_job(job_id)
        return found[0]

    async def _jobs_and_nodes(
        self, session: Session, job_ids: Sequence[str]
    ) -> "list[JobSnapshot]":
        jobs: list[str] = []
        nodes: dict[str, list[NodeRow]] = {}
        for job, *values in await self._postgres.execute(
            session, "job_restore_rows", job_ids=list(job_ids)
        ):
            if job is None:
                row = NODE.row(values)
                nodes.setdefault(row.job_id, []).append(row)
            else:
                jobs.append(job)
        return [restored_of(job, nodes) for job in jobs]

    async def _loop(self, session: Session, job_id: str, number: int, generation: int) -> LoopRows:
        key: dict[str, Any] = {"job_id": job_id, "number": number, "generation": generation}
        chunks = await self._postgres.execute(session, "chunk_list", **key)
        [(completed,)] = await self._postgres.execute(session, "iteration_completed", **key)
        rows = await self._postgres.execute(session, "iteration_restore", **key)
        others = [ITERATION.row(row) for row in rows]
        return LoopRows(
            number, generation, chunk_bodies(chunks), completed=array("l", completed), others=others
        )

    async def put_request(self, request: Request) -> int:
        rows = await self._postgres.write("request_insert", **structs.asdict(request))
        if not rows:
            raise no_job(request.job_id)
        return rows[0][0]

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        return [REQUEST.row(row) for row in await self._requests.rows(shard, limit)]

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        return [result_of(row) for row in await self._results.rows(shard, limit)]

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        deleted = ids_of(
            await self._postgres.write("job_prune", finished_before=finished_before, limit=limit)
        )
        await self._runs.prune(finished_before, limit, deleted)
        return deleted
