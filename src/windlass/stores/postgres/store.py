"""The store on PostgreSQL: any number of engines and servers share it. One round trip a commit."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.core.changes import Changes, IterationRow, MergeOutputs, NodeRow
from windlass.core.errors import (
    CommitUnknown,
    RequestRefused,
    WindlassError,
    WorkflowNotFound,
)
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
    LeaseRow,
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
from windlass.stores.migrator import migrate_postgres
from windlass.stores.postgres.batched_query import BatchedQuery
from windlass.stores.postgres.commits import Commits
from windlass.stores.postgres.overview import PostgresOverview
from windlass.stores.postgres.pool import STATEMENT_SECONDS, PostgresPool, Session, connect
from windlass.stores.postgres.rows import log_columns, loop_of_rows, restored_of, storable, submit_columns
from windlass.stores.postgres.runs import PostgresRuns
from windlass.stores.queries import queries
from windlass.stores.rows import (
    brief_of,
    decode_page,
    encoded_text,
    event_of,
    job_of,
    job_query,
    loops_to_restore,
    no_workflow,
    node_of,
    task_of,
    workflow_of,
)

# Known keys are looked for in a second query, by which time their jobs may have been removed.
SUBMIT_ATTEMPTS = 3

_decode_targets = msgspec.json.Decoder(list[AliasTarget]).decode


async def migrate(url: str, now: int) -> int:
    """Bring a database's schema up to date; how many steps it took. StoreUnavailable."""
    session = await connect(url)
    try:
        return await migrate_postgres(session, now)
    finally:
        await session.close()


