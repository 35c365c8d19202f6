"""Log lines in PostgreSQL."""

from collections.abc import Sequence

from windlass.ports.handler import LogLine
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.rows import log_columns
from windlass.stores.sql.logs import SqlLogs


class PostgresLogs(SqlLogs):
    """The LogStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements) -> None:
        super().__init__(database)
        self._postgres = database

    async def append(self, lines: Sequence[LogLine]) -> None:
        if lines:
            await self._postgres.pool.write(self._postgres.sql("log_insert"), *log_columns(lines))
