"""The embedded store: SQLite through apsw, with one writer thread and readers on connections of their own."""

import asyncio
from pathlib import Path

import apsw

from windlass.core.changes import Changes
from windlass.core.errors import StoreUnavailable
from windlass.ports.clock import Clock
from windlass.stores.migrator import migrate_sqlite, require_known_schema
from windlass.stores.sql.overview import SqlOverview
from windlass.stores.sqlite.commits import SqliteCommits
from windlass.stores.sqlite.connection import (
    UNUSABLE,
    Connection,
    connect,
    grow_log,
    unusable,
)
from windlass.stores.sqlite.database import SqliteStatements
from windlass.stores.sqlite.jobs import SqliteJobs
from windlass.stores.sqlite.leases import SqliteLeases
from windlass.stores.sqlite.logs import SqliteLogs
from windlass.stores.sqlite.runs import SqliteRuns
from windlass.stores.sqlite.workflow_cache import WorkflowCache
from windlass.stores.sqlite.workflows import SqliteWorkflows
from windlass.stores.sqlite.writer import SqliteWriter


class SqliteStore:
    """The Store contract on one SQLite file."""

    def __init__(
        self, database: SqliteStatements, connection: Connection | None, cache: WorkflowCache
    ) -> None:
        self._database = database
        # The writer's connection.
        self._connection = connection
        self.runs = SqliteRuns(database)
        self.workflows = SqliteWorkflows(database, self.runs, cache)
        self.jobs = SqliteJobs(database, self.runs)
        self.leases = SqliteLeases(database)
        self.logs = SqliteLogs(database)
        self.overview = SqlOverview(database)
        self._commits = SqliteCommits(database, self.runs)

    @classmethod
    async def open(
        cls, path: str, clock: Clock, *, synchronous: str = "full", alone: bool = False
    ) -> "SqliteStore":
        """Open for writing; creates the file and migrates its schema. StoreUnavailable, StoreUnusable.

        A store that is `alone`, the only one that writes to the file, caches the newest versions of workflows.
        """
        try:
            # One call: a caller that is cancelled must not close a connection that the thread uses.
            connection = await asyncio.to_thread(_open, path, synchronous, clock.now())
        except UNUSABLE as error:
            raise unusable(path, error) from error
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(f"cannot use the database {path}: {error}") from error
        database = SqliteStatements(path, writer=SqliteWriter(connection, path), clock=clock)
        return cls(database, connection, WorkflowCache(enabled=alone))

    @classmethod
    async def open_reader(cls, path: str) -> "SqliteStore":
        """Open for reading only. StoreUnavailable when there is no file, or its schema is too new."""
        if not await asyncio.to_thread(Path(path).exists):
            raise StoreUnavailable(
                f"no database at {path}; run a workflow here first, or name another file"
            )
        database = SqliteStatements(path, writer=None, clock=None)
        try:
            await database.query(require_known_schema)
        except BaseException:
            await database.close()
            raise
        return cls(database, None, WorkflowCache(enabled=False))

    def commit(self, shard: int, epoch: int, changes: Changes) -> "asyncio.Future[None]":
        return self._commits.commit(shard, epoch, changes)

    async def close(self) -> None:
        await self._database.close()
        if self._connection is not None:
            self._connection.close()


def _open(path: str, synchronous: str, now: int) -> Connection:
    """Return a connection to a migrated database. Raises an apsw.Error, OSError, StoreUnavailable or StoreUnusable."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    connection = connect(path, synchronous=synchronous)
    try:
        # SQLite opens a file that it cannot write for reading; even `begin immediate` succeeds then.
        if connection.readonly("main"):
            raise unusable(path, "not writable")
        migrate_sqlite(connection, now)
        grow_log(Path(f"{path}-wal"))
    except BaseException:
        connection.close()
        raise
    return connection
