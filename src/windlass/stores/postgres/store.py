"""The store on PostgreSQL, shared by any number of engines and servers."""

from windlass.core.changes import Changes
from windlass.ports.clock import Clock
from windlass.stores.migrator import migrate_postgres
from windlass.stores.postgres.commits import Commits
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.jobs import PostgresJobs
from windlass.stores.postgres.leases import PostgresLeases
from windlass.stores.postgres.logs import PostgresLogs
from windlass.stores.postgres.pool import STATEMENT_SECONDS, PostgresPool, connect
from windlass.stores.postgres.runs import PostgresRuns
from windlass.stores.postgres.workflows import PostgresWorkflows
from windlass.stores.sql.overview import SqlOverview


async def migrate(url: str, now: int) -> int:
    """Bring a database's schema up to date and return the number of steps. StoreUnavailable."""
    session = await connect(url)
    try:
        return await migrate_postgres(session, now)
    finally:
        await session.close()


class PostgresStore:
    """The Store contract on one PostgreSQL database, through its primary only."""

    def __init__(self, pool: PostgresPool) -> None:
        self._pool = pool
        database = PostgresStatements(pool)
        self.runs = PostgresRuns(database)
        self.workflows = PostgresWorkflows(database, self.runs)
        self.jobs = PostgresJobs(database, self.runs)
        self.leases = PostgresLeases(database)
        self.logs = PostgresLogs(database)
        self.overview = SqlOverview(database)
        self._commits = Commits(database)

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Clock,
        *,
        connections_max: int,
        statement_seconds: float = STATEMENT_SECONDS,
    ) -> "PostgresStore":
        """Connect and bring the schema up to date. StoreUnavailable."""
        await migrate(url, clock.now())
        pool = await PostgresPool.open(
            url, connections_max=connections_max, statement_seconds=statement_seconds
        )
        return cls(pool)

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        await self._commits.commit(shard, epoch, changes)

    async def close(self) -> None:
        await self._commits.wait_all()
        await self._pool.close()