class PostgresStore:
    """The Store contract on one PostgreSQL database, by its primary only."""

    def __init__(self, pool: PostgresPool) -> None:
        self._pool = pool
        self._sql = queries("postgres")
        self._commits = Commits(pool, self._sql["commit"], self._sql["commit_with_runs"])
        self._epochs, self._pending, self._requests, self._results = (
            BatchedQuery(pool, self._sql[name])
            for name in ("lease", "pending_jobs", "waiting_requests", "waiting_results")
        )
        self.runs = PostgresRuns(pool, self._sql)
        self.overview = PostgresOverview(pool, self._sql)

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Clock,
        *,
        connections_max: int,
        statement_seconds: float = STATEMENT_SECONDS,
    ) -> "PostgresStore":
        """Connect, bringing the schema up to date. StoreUnavailable."""
        await migrate(url, clock.now())
        pool = await PostgresPool.open(url, connections_max=connections_max, statement_seconds=statement_seconds)
        return cls(pool)

    async def close(self) -> None:
        await self._commits.settle()
        await self._pool.close()

    # Writing

    async def put_workflow(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        async def put(session: Session) -> StoredWorkflow:
            async with session.transaction():
                await session.execute(self._sql["lock_workflow"], workflow_id)
                newest = await session.fetchrow(self._sql["newest_workflow"], workflow_id)
                deleted = await session.fetchval(self._sql["is_deleted"], workflow_id)
                if newest is not None and newest["digest"] == digest and not deleted:
                    return workflow_of(newest)
                version = 1 if newest is None else newest["version"] + 1
                text = bytes(definition).decode()
                await session.execute(self._sql["insert_workflow"], workflow_id, version, digest, text, now)
                await self.runs.deploy(session, workflow_id, version, definition, now)
                return StoredWorkflow(workflow_id, version, definition, digest, now, is_new=True)

        return await self._pool.change(put)

    async def delete_workflow(self, workflow_id: str, now: int, *, force: bool) -> None:
        async def delete(session: Session) -> WindlassError | None:
            async with session.transaction():
                await session.execute(self._sql["lock_workflow"], workflow_id)
                count = await session.fetchval(self._sql["unfinished_of_workflow"], workflow_id)
                if count and not force:
                    left = f"{count} jobs of workflow {workflow_id} are unfinished"
                    return RequestRefused(f"{left}; wait for them, cancel them, or force it")
                gone = await session.fetch(self._sql["delete_workflow"], now, workflow_id)
                await self.runs.delete(session, workflow_id, now)
                return None if gone else no_workflow(workflow_id)

        if (refusal := await self._pool.change(delete)) is not None:
            raise refusal

    async def put_alias(self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int) -> None:
        if not targets:
            await self._pool.write(self._sql["delete_alias"], workflow_id, alias)
            return
        # Versions are never removed: one that is there now is there when the alias is written.
        wanted = sorted({target.version for target in targets})
        [row] = await self._pool.read(self._sql["count_versions"], workflow_id, wanted)
        if row[0] != len(wanted):
            raise WorkflowNotFound(f"workflow {workflow_id} has not all of the versions {wanted}")
        await self._pool.write(self._sql["put_alias"], workflow_id, alias, encoded_text(targets), now)

    async def put_result(self, result: StoredResult) -> bool:
        message = encode_message(result.message).decode()
        values = (result.task_id, result.message.job_id, result.shard, message, result.created_at)
        return bool(await self._pool.write(self._sql["insert_result"], *values))

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        if lines:
            await self._pool.write(self._sql["insert_logs"], *log_columns(lines))

    async def submit(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        answers: dict[str, SubmitResult] = {}
        left = list(jobs)
        for _ in range(SUBMIT_ATTEMPTS):
            if not left:
                break
            fresh = await self._pool.write(self._sql["insert_jobs"], *submit_columns(left))
            made = {row[0] for row in fresh}
            answers.update((job.job_id, SubmitResult(JobRecord(job))) for job in left if job.job_id in made)
            left = [job for job in left if job.job_id not in made]
            known = await self._known(left)
            for job in left:
                if (first := known.get((job.workflow_id, job.idempotency_key))) is not None:
                    conflict = first.spec.request_digest != job.request_digest
                    answers[job.job_id] = SubmitResult(first, created=False, conflict=conflict)
            left = [job for job in left if job.job_id not in answers]
        if left:
            raise CommitUnknown(f"jobs with the idempotency key {left[0].idempotency_key!r} come and go; try again")
        return [answers[job.job_id] for job in jobs]

    async def _known(self, jobs: Sequence[JobSpec]) -> dict[tuple[str, str | None], JobRecord]:
        if not jobs:
            return {}
        keys = ([job.workflow_id for job in jobs], [job.idempotency_key for job in jobs])
        rows = await self._pool.read(self._sql["jobs_by_idempotency_keys"], *keys)
        return {(row["workflow_id"], row["idempotency_key"]): job_of(dict(row)) for row in rows}

    async def request(self, request: Request) -> int:
        rows = await self._pool.write(
            self._sql["insert_request"],
            request.request_id,
            request.job_id,
            request.kind,
            request.created_at,
            storable(request.reason),
            storable(request.from_node),
        )
        if not rows:
            raise no_job(request.job_id)
        return rows[0][0]

    async def take_lease(self, shard: int, owner: str) -> Lease:
        [row] = await self._pool.write(self._sql["take_lease"], shard, owner, None)
        return Lease(*row)

    async def claim_lease(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        # Not on the connection of beats: a claim may wait for a commit that is under way.
        rows = await self._pool.write(self._sql["take_lease"], shard, owner, ttl_seconds)
        return Lease(*rows[0]) if rows else None

    async def release_lease(self, shard: int, epoch: int) -> None:
        await self._pool.write(self._sql["release_lease"], shard, epoch, for_leases=True)

    async def beat(self, owner: str, leases: Mapping[int, int], ttl_seconds: float) -> Ownership:
        held = (list(leases), list(leases.values()))
        await self._pool.write(self._sql["beat"], owner, *held, ttl_seconds, for_leases=True)

        return await self._pool.look(self._ownership, for_leases=True)

    async def ownership(self) -> Ownership:
        return await self._pool.look(self._ownership)

    async def _ownership(self, session: Session) -> Ownership:
        rows = await session.fetch(self._sql["leases"])
        engines = await session.fetch(self._sql["engines"])
        return Ownership([name for (name,) in engines], [LeaseRow(*row) for row in rows])

    async def leave(self, owner: str) -> None:
        await self._pool.write(self._sql["leave"], owner, for_leases=True)

    async def epoch(self, shard: int) -> int:
        rows = await self._epochs.ask(shard)
        return rows[0][0] if rows else 0

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        await self._commits.commit(shard, epoch, changes)

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        gone = [row[0] for row in await self._pool.write(self._sql["prune"], finished_before, limit)]
        await self.runs.prune(finished_before, limit, gone)
        return gone

    # Reading

    async def workflow(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        if version is None:
            rows = await self._pool.read(self._sql["live_workflow"], workflow_id)
        else:
            rows = await self._pool.read(self._sql["workflow_version"], workflow_id, version)
        if not rows:
            raise no_workflow(workflow_id if version is None else f"{workflow_id} version {version}")
        return workflow_of(rows[0])

    async def workflows(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        rows = await self._pool.read(self._sql["workflows_by_id"], wanted.after or "", wanted.limit)
        return [workflow_of(row) for row in rows]

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        rows = await self._pool.read(self._sql["versions_of_workflow"], workflow_id)
        if not rows:
            raise no_workflow(workflow_id)
        return [workflow_of(row) for row in rows]

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        rows = await self._pool.read(self._sql["aliases_of_workflow"], workflow_id)
        return {alias: _decode_targets(targets) for alias, targets in rows}

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        rows = await self._results.ask(shard, limit)
        return [
            StoredResult(task_id, at, cast("TaskFinished", decode_message(message)), made)
            for task_id, at, message, made in rows
        ]

    async def logs(self, job_id: str, node_id: str | None = None, attempt: int | None = None, after: int = 0,
                   limit: int = 1000, index: int | None = None) -> Sequence[StoredLog]:  # fmt: skip
        rows = await self._pool.read(self._sql["logs_of_job"], job_id, node_id, attempt, after, limit, index)
        return [StoredLog(log_id, LogLine(*line)) for *line, log_id in rows]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return [row[0] for row in await self._pool.read(self._sql["unfinished_jobs"], shard)]

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        return [row[0] for row in await self._pending.ask(shard, created_before, limit)]

    async def snapshot(self, job_id: str) -> JobSnapshot:
        return await self._pool.look(lambda session: self._job_and_nodes(session, job_id))

    async def restore(self, job_id: str) -> JobSnapshot:
        found = await self.snapshot(job_id)
        return await self._pool.look(lambda session: self._whole(session, job_id)) if _has_loops(found) else found

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        rows = await self._pool.read(self._sql["untouched_jobs"], list(job_ids))
        untouched = [JobSnapshot(job_of(dict(row)), []) for row in rows]
        others = list(set(job_ids).difference(one.job.spec.job_id for one in untouched))
        if not others:
            return untouched
        found = await self._pool.look(lambda session: self._jobs_and_nodes(session, others))
        return untouched + [await self.restore(one.job.spec.job_id) if _has_loops(one) else one for one in found]

    async def _whole(self, session: Session, job_id: str) -> JobSnapshot:
        # One view of the database for several queries: all rows must tell of the same moment.
        async with session.transaction(isolation="repeatable_read", readonly=True):
            found = await self._job_and_nodes(session, job_id)
            loops = [await self._loop(session, job_id, *at) for at in loops_to_restore(found.nodes)]
            return JobSnapshot(found.job, found.nodes, loops, found.in_flight)

    async def _job_and_nodes(self, session: Session, job_id: str) -> JobSnapshot:
        found = await self._jobs_and_nodes(session, [job_id])
        if not found:
            raise no_job(job_id)
        return found[0]

    async def _jobs_and_nodes(self, session: Session, job_ids: Sequence[str]) -> list[JobSnapshot]:
        jobs: list[str] = []
        nodes: dict[str, list[NodeRow]] = {}
        for text, *row in await session.fetch(self._sql["job_with_nodes"], list(job_ids)):
            if text is None:
                nodes.setdefault(row[0], []).append(node_of(tuple(row)))
            else:
                jobs.append(text)
        return [restored_of(text, nodes) for text in jobs]

    async def _loop(self, session: Session, job_id: str, number: int, generation: int) -> LoopRows:
        key = (job_id, number, generation)
        blocks = await session.fetch(self._sql["chunks_of_loop"], *key)
        completed = await session.fetchval(self._sql["completed_of_loop"], *key)
        return loop_of_rows(
            number, generation, blocks, completed, await session.fetch(self._sql["iterations_to_restore"], *key)
        )

    async def iteration_outputs(self, wanted: MergeOutputs, start: int, stop: int) -> Sequence[Raw | None]:
        values = (wanted.job_id, wanted.number, wanted.generation, start, stop)
        outputs: list[Raw | None] = [None] * (stop - start)
        for index, output in await self._pool.read(self._sql["outputs_of_loop"], *values):
            outputs[index - start] = Raw(output.encode())
        return outputs

    async def page_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        values = (wanted.job_id, wanted.number, wanted.generation, wanted.index, wanted.count)
        return [Raw(output.encode()) for (output,) in await self._pool.read(self._sql["outputs_of_calls"], *values)]

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        rows = await self._pool.read(self._sql["iterations_of_loop"], *msgspec.structs.astuple(wanted))
        return [task_of(tuple(row)) for row in rows]

    async def iteration_counts(self, job_id: str, number: int, generation: int) -> Mapping[str, int]:
        rows = await self._pool.read(self._sql["count_iterations"], job_id, number, generation)
        return dict(cast("Sequence[tuple[str, int]]", rows))

    async def unrecorded(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        values = (wanted.job_id, wanted.number, wanted.generation, wanted.after, begun, wanted.limit)
        gaps = await self._pool.read(self._sql["gaps_of_loop"], *values)
        return list(islice(chain.from_iterable(range(*gap) for gap in gaps), wanted.limit))

    async def job_positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        return [JobPosition(*row) for row in await self._pool.read(self._sql["job_positions"], list(job_ids))]

    async def unapplied(self, request_ids: Sequence[str]) -> Sequence[str]:
        rows = await self._pool.read(self._sql["unapplied_requests"], list(request_ids))
        return [row[0] for row in rows] + await self.runs.unapplied(request_ids)

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        return [Request(*row) for row in await self._requests.ask(shard, limit)]

    async def job(self, job_id: str) -> JobRecord:
        rows = await self._pool.read(self._sql["job"], job_id)
        if not rows:
            raise no_job(job_id)
        return job_of(dict(rows[0]))

    async def jobs(self, wanted: JobFilter) -> Sequence[JobRecord]:
        name, values = job_query(wanted)
        return [job_of(dict(row)) for row in await self._pool.read(self._sql[name], *values.values())]

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        if node_id is None:
            rows = await self._pool.read(self._sql["all_nodes_of_job"], job_id)
        else:
            rows = await self._pool.read(self._sql["node_of_job"], job_id, node_id)
        return [node_of(row) for row in rows]

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        return [
            node_of(row) for row in await self._pool.read(self._sql["nodes_by_number"], job_id, first, first + limit)
        ]

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        return [brief_of(row) for row in await self._pool.read(self._sql["node_briefs"], job_id, list(numbers))]

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        pages: Sequence[Any] = await self._pool.read(self._sql["events_of_job"], job_id, after_seq, limit)
        events = (event_of(event) for (body,) in pages for event in decode_page(body) if event.seq > after_seq)
        return list(islice(events, limit))


def _has_loops(found: JobSnapshot) -> bool:
    return bool(loops_to_restore(found.nodes))
