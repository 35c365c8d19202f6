"""Submits on their way into SQLite: those that wait for the writer at the same time are stored as one."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from windlass.core.jobs import JobRecord, JobSpec
from windlass.ports.store.jobs import SubmitResult
from windlass.stores.columns import JOB_SPEC, job_of_row
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements

# Jobs that one operation of the writer stores at most; one submit may bring more.
TOGETHER_MAX = 1_000


class _Together:
    """Submits of one transaction. More may join until the writer begins with them, on its thread."""

    def __init__(self, insert: "Callable[[Connection, Sequence[JobSpec]], list[SubmitResult]]") -> None:
        self._insert = insert
        self._jobs: list[JobSpec] = []
        self._lock = threading.Lock()
        self._is_full = False

    def join(self, jobs: Sequence[JobSpec]) -> int | None:
        """Where the answers of these jobs will begin; None when it is too late to join."""
        with self._lock:
            start = len(self._jobs)
            if self._is_full:
                return None
            self._jobs.extend(jobs)
            self._is_full = len(self._jobs) >= TOGETHER_MAX
            return start

    def __call__(self, connection: Connection) -> list[SubmitResult]:
        with self._lock:
            self._is_full = True
        return self._insert(connection, self._jobs)


class Submits:
    """Stores new jobs."""

    def __init__(self, database: SqliteStatements) -> None:
        self._database = database
        self._insert_jobs = database.bulk("job_insert")
        self._together: _Together | None = None
        self._stored: asyncio.Future[list[SubmitResult]] | None = None

    async def submit(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        """Store jobs together with others that wait already, and return an answer for each, in order."""
        start = None if self._together is None else self._together.join(jobs)
        if start is None or self._stored is None:
            self._together, start = _Together(self._insert), 0
            self._together.join(jobs)
            self._stored = self._database.writer.write(self._together, undo=False)
        # A canceled caller must not cancel the write of the others.
        answers = await asyncio.shield(self._stored)
        return answers[start : start + len(jobs)]

    def _insert(self, connection: Connection, jobs: Sequence[JobSpec]) -> list[SubmitResult]:
        answers: list[SubmitResult] = []
        made: dict[tuple[str, str], JobRecord] = {}
        fresh: list[JobSpec] = []
        for job in jobs:
            known = self._known(connection, job, made)
            if known is not None:
                answers.append(
                    SubmitResult(known, created=False, conflict=known.spec.request_digest != job.request_digest)
                )
                continue
            stored = JobRecord(job)
            if job.idempotency_key is not None:
                made[job.workflow_id, job.idempotency_key] = stored
            fresh.append(job)
            answers.append(SubmitResult(stored))
        if fresh:
            self._insert_jobs(connection.execute, [value for job in fresh for value in JOB_SPEC.values(job)])
        return answers

    def _known(self, connection: Connection, job: JobSpec, made: dict[tuple[str, str], JobRecord]) -> JobRecord | None:
        if job.idempotency_key is None:
            return None
        key = (job.workflow_id, job.idempotency_key)
        if key in made:
            return made[key]
        row = self._database.execute_first(
            connection,
            "job_by_idempotency_key",
            workflow_id=job.workflow_id,
            idempotency_key=job.idempotency_key,
        )
        return None if row is None else job_of_row(row)
