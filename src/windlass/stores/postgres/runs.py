"""Schedules, runs and deliveries in PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, structs

from windlass.core.changes import Changes
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow
from windlass.ports.runs import DeliveryFilter, RunFilter, RunRequest, ScheduleFilter, has_schedule
from windlass.stores.postgres.pool import PostgresPool, Session
from windlass.stores.postgres.rows import storable
from windlass.stores.rows import text_of
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

# Runs removed for each job that is: some have none.
RUNS_PER_JOB = 10


def runs_document(group: Sequence[Changes]) -> str | None:
    """What the commits of several shards say about runs, as one JSON document; None when they say nothing."""
    found = [changes.runs for changes in group if changes.runs]
    if not found:
        return None
    fresh: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for runs in found:
        for run_id, row in runs.runs.items():
            values = dict(zip(RunRow.__struct_fields__, map(_storable, run_values(row)), strict=True))
            (fresh if run_id in runs.fresh else known).append(values)
    jobs = [{**structs.asdict(job), "input": text_of(job.input)} for runs in found for job in runs.jobs]
    deliveries = [
        dict(zip(DeliveryRow.__struct_fields__, map(_storable, delivery_values(row)), strict=True))
        for runs in found
        for row in runs.deliveries
    ]
    document = {
        "fresh": fresh,
        "known": known,
        "withdrawn": [run_id for runs in found for run_id in runs.withdrawn],
        "marks": [structs.asdict(mark) for runs in found for mark in runs.schedules.values()],
        "jobs": jobs,
        "requests": [request_id for runs in found for request_id in runs.requests],
        "deliveries": deliveries,
    }
    return msgspec.json.encode(document).decode()


def _storable(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


class PostgresRuns:
    """The RunStore contract on one PostgreSQL database."""

    def __init__(self, pool: PostgresPool, sql: Mapping[str, str]) -> None:
        self._pool = pool
        self._sql = sql

    # Inside the store's own transactions

    async def deploy(self, session: Session, workflow_id: str, version: int, definition: Raw, now: int) -> None:
        """A new version was stored."""
        if has_schedule(definition):
            await session.execute(self._sql["put_schedule"], workflow_id, version, now)
        else:
            await session.execute(self._sql["drop_schedule"], now, version, workflow_id)

    async def delete(self, session: Session, workflow_id: str, now: int) -> None:
        """A workflow was deleted."""
        await session.execute(self._sql["drop_schedule"], now, None, workflow_id)

    async def prune(self, finished_before: int, limit: int, job_ids: Sequence[str]) -> None:
        """Remove runs that ended before an instant, with their events, and deliveries of jobs that are gone."""
        await self._pool.write(self._sql["prune_runs"], finished_before, limit * RUNS_PER_JOB)
        if job_ids:
            await self._pool.write(self._sql["delete_deliveries"], list(job_ids))

    async def unapplied(self, request_ids: Sequence[str]) -> list[str]:
        """Those of the requests that were not applied yet."""
        return [row[0] for row in await self._all("unapplied_run_requests", list(request_ids))]

    # The contract

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        rows = await self._all("schedules_by_id", wanted.after or "", wanted.limit)
        return [schedule_of(dict(row)) for row in rows]

    async def schedule(self, workflow_id: str) -> ScheduleRow:
        rows = await self._all("schedule", workflow_id)
        if not rows:
            raise no_schedule(workflow_id)
        return schedule_of(dict(rows[0]))

    async def changed_schedules(self, since: int, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        return [schedule_of(dict(row)) for row in await self._all("changed_schedules", since, after, limit)]

    async def pause(self, workflow_id: str, *, paused: bool, now: int) -> ScheduleRow:
        rows = await self._pool.write(self._sql["pause_schedule"], workflow_id, paused, now)
        if not rows:
            raise no_schedule(workflow_id)
        return schedule_of(dict(rows[0]))

    async def request(self, request: RunRequest) -> None:
        values = map(_storable, structs.astuple(request))
        await self._pool.write(self._sql["insert_run_request"], *values)

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        return [RunRequest(*row) for row in await self._all("waiting_run_requests", list(shards), limit)]

    async def run(self, run_id: str) -> RunRow:
        rows = await self._all("run", storable(run_id))
        if not rows:
            raise no_run(run_id)
        return run_of(dict(rows[0]))

    async def run_of_job(self, job_id: str) -> RunRow | None:
        rows = await self._all("run_of_job", job_id)
        return run_of(dict(rows[0])) if rows else None

    async def runs(self, wanted: RunFilter) -> Sequence[RunRow]:
        return [run_of(dict(row)) for row in await self._all("runs_newest", *run_filter(wanted).values())]

    async def known_runs(self, run_ids: Sequence[str]) -> Sequence[str]:
        return [row[0] for row in await self._all("known_runs", list(run_ids))]

    async def active_runs(self, shard: int) -> Sequence[RunRow]:
        return [run_of(dict(row)) for row in await self._all("active_runs", shard)]

    async def last_successes(self, workflow_ids: Sequence[str]) -> Mapping[str, bool]:
        return dict(await self._all("last_successes", list(workflow_ids)))

    async def run_counts(self) -> Mapping[tuple[str, str], int]:
        return {(name, state): count for name, state, count in await self._all("count_runs")}

    async def beat_runs(self, shard: int) -> None:
        await self._pool.write(self._sql["beat_runs"], shard)

    async def runs_silent_seconds(self, shard: int) -> float | None:
        rows = await self._all("runs_beaten", shard)
        return max(0.0, rows[0][0]) if rows else None

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        rows = await self._all("deliveries_newest", *delivery_filter(wanted).values())
        return [delivery_of(dict(row)) for row in rows]

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        rows = await self._all("delivery", storable(delivery_id))
        if not rows:
            raise no_delivery(delivery_id)
        return delivery_of(dict(rows[0]))

    async def _all(self, name: str, *values: object) -> Sequence[Any]:
        return await self._pool.read(self._sql[name], *values)
