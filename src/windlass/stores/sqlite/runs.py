"""Schedules, runs and deliveries in SQLite."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Raw, structs

from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunChanges
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow
from windlass.ports.runs import DeliveryFilter, RunFilter, RunRequest, ScheduleFilter, has_schedule
from windlass.stores.rows import encoded_text, job_values
from windlass.stores.run_rows import (
    delivery_filter,
    delivery_of,
    delivery_values,
    no_delivery,
    no_run,
    no_schedule,
    run_filter,
    run_of,
    run_values,
    schedule_of,
)
from windlass.stores.sqlite.bulk_statement import BulkStatement
from windlass.stores.sqlite.connection import Connection, as_dicts, first_dict

# Runs removed for each job that is: some have none.
RUNS_PER_JOB = 10


# How the store reads, and how it writes: an operation on a connection, awaited.
Run = Callable[[Callable[[Connection], Any]], Awaitable[Any]]


class SqliteRuns:
    """The RunStore contract on one SQLite file."""

    def __init__(self, sql: dict[str, str], read: Run, write: Run, now: Callable[[], int]) -> None:
        self._sql = sql
        self._read = read
        self._write = write
        self._now = now
        self._insert_jobs = BulkStatement(sql["insert_jobs"])
        self._insert_runs = BulkStatement(sql["insert_runs"])
        self._put_runs = BulkStatement(sql["put_runs"])
        self._mark_schedules = BulkStatement(sql["mark_schedules"])
        self._put_deliveries = BulkStatement(sql["put_deliveries"])

    # Inside the store's own transactions

    def deploy(self, connection: Connection, workflow_id: str, version: int, definition: Raw, now: int) -> None:
        """A new version was stored."""
        if has_schedule(definition):
            connection.execute(self._sql["put_schedule"], (workflow_id, version, now))
        else:
            connection.execute(self._sql["drop_schedule"], (now, version, workflow_id))

    def delete(self, connection: Connection, workflow_id: str, now: int) -> None:
        """A workflow was deleted."""
        connection.execute(self._sql["drop_schedule"], (now, None, workflow_id))

    def prepared(self, changes: RunChanges | None) -> Callable[[Connection], None] | None:
        """What a commit writes besides jobs, turned into columns; None when there is nothing."""
        if changes is None or not changes:
            return None
        fresh: list[Any] = []
        known: list[Any] = []
        for run_id, row in changes.runs.items():
            (fresh if run_id in changes.fresh else known).extend(run_values(row))
        marks = [value for mark in changes.schedules.values() for value in structs.astuple(mark)]
        deliveries = [value for row in changes.deliveries for value in delivery_values(row)]
        jobs = [value for job in changes.jobs for value in job_values(job)]
        lists = [("withdraw_runs", encoded_text(changes.withdrawn))]
        lists.append(("apply_run_requests", encoded_text(changes.requests)))

        def store(connection: Connection) -> None:
            execute = connection.execute
            for spread, values in (
                (self._insert_runs, fresh),
                (self._put_runs, known),
                (self._mark_schedules, marks),
                (self._put_deliveries, deliveries),
                (self._insert_jobs, jobs),
            ):
                spread(execute, values)
            for name, ids in lists:
                if ids != "[]":
                    execute(self._sql[name], (ids,))

        return store

    def prune(self, connection: Connection, finished_before: int, limit: int) -> None:
        """Remove runs that ended before an instant, with their events."""
        values = (finished_before, limit * RUNS_PER_JOB)
        ids = encoded_text([row[0] for row in connection.execute(self._sql["ended_runs"], values)])
        if ids != "[]":
            connection.execute(self._sql["delete_events"], (ids,))
            connection.execute(self._sql["withdraw_runs"], (ids,))

    def unapplied(self, connection: Connection, request_ids: str) -> list[str]:
        """Those of the requests, a JSON array, that were not applied yet."""
        return [row[0] for row in connection.execute(self._sql["unapplied_run_requests"], (request_ids,))]

    # The contract

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        rows = await self._all("schedules_by_id", (wanted.after or "", wanted.limit))
        return [schedule_of(row) for row in rows]

    async def schedule(self, workflow_id: str) -> ScheduleRow:
        row = await self._first("schedule", (workflow_id,))
        if row is None:
            raise no_schedule(workflow_id)
        return schedule_of(row)

    async def changed_schedules(self, since: int, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        return [schedule_of(row) for row in await self._all("changed_schedules", (since, after, limit))]

    async def pause(self, workflow_id: str, *, paused: bool, now: int) -> ScheduleRow:
        values = (workflow_id, int(paused), now)
        row = await self._write(lambda connection: first_dict(connection.execute(self._sql["pause_schedule"], values)))
        if row is None:
            raise no_schedule(workflow_id)
        return schedule_of(row)

    async def request(self, request: RunRequest) -> None:
        values = structs.astuple(request)
        await self._write(lambda connection: connection.execute(self._sql["insert_run_request"], values))

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        rows = await self._all("waiting_run_requests", (encoded_text(list(shards)), limit))
        return [RunRequest(**row) for row in rows]

    async def run(self, run_id: str) -> RunRow:
        row = await self._first("run", (run_id,))
        if row is None:
            raise no_run(run_id)
        return run_of(row)

    async def run_of_job(self, job_id: str) -> RunRow | None:
        row = await self._first("run_of_job", (job_id,))
        return None if row is None else run_of(row)

    async def runs(self, wanted: RunFilter) -> Sequence[RunRow]:
        return [run_of(row) for row in await self._all("runs_newest", run_filter(wanted))]

    async def known_runs(self, run_ids: Sequence[str]) -> Sequence[str]:
        return [row["run_id"] for row in await self._all("known_runs", (encoded_text(list(run_ids)),))]

    async def active_runs(self, shard: int) -> Sequence[RunRow]:
        return [run_of(row) for row in await self._all("active_runs", (shard,))]

    async def last_successes(self, workflow_ids: Sequence[str]) -> Mapping[str, bool]:
        rows = await self._all("last_successes", (encoded_text(list(workflow_ids)),))
        return {row["value"]: bool(row["succeeded"]) for row in rows if row["succeeded"] is not None}

    async def run_counts(self) -> Mapping[tuple[str, str], int]:
        rows = await self._read(lambda connection: list(connection.execute(self._sql["count_runs"])))
        return {(workflow_id, state): count for workflow_id, state, count in rows}

    async def beat_runs(self, shard: int) -> None:
        values = (shard, self._now())
        await self._write(lambda connection: connection.execute(self._sql["beat_runs"], values))

    async def runs_silent_seconds(self, shard: int) -> float | None:
        row = await self._first("runs_beaten", (shard,))
        return None if row is None else max(0, self._now() - row["at"]) / MICROSECONDS

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        return [delivery_of(row) for row in await self._all("deliveries_newest", delivery_filter(wanted))]

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        row = await self._first("delivery", (delivery_id,))
        if row is None:
            raise no_delivery(delivery_id)
        return delivery_of(row)

    async def _all(self, name: str, values: Sequence[Any] | Mapping[str, Any]) -> list[dict[str, Any]]:
        return await self._read(lambda connection: as_dicts(connection.execute(self._sql[name], values)))

    async def _first(self, name: str, values: Sequence[Any]) -> dict[str, Any] | None:
        return await self._read(lambda connection: first_dict(connection.execute(self._sql[name], values)))
