"""Schedules, runs and deliveries in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from windlass.core.changes import Changes
from windlass.core.runs.rows import DeliveryRow, RunRow
from windlass.ports.store.runs import has_schedule
from windlass.ports.store.workflows import StoredWorkflow
from windlass.stores.columns import DELIVERY, RUN
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.pool import Session
from windlass.stores.postgres.rows import storable
from windlass.stores.rows import run_event_pages, text_of
from windlass.stores.sql.runs import RUNS_PER_JOB, SqlRuns


def runs_document(group: Sequence[Changes]) -> str | None:
    """Return the changes of several commits to runs as one JSON document; None when there are none."""
    found = [changes.runs for changes in group if changes.runs]
    if not found:
        return None
    inserted: list[dict[str, Any]] = []
    updated: list[dict[str, Any]] = []
    for runs in found:
        for run_id, row in runs.runs.items():
            values = dict(zip(RunRow.__struct_fields__, map(_storable, RUN.values(row)), strict=True))
            (inserted if run_id in runs.inserted else updated).append(values)
    jobs = [{**structs.asdict(job), "input": text_of(job.input)} for runs in found for job in runs.jobs]
    deliveries = [
        dict(zip(DeliveryRow.__struct_fields__, map(_storable, DELIVERY.values(row)), strict=True))
        for runs in found
        for row in runs.deliveries
    ]
    document = {
        "inserted": inserted,
        "updated": updated,
        "events": [structs.asdict(page) for runs in found for page in run_event_pages(runs)],
        "withdrawn": [run_id for runs in found for run_id in runs.withdrawn],
        "marks": [structs.asdict(mark) for runs in found for mark in runs.schedules.values()],
        "jobs": jobs,
        "requests": [request_id for runs in found for request_id in runs.requests],
        "deliveries": deliveries,
    }
    return msgspec.json.encode(document).decode()


def _storable(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


class PostgresRuns(SqlRuns):
    """The RunStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements) -> None:
        super().__init__(database)
        self._postgres = database

    async def put_heartbeat(self, shard: int) -> None:
        await self._postgres.write("run_heartbeat_put", shard=shard)

    async def heartbeat_age_seconds(self, shard: int) -> float | None:
        row = await self._postgres.first("run_heartbeat_age", shard=shard)
        return None if row is None else max(0.0, row[0])

    # For the other parts of the store

    async def deploy(self, session: Session, workflow: StoredWorkflow) -> None:
        """Create, update or remove the schedule of a workflow that got a new version."""
        query = "schedule_put" if has_schedule(workflow.definition) else "schedule_remove"
        await self._postgres.execute(
            session,
            query,
            workflow_id=workflow.workflow_id,
            version=workflow.version,
            now=workflow.created_at,
        )

    async def remove_schedule(self, session: Session, workflow_id: str, now: int) -> None:
        """Remove the schedule of a deleted workflow."""
        await self._postgres.execute(session, "schedule_remove", workflow_id=workflow_id, version=None, now=now)

    async def prune(self, finished_before: int, limit: int, job_ids: Sequence[str]) -> None:
        """Delete runs that ended before an instant, with their events, and the deliveries of deleted jobs."""
        await self._postgres.write("run_prune", finished_before=finished_before, limit=limit * RUNS_PER_JOB)
        if job_ids:
            await self._postgres.write("delivery_delete_of_jobs", job_ids=list(job_ids))
