"""Schedules, runs and deliveries, the same in both dialects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from windlass.core.events import Event
from windlass.core.ids import RunId, WorkflowId
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow
from windlass.ports.store.runs import DeliveryFilter, RunFilter, RunRequest, ScheduleFilter
from windlass.stores.columns import DELIVERY, RUN, RUN_REQUEST, SCHEDULE
from windlass.stores.database import Database, Row
from windlass.stores.rows import events_of, no_delivery, no_run, no_schedule

# Runs deleted per deleted job: some runs have no job.
RUNS_PER_JOB = 10


def _schedules_of(rows: Iterable[Row]) -> list[ScheduleRow]:
    return [SCHEDULE.row(row) for row in rows]


def _runs_of(rows: Iterable[Row]) -> list[RunRow]:
    return [RUN.row(row) for row in rows]


def _deliveries_of(rows: Iterable[Row]) -> list[DeliveryRow]:
    return [DELIVERY.row(row) for row in rows]


class SqlRuns:
    """The part of the RunStore contract that both dialects do alike."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        return await self._database.read(
            "schedule_list", _schedules_of, after=wanted.after or "", limit=wanted.limit
        )

    async def schedule(self, workflow_id: str) -> ScheduleRow:
        row = await self._database.first("schedule_get", workflow_id=workflow_id)
        if row is None:
            raise no_schedule(workflow_id)
        return SCHEDULE.row(row)

    async def changed_schedules(
        self, since: int, limit: int, after: str = ""
    ) -> Sequence[ScheduleRow]:
        return await self._database.read(
            "schedule_list_changed", _schedules_of, since=since, after=after, limit=limit
        )

    async def pause_schedule(self, workflow_id: str, *, paused: bool, now: int) -> ScheduleRow:
        rows = await self._database.write(
            "schedule_pause", workflow_id=workflow_id, paused=paused, now=now
        )
        if not rows:
            raise no_schedule(workflow_id)
        return SCHEDULE.row(rows[0])

    async def get(self, run_id: str) -> RunRow:
        row = await self._database.first("run_get", run_id=run_id)
        if row is None:
            raise no_run(run_id)
        return RUN.row(row)

    async def of_job(self, job_id: str) -> RunRow | None:
        row = await self._database.first("run_of_job", job_id=job_id)
        return None if row is None else RUN.row(row)

    async def list(self, wanted: RunFilter) -> Sequence[RunRow]:
        return await self._database.read("run_list", _runs_of, **_filter_values(wanted))

    async def existing(self, run_ids: Sequence[str]) -> Sequence[str]:
        rows = await self._database.rows("run_existing", run_ids=list(run_ids))
        return [run_id for (run_id,) in rows]

    async def of_slots(self, workflow_id: str, slots: Sequence[int]) -> Sequence[RunRow]:
        return await self._database.read(
            "run_of_slots", _runs_of, workflow_id=workflow_id, slots=list(slots)
        )

    async def unfinished(self, shard: int) -> Sequence[RunRow]:
        return await self._database.read("run_unfinished", _runs_of, shard=shard)

    async def events(self, run_id: RunId, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        rows = await self._database.rows(
            "run_event_pages", run_id=run_id, after=after_seq, limit=limit
        )
        return events_of(rows, after_seq, limit)

    async def schedule_events(
        self, workflow_id: WorkflowId, after_seq: int = 0, limit: int = 1000
    ) -> Sequence[Event]:
        rows = await self._database.rows(
            "schedule_event_pages", workflow_id=workflow_id, after=after_seq, limit=limit
        )
        return events_of(rows, after_seq, limit)

    async def last_successes(self, workflow_ids: Sequence[str]) -> Mapping[str, bool]:
        rows = await self._database.rows("run_last_successes", workflow_ids=list(workflow_ids))
        return {
            workflow_id: bool(succeeded) for workflow_id, succeeded in rows if succeeded is not None
        }

    async def counts(self) -> Mapping[tuple[str, str], int]:
        rows = await self._database.rows("run_counts")
        return {(workflow_id, state): count for workflow_id, state, count in rows}

    async def heartbeats(self) -> Mapping[int, int]:
        rows = await self._database.rows("run_heartbeat_totals")
        return {row[0]: row[1] for row in rows}

    async def put_request(self, request: RunRequest) -> None:
        await self._database.write("run_request_insert", **structs.asdict(request))

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        rows = await self._database.rows("run_request_list", shards=list(shards), limit=limit)
        return [RUN_REQUEST.row(row) for row in rows]

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        row = await self._database.first("delivery_get", delivery_id=delivery_id)
        if row is None:
            raise no_delivery(delivery_id)
        return DELIVERY.row(row)

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        return await self._database.read("delivery_list", _deliveries_of, **_filter_values(wanted))


def _filter_values(wanted: RunFilter | DeliveryFilter) -> dict[str, Any]:
    """Return the values of a filter by the names of the parameters, its cursor as two of them."""
    values = structs.asdict(wanted)
    del values["before"]
    values["before_at"], values["before_id"] = wanted.before or (None, None)
    return values
