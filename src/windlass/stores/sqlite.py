"""The embedded store: SQLite through apsw, one writer thread, readers on connections of their own."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.changes import Changes, Event, NodeRow
from windlass.core.errors import JobNotFound, StaleLease, StoreUnavailable, WorkflowNotFound
from windlass.ports.clock import Clock
from windlass.ports.store import JobFilter, Lease, NewJob, Request, StoredJob, StoredWorkflow, Submission
from windlass.stores.connection import CHECKPOINT_PAGES, Connection, Rows, connect
from windlass.stores.migrate import migrate_sqlite
from windlass.stores.queries import queries
from windlass.stores.spread import Spread
from windlass.stores.sqlite_writer import SqliteWriter

# Events of one page at most: what a reader decodes to see one of them.
PAGE_EVENTS_MAX = 500
READERS_MAX = 2
_LOG_FRAME_BYTES = 4_120

_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


def _grow_log(log: Path) -> None:
    """Fill the write-ahead log up with zeros, which SQLite reads as its end, like the remains of an older log."""
    with log.open("r+b") as file:
        missing = CHECKPOINT_PAGES * _LOG_FRAME_BYTES - file.seek(0, os.SEEK_END)
        if missing > 0:
            file.write(bytes(missing))
            file.flush()
            os.fsync(file.fileno())


class _PageEvent(Struct, array_like=True):
    """An event as it lies in a page: every JSON value is there, if only as null."""

    seq: int
    type: str
    node_id: str | None
    index: int | None
    at: int
    data: Raw
    meta: Raw
    context: Raw
    parent_seq: int | None


_decode_page = msgspec.json.Decoder(list[_PageEvent]).decode


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
            if newest is not None and newest[3] == digest:
                return _workflow(newest)
            version = 1 if newest is None else int(newest[1]) + 1
            text = bytes(definition).decode()
            connection.execute(self._sql["insert_workflow"], (workflow_id, version, digest, text, now))
            return StoredWorkflow(workflow_id, version, definition, digest, now)

        return await self._write(put)

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
                stored = _pending(job)
                if job.idempotency_key is not None:
                    made[job.workflow_id, job.idempotency_key] = stored
                fresh.append(job)
                answers.append(Submission(stored))
            if fresh:
                self._insert_jobs(connection.execute, [value for job in fresh for value in _job_values(job)])
                self._insert_events(connection.execute, [value for job in fresh for value in _first_page(job)])
            return answers

        return await self._write(insert)

    def _known(self, connection: Connection, job: NewJob, made: dict[tuple[str, str], StoredJob]) -> StoredJob | None:
        if job.idempotency_key is None:
            return None
        key = (job.workflow_id, job.idempotency_key)
        if key in made:
            return made[key]
        row = _row(connection.execute(self._sql["job_by_idempotency_key"], key))
        return None if row is None else _job(row)

    async def request(self, request: Request) -> None:
        def insert(connection: Connection) -> None:
            job = _row(connection.execute(self._sql["job"], (request.job_id,)))
            if job is None:
                raise _no_job(request.job_id)
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

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        nodes = [value for row in changes.nodes.values() for value in _node_values(row)]
        events = _pages(changes)
        jobs = _text(list(changes.jobs.values())) if changes.jobs else None
        requests = _text(changes.requests) if changes.requests else None

        def store(connection: Connection) -> None:
            row = connection.execute(self._sql["lease"], (shard,)).fetchone()
            if row is None or row[0] != epoch:
                raise StaleLease(f"shard {shard} has a new owner (epoch {row and row[0]}, not {epoch})")
            self._put_nodes(connection.execute, nodes)
            self._insert_events(connection.execute, events)
            if jobs is not None:
                connection.execute(self._sql["update_jobs"], (jobs,))
            if requests is not None:
                connection.execute(self._sql["apply_requests"], (requests,))

        await self._write(store)

    async def prune(self, finished_before: int, limit: int) -> int:
        def delete(connection: Connection) -> int:
            ids = [row[0] for row in connection.execute(self._sql["ended_jobs"], (finished_before, limit))]
            if ids:
                for name in ("delete_events", "delete_nodes", "delete_requests", "delete_jobs"):
                    connection.execute(self._sql[name], (_text(ids),))
            return len(ids)

        return await self._write(delete)

    # Reading

    async def workflow(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        name, values = ("newest_workflow", (workflow_id,))
        if version is not None:
            name, values = ("workflow_version", (workflow_id, version))
        row = await self._read(lambda connection: connection.execute(self._sql[name], values).fetchone())
        if row is None:
            which = workflow_id if version is None else f"{workflow_id} version {version}"
            raise WorkflowNotFound(f"there is no workflow {which}; deploy it first")
        return _workflow(row)

    async def unfinished(self, shard: int) -> Sequence[str]:
        return await self._read(
            lambda connection: [row[0] for row in connection.execute(self._sql["unfinished_jobs"], (shard,))]
        )

    async def restore(self, job_id: str) -> tuple[StoredJob, Sequence[NodeRow]]:
        def read(connection: Connection) -> tuple[StoredJob, list[NodeRow]]:
            # One transaction: the job's row and its nodes' rows must tell of the same moment.
            connection.execute("begin")
            try:
                row = _row(connection.execute(self._sql["job"], (job_id,)))
                if row is None:
                    raise _no_job(job_id)
                return _job(row), [_node(r) for r in connection.execute(self._sql["nodes_of_job"], (job_id,))]
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
        row = await self._read(lambda connection: _row(connection.execute(self._sql["job"], (job_id,))))
        if row is None:
            raise _no_job(job_id)
        return _job(row)

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
            lambda connection: [_job(row) for row in _rows(connection.execute(self._sql["jobs_newest"], values))]
        )

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        name, values = ("nodes_of_job", (job_id,)) if node_id is None else ("node_of_job", (job_id, node_id))
        return await self._read(lambda connection: [_node(row) for row in connection.execute(self._sql[name], values)])

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        def read(connection: Connection) -> list[Event]:
            found: list[Event] = []
            # A page holds at least one event that is wanted, so `limit` pages are always enough.
            for (body,) in connection.execute(self._sql["events_of_job"], (job_id, after_seq, limit)):
                found.extend(_event(event) for event in _decode_page(body) if event.seq > after_seq)
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


def _text(value: Any) -> str:
    return _encode(value).decode()


def _pages(changes: Changes) -> list[Any]:
    values: list[Any] = []
    for job_id, events in changes.events.items():
        for start in range(0, len(events), PAGE_EVENTS_MAX):
            page = events if len(events) <= PAGE_EVENTS_MAX else events[start : start + PAGE_EVENTS_MAX]
            values += (job_id, page[0].seq, page[-1].seq, _text(page))
    return values


def _first_page(job: NewJob) -> tuple[Any, ...]:
    data = Raw(_encode({"workflow_id": job.workflow_id, "version": job.version}))
    return (job.job_id, 1, 1, _text([Event(1, "job_created", None, None, job.created_at, data)]))


def _job_values(job: NewJob) -> tuple[Any, ...]:
    return (
        job.job_id, job.workflow_id, job.version, str(job.input, "utf-8"), job.created_at, job.shard, job.priority,
        job.idempotency_key, job.body_digest,
    )  # fmt: skip


def _node_values(row: NodeRow) -> tuple[Any, ...]:
    *plain, output, error, meta = structs.astuple(row)
    return (
        *plain,
        None if output is None else str(output, "utf-8"),
        None if error is None else str(error, "utf-8"),
        None if meta is None else str(meta, "utf-8"),
    )


def _pending(job: NewJob) -> StoredJob:
    return StoredJob(
        job_id=job.job_id, workflow_id=job.workflow_id, version=job.version, shard=job.shard, status="pending",
        input=job.input, seq=1, round=0, priority=job.priority, created_at=job.created_at, started_at=None,
        completed_at=None, deadline_at=None, error=None, idempotency_key=job.idempotency_key,
        body_digest=job.body_digest,
    )  # fmt: skip


def _rows(cursor: Rows) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    names: list[str] = []
    for values in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        found.append(dict(zip(names, values, strict=True)))
    return found


def _row(cursor: Rows) -> dict[str, Any] | None:
    rows = _rows(cursor)
    return rows[0] if rows else None


def _job(row: dict[str, Any]) -> StoredJob:
    row = {"seq": 1, **row, "input": _raw(row["input"]), "error": _raw(row["error"])}
    return StoredJob(**row)


def _node(row: tuple[Any, ...]) -> NodeRow:
    *plain, output, error, meta = row
    return NodeRow(*plain, output=_raw(output), error=_raw(error), meta=_raw(meta))


def _event(event: _PageEvent) -> Event:
    data, meta, context = (None if bytes(raw) == b"null" else raw for raw in (event.data, event.meta, event.context))
    return Event(
        event.seq, event.type, event.node_id, event.index, event.at, data, meta, context, event.parent_seq
    )  # fmt: skip


def _workflow(row: tuple[Any, ...]) -> StoredWorkflow:
    return StoredWorkflow(row[0], row[1], Raw(row[2].encode()), row[3], row[4])


def _raw(text: str | None) -> Any:
    return None if text is None else Raw(text.encode())


def _no_job(job_id: str) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}; `windlass jobs list` shows the jobs of this database")
