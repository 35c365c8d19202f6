"""The embedded store: SQLite through apsw, one writer thread, readers on connections of their own."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar, cast

import apsw
import msgspec
from msgspec import Raw

from windlass.core.changes import Changes, IterationRow, MergeOutputs, NodeRow
from windlass.core.errors import JobNotFound, RequestRefused, StaleLease, StoreUnavailable, WorkflowNotFound
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.loop_state import LoopRows
from windlass.core.messages import TaskFinished
from windlass.ports.clock import Clock
from windlass.ports.handler import LogLine
from windlass.ports.message_codec import decode_message, encode_message
from windlass.ports.store import (
    AliasTarget,
    IterationFilter,
    JobFilter,
    JobPosition,
    JobSnapshot,
    Lease,
    NodeBrief,
    Ownership,
    Request,
    StoredLog,
    StoredResult,
    StoredWorkflow,
    SubmitResult,
    WorkflowFilter,
    no_job,
)
from windlass.stores.migrator import migrate_sqlite
from windlass.stores.queries import queries
from windlass.stores.rows import (
    block_values,
    brief_of,
    decode_page,
    encoded_text,
    event_of,
    event_pages,
    in_flight_of,
    job_of,
    job_query,
    job_row_values,
    loop_of,
    loops_to_restore,
    no_workflow,
    node_of,
    node_values,
    page_values,
    task_of,
    task_values,
    workflow_of,
)
from windlass.stores.sqlite import leases as lease_steps
from windlass.stores.sqlite.bulk_statement import BulkStatement
from windlass.stores.sqlite.connection import Connection, as_dicts, connect, first_dict, grow_log
from windlass.stores.sqlite.overview import SqliteOverview
from windlass.stores.sqlite.runs import SqliteRuns
from windlass.stores.sqlite.submits import Submits
from windlass.stores.sqlite.workflow_cache import WorkflowCache
from windlass.stores.sqlite.writer import SqliteWriter

READERS_MAX = 2
# A commit with so many values of rows at most, some nodes', takes no longer than the flush at its end.
SMALL_VALUES = 100
# Every table that has rows of a job, the job's own last.
PRUNED = (
    "delete_events", "delete_iterations", "delete_call_outputs", "delete_chunks", "delete_nodes", "delete_requests",
    "delete_results", "delete_logs", "delete_deliveries", "delete_jobs",
)  # fmt: skip

_decode_targets = msgspec.json.Decoder(list[AliasTarget]).decode
T = TypeVar("T")


class SqliteStore:
    """The Store contract on one SQLite file."""

    def __init__(
        self,
        path: str,
        writer: SqliteWriter | None,
        connection: Connection | None,
        clock: Clock | None,
        newest: WorkflowCache,
    ) -> None:
        self._path = path
        self._newest = newest
        self._clock = clock
        self._writer = writer
        self._connection = connection
        self._sql = queries("sqlite")
        self._insert_events = BulkStatement(self._sql["insert_events"])
        self._submits = Submits(self._sql)
        self.runs = SqliteRuns(self._sql, self._read, self._write, self._now)
        self.overview = SqliteOverview(self._sql, self._read)
        self._put_nodes = BulkStatement(self._sql["put_nodes"])
        self._put_tasks = BulkStatement(self._sql["put_iterations"])
        self._put_pages = BulkStatement(self._sql["put_call_outputs"])
        self._put_blocks = BulkStatement(self._sql["put_chunks"])
        self._insert_logs = BulkStatement(self._sql["insert_logs"])
        self._update_jobs = BulkStatement(self._sql["update_jobs"])
        self._readers = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="windlass-sqlite-reader")
        self._local = threading.local()
        self._reading: list[Connection] = []

    @classmethod
    async def open(cls, path: str, clock: Clock, *, synchronous: str = "full", alone: bool = False) -> "SqliteStore":
        """Open for writing, making the file and bringing its schema up to date. StoreUnavailable.

        One that is `alone`, the only one that writes to the file, remembers what it read of the newest versions.
        """
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            connection = await asyncio.to_thread(connect, path, synchronous=synchronous)
            await asyncio.to_thread(migrate_sqlite, connection, clock.now())
            await asyncio.to_thread(grow_log, Path(f"{path}-wal"))
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(f"cannot use the database {path}: {error}") from error
        return cls(path, SqliteWriter(connection), connection, clock, WorkflowCache(kept=alone))

    @classmethod
    async def open_reader(cls, path: str) -> "SqliteStore":
        """Open for looking only. StoreUnavailable when there is nothing to look at."""
        if not await asyncio.to_thread(Path(path).exists):
            raise StoreUnavailable(f"there is no database at {path}; run a workflow here first, or name another")
        return cls(path, None, None, None, WorkflowCache(kept=False))

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
            self.runs.deploy(connection, workflow_id, version, definition, now)
            return StoredWorkflow(workflow_id, version, definition, digest, now, is_new=True)

        return await self._change(workflow_id, put)

    async def delete_workflow(self, workflow_id: str, now: int, *, force: bool) -> None:
        def delete(connection: Connection) -> None:
            count = connection.execute(self._sql["unfinished_of_workflow"], (workflow_id,)).fetchone()
            assert count is not None
            if count[0] and not force:
                raise RequestRefused(
                    f"{count[0]} jobs of workflow {workflow_id} are unfinished; wait for them, cancel them, or force it"
                )
            if connection.execute(self._sql["delete_workflow"], (now, workflow_id)).fetchone() is None:
                raise no_workflow(workflow_id)
            self.runs.delete(connection, workflow_id, now)

        await self._change(workflow_id, delete)

    async def _change(self, workflow_id: str, operation: Callable[[Connection], T]) -> T:
        changed = self._required_writer().write(operation)
        changed.add_done_callback(lambda _: self._newest.forget(workflow_id))
        # One who gives up does not stop the change: its end is still to be heard.
        return await asyncio.shield(changed)

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

    async def submit(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        writer = self._required_writer()
        return await self._submits.submit(jobs, lambda together: writer.write(together, undo=False))

    async def request(self, request: Request) -> int:
        def insert(connection: Connection) -> int:
            job = first_dict(connection.execute(self._sql["job"], (request.job_id,)))
            if job is None:
                raise no_job(request.job_id)
            values = (request.request_id, request.job_id, job["shard"], request.kind, request.created_at,
                      request.reason, request.from_node)  # fmt: skip
            connection.execute(self._sql["insert_request"], values)
            return job["shard"]

        return await self._write(insert)

    async def take_lease(self, shard: int, owner: str) -> Lease:
        return await self._write(lambda connection: lease_steps.take(connection, shard, owner))

    async def claim_lease(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        now = self._now()
        return await self._write(lambda connection: lease_steps.claim(connection, shard, owner, ttl_seconds, now))

    async def beat(self, owner: str, leases: Mapping[int, int], ttl_seconds: float) -> Ownership:
        now = self._now()
        return await self._write(lambda connection: lease_steps.beat(connection, owner, leases, ttl_seconds, now))

    async def ownership(self) -> Ownership:
        return await self._read(lambda connection: lease_steps.ownership(connection, self._now()))

    async def leave(self, owner: str) -> None:
        await self._write(lambda connection: connection.execute(self._sql["leave"], (owner,)))

    async def release_lease(self, shard: int, epoch: int) -> None:
        await self._write(lambda connection: connection.execute(self._sql["release_lease"], (shard, epoch)))

    async def epoch(self, shard: int) -> int:
        row = await self._read(lambda connection: connection.execute(self._sql["lease"], (shard,)).fetchone())
        return 0 if row is None else row[0]

    def commit(self, shard: int, epoch: int, changes: Changes) -> "asyncio.Future[None]":
        nodes: list[object] = []
        for row in changes.nodes.values():
            nodes += node_values(row)
        tasks: list[object] = []
        for row in changes.iterations.values():
            tasks += task_values(row)
        pages = [value for row in changes.pages for value in page_values(row)]
        blocks = [value for row in changes.blocks for value in block_values(row)]
        events = event_pages(changes)
        jobs = [value for job_id, state in changes.jobs.items() for value in job_row_values(job_id, state)]
        requests = encoded_text(changes.requests) if changes.requests else None
        results = encoded_text(changes.results) if changes.results else None
        runs = self.runs.prepared(changes.runs)

        def store(connection: Connection) -> None:
            row = connection.execute(self._sql["lease"], (shard,)).fetchone()
            if row is None or row[0] != epoch:
                raise StaleLease(f"shard {shard} has a new owner (epoch {row and row[0]}, not {epoch})")
            if runs is not None:
                runs(connection)
            self._put_nodes(connection.execute, nodes)
            self._put_tasks(connection.execute, tasks)
            self._put_pages(connection.execute, pages)
            self._put_blocks(connection.execute, blocks)
            self._insert_events(connection.execute, events)
            self._update_jobs(connection.execute, jobs)
            if requests is not None:
                connection.execute(self._sql["apply_requests"], (requests,))
            if results is not None:
                connection.execute(self._sql["apply_results"], (results,))

        values = len(nodes) + len(tasks) + len(pages) + len(blocks) + len(events) + len(jobs)
        is_small = runs is None and values <= SMALL_VALUES
        # The only refusal comes before anything is written.
        return self._required_writer().write(store, undo=False, small=is_small)

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        def delete(connection: Connection) -> list[str]:
            ids = [row[0] for row in connection.execute(self._sql["ended_jobs"], (finished_before, limit))]
            if ids:
                for name in PRUNED:
                    connection.execute(self._sql[name], (encoded_text(ids),))
            self.runs.prune(connection, finished_before, limit)
            return ids

        return await self._write(delete)

    # Reading

    async def workflow(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        if version is None and (newest := self._newest.get(workflow_id)) is not None:
            return newest
        changes = self._newest.changes
        name, values = ("live_workflow", (workflow_id,))
        if version is not None:
            name, values = ("workflow_version", (workflow_id, version))
        row = await self._read(lambda connection: connection.execute(self._sql[name], values).fetchone())
        if row is None:
            raise no_workflow(workflow_id if version is None else f"{workflow_id} version {version}")
        found = workflow_of(row)
        if version is None:
            self._newest.keep(found, changes)
        return found

    async def workflows(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        sql, values = self._sql["workflows_by_id"], (wanted.after or "", wanted.limit)
        return await self._read(lambda connection: [workflow_of(row) for row in connection.execute(sql, values)])

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        sql, values = self._sql["versions_of_workflow"], (workflow_id,)
        found = await self._read(lambda connection: [workflow_of(row) for row in connection.execute(sql, values)])
        if not found:
            raise no_workflow(workflow_id)
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

    async def logs(self, job_id: str, node_id: str | None = None, attempt: int | None = None, after: int = 0,
                   limit: int = 1000, index: int | None = None) -> Sequence[StoredLog]:  # fmt: skip
        values = {
            "job_id": job_id, "node_id": node_id, "attempt": attempt, "after": after, "limit": limit, "index": index,
        }  # fmt: skip
        rows = await self._read(lambda connection: list(connection.execute(self._sql["logs_of_job"], values)))
        return [StoredLog(log_id, LogLine(*line)) for *line, log_id in rows]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return await self._read(
            lambda connection: [row[0] for row in connection.execute(self._sql["unfinished_jobs"], (shard,))]
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
            # One transaction: the job's row and its nodes' rows must tell of the same moment.
            connection.execute("begin")
            try:
                row = first_dict(connection.execute(self._sql["job"], (job_id,)))
                if row is None:
                    raise no_job(job_id)
                nodes = [node_of(r) for r in connection.execute(self._sql["nodes_of_job"], (job_id,))]
                newest = connection.execute(self._sql["in_flight_of_job"], (job_id,)).fetchone()
                found = loops_to_restore(nodes) if with_loops else ()
                loops = [self._loop(connection, job_id, *at) for at in found]
                return JobSnapshot(job_of(row), nodes, loops, in_flight_of(newest[0] if newest else None))
            finally:
                connection.execute("rollback")

        return await self._read(read)

    def _loop(self, connection: Connection, job_id: str, number: int, generation: int) -> LoopRows:
        key = (job_id, number, generation)
        blocks = list(connection.execute(self._sql["chunks_of_loop"], key))
        return loop_of(number, generation, blocks, connection.execute(self._sql["iterations_to_restore"], key))

    async def iteration_outputs(self, wanted: MergeOutputs, start: int, stop: int) -> Sequence[Raw | None]:
        values = (wanted.job_id, wanted.number, wanted.generation, start, stop)
        rows = await self._read(lambda connection: list(connection.execute(self._sql["outputs_of_loop"], values)))
        outputs: list[Raw | None] = [None] * (stop - start)
        for index, output in rows:
            outputs[index - start] = Raw(output.encode())
        return outputs

    async def page_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        values = (wanted.job_id, wanted.number, wanted.generation, wanted.index, wanted.count)
        rows = await self._read(lambda connection: list(connection.execute(self._sql["outputs_of_calls"], values)))
        return [Raw(output.encode()) for (output,) in rows]

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        values = msgspec.structs.asdict(wanted)
        rows = await self._read(lambda connection: list(connection.execute(self._sql["iterations_of_loop"], values)))
        return [task_of(row) for row in rows]

    async def iteration_counts(self, job_id: str, number: int, generation: int) -> Mapping[str, int]:
        sql, values = self._sql["count_iterations"], (job_id, number, generation)
        return dict(await self._read(lambda connection: list(connection.execute(sql, values))))

    async def unrecorded(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        values = {**msgspec.structs.asdict(wanted), "begun": begun}
        gaps = await self._read(lambda connection: list(connection.execute(self._sql["gaps_of_loop"], values)))
        return list(islice(chain.from_iterable(range(*gap) for gap in gaps), wanted.limit))

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        values = (shard, created_before, limit)
        return await self._read(
            lambda connection: [row[0] for row in connection.execute(self._sql["pending_jobs"], values)]
        )

    async def job_positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        sql, values = self._sql["job_positions"], (encoded_text(job_ids),)
        return await self._read(lambda connection: [JobPosition(*row) for row in connection.execute(sql, values)])

    async def unapplied(self, request_ids: Sequence[str]) -> Sequence[str]:
        sql, wanted = self._sql["unapplied_requests"], encoded_text(request_ids)
        return await self._read(
            lambda connection: (
                [row[0] for row in connection.execute(sql, (wanted,))] + self.runs.unapplied(connection, wanted)
            )
        )

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        sql, values = self._sql["waiting_requests"], (shard, limit)
        return await self._read(lambda connection: [Request(*row) for row in connection.execute(sql, values)])

    async def job(self, job_id: str) -> JobRecord:
        row = await self._read(lambda connection: first_dict(connection.execute(self._sql["job"], (job_id,))))
        if row is None:
            raise no_job(job_id)
        return job_of(row)

    async def jobs(self, wanted: JobFilter) -> Sequence[JobRecord]:
        name, values = job_query(wanted)
        return await self._read(
            lambda connection: [job_of(row) for row in as_dicts(connection.execute(self._sql[name], values))]
        )

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        name, values = ("all_nodes_of_job", (job_id,)) if node_id is None else ("node_of_job", (job_id, node_id))
        sql = self._sql[name]
        return await self._read(lambda connection: [node_of(row) for row in connection.execute(sql, values)])

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        sql, values = self._sql["nodes_by_number"], (job_id, first, first + limit)
        return await self._read(lambda connection: [node_of(row) for row in connection.execute(sql, values)])

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        sql, values = self._sql["node_briefs"], (job_id, encoded_text(numbers))
        return await self._read(lambda connection: [brief_of(row) for row in connection.execute(sql, values)])

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        def read(connection: Connection) -> list[Event]:
            found: list[Event] = []
            # A page holds at least one event that is wanted, so `limit` pages are always enough.
            for body, _ in connection.execute(self._sql["events_of_job"], (job_id, after_seq, limit)):
                found.extend(event_of(event) for event in decode_page(body) if event.seq > after_seq)
                if len(found) >= limit:
                    break
            return found[:limit]

        return await self._read(read)

    # Threads

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock.now()

    async def _write(self, operation: Callable[[Connection], T]) -> T:
        return await self._required_writer().write(operation)

    def _required_writer(self) -> SqliteWriter:
        if self._writer is None:
            raise StoreUnavailable(f"the database {self._path} was opened for reading only")
        return self._writer

    async def _read(self, operation: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._with_reader, operation)

    def _with_reader(self, operation: Callable[[Connection], T]) -> T:
        try:
            connection: Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = connect(self._path, read_only=True)
                self._reading.append(connection)
            return operation(connection)
        except apsw.SQLError as error:
            hint = "if an earlier version made it, `windlass db migrate` brings it up to date"
            raise StoreUnavailable(f"cannot read the database {self._path}: {error}; {hint}") from error
        except apsw.Error as error:
            raise StoreUnavailable(f"cannot read the database {self._path}: {error}") from error
