"""The embedded store: SQLite through apsw, one writer thread, readers on connections of their own."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, cast

import apsw
import msgspec
from msgspec import Raw

from windlass.core.changes import Changes, Event, NodeRow
from windlass.core.errors import RequestRefused, StaleLease, StoreUnavailable, WorkflowNotFound
from windlass.core.messages import TaskFinished
from windlass.ports.clock import Clock
from windlass.ports.codec import decode_message, encode_message
from windlass.ports.handler import LogLine
from windlass.ports.store import (
    AliasTarget,
    JobFilter,
    Lease,
    NewJob,
    Request,
    StoredJob,
    StoredLog,
    StoredResult,
    StoredWorkflow,
    Submission,
    WorkflowFilter,
)
from windlass.stores.connection import CHECKPOINT_PAGES, Connection, connect
from windlass.stores.migrate import migrate_sqlite
from windlass.stores.queries import queries
from windlass.stores.spread import Spread
from windlass.stores.sqlite_rows import (
    as_dicts,
    decode_page,
    encoded_text,
    event_of,
    event_pages,
    first_dict,
    first_page,
    job_of,
    job_row_values,
    job_values,
    no_job,
    node_of,
    node_values,
    pending_job,
    workflow_of,
)
from windlass.stores.sqlite_writer import SqliteWriter

READERS_MAX = 2
# Every table that has rows of a job, the job's own last.
PRUNED = ("delete_events", "delete_nodes", "delete_requests", "delete_results", "delete_logs", "delete_jobs")
_LOG_FRAME_BYTES = 4_120

_decode_targets = msgspec.json.Decoder(list[AliasTarget]).decode
T = TypeVar("T")


def _grow_log(log: Path) -> None:
    """Fill the write-ahead log up with zeros, which SQLite reads as its end, like the remains of an older log."""
    with log.open("r+b") as file:
        missing = CHECKPOINT_PAGES * _LOG_FRAME_BYTES - file.seek(0, os.SEEK_END)
        if missing > 0:
            file.write(bytes(missing))
            file.flush()
            os.fsync(file.fileno())


class SqliteStore:
    """The Store contract on one SQLite file."""

    def __init__(self, path: str, writer: SqliteWriter | None, connection: Connection | None) -> None:
        self._path = path
        self._writer = writer
        self._connection = connection
        self._sql = queries("sqlite")
        self._insert_jobs = Spread(self._sql["insert_jobs"])
        self._insert_events = Spread(self._sql["insert_events"])
        self._put_nodes = Spread(self._sql["put_nodes"])
        self._insert_logs = Spread(self._sql["insert_logs"])
        self._update_jobs = Spread(self._sql["update_jobs"])
        self._readers = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="windlass-sqlite-reader")
        self._local = threading.local()
        self._reading: list[Connection] = []

    @classmethod
    async def open(cls, path: str, clock: Clock, *, synchronous: str = "full") -> "SqliteStore":
        """Open for writing, making the file and bringing its schema up to date. StoreUnavailable."""
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            connection = await asyncio.to_thread(connect, path, synchronous=synchronous)
            await asyncio.to_thread(migrate_sqlite, connection, clock.now())
            await asyncio.to_thread(_grow_log, Path(f"{path}-wal"))
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(f"can not use the database {path}: {error}") from error
        return cls(path, SqliteWriter(connection), connection)

    @classmethod
    async def open_reader(cls, path: str) -> "SqliteStore":
        """Open for looking only. StoreUnavailable when there is nothing to look at."""
        if not await asyncio.to_thread(Path(path).exists):
            raise StoreUnavailable(f"there is no database at {path}; run a workflow here first, or name another")
        return cls(path, None, None)

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._reading:
            connection.close()
        if self._connection is not None:
            self._connection.close()

    # Writing

    async def put_workflow(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        def put(connection: Connection) -> StoredWorkflow:
            newest = connection.execute(self._sql["newest_workflow"], (workflow_id,)).fetchone()
            deleted = connection.execute(self._sql["is_deleted"], (workflow_id,)).fetchone() is not None
            if newest is not None and newest[3] == digest and not deleted:
                return workflow_of(newest)
            version = 1 if newest is None else int(newest[1]) + 1
            text = bytes(definition).decode()
            connection.execute(self._sql["insert_workflow"], (workflow_id, version, digest, text, now))
            return StoredWorkflow(workflow_id, version, definition, digest, now, is_new=True)

        return await self._write(put)

    async def delete_workflow(self, workflow_id: str, now: int, *, force: bool) -> None:
        def delete(connection: Connection) -> None:
            count = connection.execute(self._sql["unfinished_of_workflow"], (workflow_id,)).fetchone()
            assert count is not None
            if count[0] and not force:
                raise RequestRefused(
                    f"{count[0]} jobs of workflow {workflow_id} are unfinished; wait for them, cancel them, or force it"
                )
            if connection.execute(self._sql["delete_workflow"], (now, workflow_id)).fetchone() is None:
                raise _no_workflow(workflow_id)

        await self._write(delete)

    async def put_alias(self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int) -> None:
        def put(connection: Connection) -> None:
            if not targets:
                connection.execute(self._sql["delete_alias"], (workflow_id, alias))
                return
            wanted = sorted({target.version for target in targets})
            found = connection.execute(self._sql["count_versions"], (workflow_id, encoded_text(wanted))).fetchone()
            if found is None or found[0] != len(wanted):
                raise WorkflowNotFound(f"workflow {workflow_id} has not all of the versions {wanted}")
            connection.execute(self._sql["put_alias"], (workflow_id, alias, encoded_text(targets), now))

        await self._write(put)

    async def put_result(self, result: StoredResult) -> bool:
        def insert(connection: Connection) -> bool:
            message = encode_message(result.message).decode()
            values = (result.task_id, result.message.job_id, result.shard, message, result.created_at)
            return connection.execute(self._sql["insert_result"], values).fetchone() is not None

        return await self._write(insert)

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        values = [
            value
            for one in lines
            for value in (one.job_id, one.node_id, one.index, one.attempt, one.at, one.level, one.message)
        ]
        await self._write(lambda connection: self._insert_logs(connection.execute, values))

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Submission]:
        def insert(connection: Connection) -> list[Submission]:
            answers: list[Submission] = []
            made: dict[tuple[str, str], StoredJob] = {}
            fresh: list[NewJob] = []
            for job in jobs:
                known = self._known(connection, job, made)
                if known is not None:
                    answers.append(Submission(known, created=False, conflict=known.body_digest != job.body_digest))
                    continue
                stored = pending_job(job)
                if job.idempotency_key is not None:
                    made[job.workflow_id, job.idempotency_key] = stored
                fresh.append(job)
                answers.append(Submission(stored))
            if fresh:
                self._insert_jobs(connection.execute, [value for job in fresh for value in job_values(job)])
                self._insert_events(connection.execute, [value for job in fresh for value in first_page(job)])
            return answers

        return await self._write(insert)

    def _known(self, connection: Connection, job: NewJob, made: dict[tuple[str, str], StoredJob]) -> StoredJob | None:
        if job.idempotency_key is None:
            return None
        key = (job.workflow_id, job.idempotency_key)
        if key in made:
            return made[key]
        row = first_dict(connection.execute(self._sql["job_by_idempotency_key"], key))
        return None if row is None else job_of(row)

    async def request(self, request: Request) -> None:
        def insert(connection: Connection) -> None:
            job = first_dict(connection.execute(self._sql["job"], (request.job_id,)))
            if job is None:
                raise no_job(request.job_id)
            values = (request.request_id, request.job_id, job["shard"], request.kind, request.created_at,
                      request.reason, request.from_node)  # fmt: skip
            connection.execute(self._sql["insert_request"], values)

        await self._write(insert)

    async def take_lease(self, shard: int, owner: str) -> Lease:
        def take(connection: Connection) -> Lease:
            before = connection.execute(self._sql["lease"], (shard,)).fetchone()
            taken = connection.execute(self._sql["take_lease"], (shard, owner)).fetchone()
            assert taken is not None
            return Lease(taken[0], abandoned=before is not None and before[1] is not None)

        return await self._write(take)

    async def release_lease(self, shard: int, epoch: int) -> None:
        def release(connection: Connection) -> None:
            connection.execute(self._sql["release_lease"], (shard, epoch))

        await self._write(release)

    async def epoch(self, shard: int) -> int:
        row = await self._read(lambda connection: connection.execute(self._sql["lease"], (shard,)).fetchone())
        return 0 if row is None else row[0]

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        nodes: list[object] = []
        for row in changes.nodes.values():
            nodes += node_values(row)
        events = event_pages(changes)
        jobs = [value for row in changes.jobs.values() for value in job_row_values(row)]
        requests = encoded_text(changes.requests) if changes.requests else None
        results = encoded_text(changes.results) if changes.results else None

        def store(connection: Connection) -> None:
            row = connection.execute(self._sql["lease"], (shard,)).fetchone()
            if row is None or row[0] != epoch:
                raise StaleLease(f"shard {shard} has a new owner (epoch {row and row[0]}, not {epoch})")
            self._put_nodes(connection.execute, nodes)
            self._insert_events(connection.execute, events)
            self._update_jobs(connection.execute, jobs)
            if requests is not None:
                connection.execute(self._sql["apply_requests"], (requests,))
            if results is not None:
                connection.execute(self._sql["apply_results"], (results,))

        await self._write(store)

    async def prune(self, finished_before: int, limit: int) -> int:
        def delete(connection: Connection) -> int:
            ids = [row[0] for row in connection.execute(self._sql["ended_jobs"], (finished_before, limit))]
            if ids:
                for name in PRUNED:
                    connection.execute(self._sql[name], (encoded_text(ids),))
            return len(ids)

        return await self._write(delete)

    # Reading

    async def workflow(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        name, values = ("live_workflow", (workflow_id,))
        if version is not None:
            name, values = ("workflow_version", (workflow_id, version))
        row = await self._read(lambda connection: connection.execute(self._sql[name], values).fetchone())
        if row is None:
            raise _no_workflow(workflow_id if version is None else f"{workflow_id} version {version}")
        return workflow_of(row)

    async def workflows(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        values = (wanted.after or "", wanted.limit)
        return await self._read(
            lambda connection: [workflow_of(row) for row in connection.execute(self._sql["workflows_by_id"], values)]
        )

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        sql = self._sql["versions_of_workflow"]
        found = await self._read(
            lambda connection: [workflow_of(row) for row in connection.execute(sql, (workflow_id,))]
        )
        if not found:
            raise _no_workflow(workflow_id)
        return found

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        sql = self._sql["aliases_of_workflow"]
        rows = await self._read(lambda connection: list(connection.execute(sql, (workflow_id,))))
        return {alias: _decode_targets(targets) for alias, targets in rows}

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        sql = self._sql["waiting_results"]
        rows = await self._read(lambda connection: list(connection.execute(sql, (shard, limit))))
        return [
            StoredResult(task_id, at, cast("TaskFinished", decode_message(message)), made)
            for task_id, at, message, made in rows
        ]

    async def logs(
        self, job_id: str, node_id: str | None = None, attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> Sequence[StoredLog]:
        values = {"job_id": job_id, "node_id": node_id, "attempt": attempt, "after": after, "limit": limit}
        rows = await self._read(lambda connection: list(connection.execute(self._sql["logs_of_job"], values)))
        return [StoredLog(log_id, LogLine(*line)) for *line, log_id in rows]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return await self._read(
            lambda connection: [row[0] for row in connection.execute(self._sql["unfinished_jobs"], (shard,))]
        )

    async def restore(self, job_id: str) -> tuple[StoredJob, Sequence[NodeRow]]:
        def read(connection: Connection) -> tuple[StoredJob, list[NodeRow]]:
            # One transaction: the job's row and its nodes' rows must tell of the same moment.
            connection.execute("begin")
            try:
                row = first_dict(connection.execute(self._sql["job"], (job_id,)))
                if row is None:
                    raise no_job(job_id)
                return job_of(row), [node_of(r) for r in connection.execute(self._sql["nodes_of_job"], (job_id,))]
            finally:
                connection.execute("rollback")

        return await self._read(read)

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        values = (shard, created_before, limit)
        return await self._read(
            lambda connection: [row[0] for row in connection.execute(self._sql["pending_jobs"], values)]
        )

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        return await self._read(
            lambda connection: [
                Request(*row) for row in connection.execute(self._sql["waiting_requests"], (shard, limit))
            ]
        )

    async def job(self, job_id: str) -> StoredJob:
        row = await self._read(lambda connection: first_dict(connection.execute(self._sql["job"], (job_id,))))
        if row is None:
            raise no_job(job_id)
        return job_of(row)

    async def jobs(self, wanted: JobFilter) -> Sequence[StoredJob]:
        before_at, before_id = wanted.before or (None, None)
        values = {
            "workflow_id": wanted.workflow_id,
            "status": wanted.status,
            "before_at": before_at,
            "before_id": before_id,
            "limit": wanted.limit,
        }
        return await self._read(
            lambda connection: [job_of(row) for row in as_dicts(connection.execute(self._sql["jobs_newest"], values))]
        )

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        name, values = ("nodes_of_job", (job_id,)) if node_id is None else ("node_of_job", (job_id, node_id))
        return await self._read(
            lambda connection: [node_of(row) for row in connection.execute(self._sql[name], values)]
        )

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        def read(connection: Connection) -> list[Event]:
            found: list[Event] = []
            # A page holds at least one event that is wanted, so `limit` pages are always enough.
            for (body,) in connection.execute(self._sql["events_of_job"], (job_id, after_seq, limit)):
                found.extend(event_of(event) for event in decode_page(body) if event.seq > after_seq)
                if len(found) >= limit:
                    break
            return found[:limit]

        return await self._read(read)

    # Threads

    async def _write(self, operation: Callable[[Connection], T]) -> T:
        if self._writer is None:
            raise StoreUnavailable(f"the database {self._path} was opened for reading only")
        return await self._writer.write(operation)

    async def _read(self, operation: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._with_reader, operation)

    def _with_reader(self, operation: Callable[[Connection], T]) -> T:
        try:
            connection: Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = connect(self._path, read_only=True)
                self._reading.append(connection)
            return operation(connection)
        except apsw.Error as error:
            raise StoreUnavailable(f"can not read the database {self._path}: {error}") from error


def _no_workflow(which: str) -> WorkflowNotFound:
    return WorkflowNotFound(f"there is no workflow {which}; deploy it first")
