"""New jobs in SQLite."""

from collections.abc import Sequence

from windlass.core.jobs import JobRecord, JobSpec
from windlass.ports.store.jobs import SubmitResult
from windlass.stores.columns import JOB_SPEC, job_of_row
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements


class Submits:
    """Stores new jobs."""

    def __init__(self, database: SqliteStatements) -> None:
        self._database = database
        self._insert_jobs = database.bulk("job_insert")

    async def submit(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        """Store jobs in one transaction and return a result for each, in order."""
        # Nothing is refused, so there is nothing to undo.
        return await self._database.writer.write(
            lambda connection: self._insert(connection, jobs), undo=False
        )

    def _insert(self, connection: Connection, jobs: Sequence[JobSpec]) -> list[SubmitResult]:
        results: list[SubmitResult] = []
        inserted: list[JobSpec] = []
        # By workflow and idempotency key: a batch may contain a key twice.
        by_key: dict[tuple[str, str], JobRecord] = {}
        for job in jobs:
            known = self._known(connection, job, by_key)
            if known is not None:
                conflict = known.spec.request_digest != job.request_digest
                results.append(SubmitResult(known, created=False, conflict=conflict))
                continue
            stored = JobRecord(job)
            if job.idempotency_key is not None:
                by_key[job.workflow_id, job.idempotency_key] = stored
            inserted.append(job)
            results.append(SubmitResult(stored))
        if inserted:
            values = [value for job in inserted for value in JOB_SPEC.values(job)]
            self._insert_jobs(connection.execute, values)
        return results

    def _known(
        self, connection: Connection, job: JobSpec, by_key: dict[tuple[str, str], JobRecord]
    ) -> JobRecord | None:
        if job.idempotency_key is None:
            return None
        key = (job.workflow_id, job.idempotency_key)
        if key in by_key:
            return by_key[key]
        row = self._database.execute_first(
            connection,
            "job_by_idempotency_key",
            workflow_id=job.workflow_id,
            idempotency_key=job.idempotency_key,
        )
        return None if row is None else job_of_row(row)
