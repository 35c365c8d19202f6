"""Schedules, runs and deliveries in PostgreSQL."""

from collections.abc import Sequence

from windlass.ports.store.runs import has_schedule
from windlass.ports.store.workflows import StoredWorkflow
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.pool import Session
from windlass.stores.sql.runs import RUNS_PER_JOB, SqlRuns


class PostgresRuns(SqlRuns):
    """The RunStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements) -> None:
        super().__init__(database)
        self._postgres = database

    async def put_heartbeat(self, shard: int) -> int:
        rows = await self._postgres.write("run_heartbeat_put", shard=shard)
        return rows[0][0]

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
        await self._postgres.execute(
            session, "schedule_remove", workflow_id=workflow_id, version=None, now=now
        )

    async def prune(self, finished_before: int, limit: int, job_ids: Sequence[str]) -> None:
        """Delete runs that ended before an instant, with their events, and the deliveries of deleted jobs."""
        await self._postgres.write("schedule_event_prune", finished_before=finished_before)
        await self._postgres.write(
            "run_prune", finished_before=finished_before, limit=limit * RUNS_PER_JOB
        )
        if job_ids:
            await self._postgres.write("delivery_delete_of_jobs", job_ids=list(job_ids))
