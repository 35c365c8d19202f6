"""Schedules, runs and deliveries in SQLite."""

from collections.abc import Callable
from typing import Any

from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunChanges
from windlass.ports.store.runs import has_schedule
from windlass.ports.store.workflows import StoredWorkflow
from windlass.stores.columns import DELIVERY, JOB_SPEC, RUN, RUN_EVENT_PAGE, SCHEDULE_MARK
from windlass.stores.rows import run_event_pages
from windlass.stores.sql.runs import RUNS_PER_JOB, SqlRuns
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements


class SqliteRuns(SqlRuns):
    """The RunStore contract on one SQLite file."""

    def __init__(self, database: SqliteStatements) -> None:
        super().__init__(database)
        self._sqlite = database
        self._insert_jobs = database.bulk("job_insert")
        self._insert_runs = database.bulk("run_insert")
        self._put_runs = database.bulk("run_put")
        self._insert_events = database.bulk("run_event_page_insert")
        self._mark_schedules = database.bulk("schedule_mark")
        self._put_deliveries = database.bulk("delivery_put")

    async def put_heartbeat(self, shard: int) -> int:
        rows = await self._sqlite.write("run_heartbeat_put", shard=shard, now=self._sqlite.now())
        return rows[0][0]

    async def heartbeat_age_seconds(self, shard: int) -> float | None:
        row = await self._sqlite.first("run_heartbeat_get", shard=shard)
        if row is None:
            return None
        return max(0, self._sqlite.now() - row[0]) / MICROSECONDS

    # Inside the transactions of others

    def deploy(self, connection: Connection, workflow: StoredWorkflow) -> None:
        """Create, update or remove the schedule of a workflow that got a new version."""
        query = "schedule_put" if has_schedule(workflow.definition) else "schedule_remove"
        self._sqlite.execute(
            connection,
            query,
            workflow_id=workflow.workflow_id,
            version=workflow.version,
            now=workflow.created_at,
        )

    def remove_schedule(self, connection: Connection, workflow_id: str, now: int) -> None:
        """Remove the schedule of a deleted workflow."""
        self._sqlite.execute(
            connection, "schedule_remove", workflow_id=workflow_id, version=None, now=now
        )

    def prepare(self, changes: RunChanges | None) -> Callable[[Connection], None] | None:
        """Return the operation that stores the changes of a commit to runs; None when there are none."""
        if not changes:
            return None
        new: list[Any] = []
        known: list[Any] = []
        for run_id, row in changes.runs.items():
            target = new if run_id in changes.inserted else known
            target.extend(RUN.values(row))
        events = [
            value for page in run_event_pages(changes) for value in RUN_EVENT_PAGE.values(page)
        ]
        marks = [
            value for mark in changes.schedules.values() for value in SCHEDULE_MARK.values(mark)
        ]
        deliveries = [value for row in changes.deliveries for value in DELIVERY.values(row)]
        jobs = [value for job in changes.jobs for value in JOB_SPEC.values(job)]
        withdrawn = list(changes.withdrawn)
        requests = list(changes.requests)

        def store(connection: Connection) -> None:
            execute = connection.execute
            self._insert_runs(execute, new)
            self._put_runs(execute, known)
            self._insert_events(execute, events)
            self._mark_schedules(execute, marks)
            self._put_deliveries(execute, deliveries)
            self._insert_jobs(execute, jobs)
            if withdrawn:
                self._sqlite.execute(connection, "run_delete", ids=withdrawn)
            if requests:
                self._sqlite.execute(connection, "run_request_delete", ids=requests)

        return store

    def prune(self, connection: Connection, finished_before: int, limit: int) -> None:
        """Delete runs that ended before an instant, with their events, and the old events of schedules."""
        self._sqlite.execute(connection, "schedule_event_prune", finished_before=finished_before)
        rows = self._sqlite.execute(
            connection, "run_ended", finished_before=finished_before, limit=limit * RUNS_PER_JOB
        )
        ids = [run_id for (run_id,) in rows]
        if ids:
            self._sqlite.execute(connection, "run_event_delete", ids=ids)
            self._sqlite.execute(connection, "run_delete", ids=ids)
