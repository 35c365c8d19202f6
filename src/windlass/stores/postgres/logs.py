"""Log lines in PostgreSQL."""

from collections.abc import Sequence

from windlass.ports.handler import LogLine
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.parameters import log_parameter
from windlass.stores.sql.logs import SqlLogs


class PostgresLogs(SqlLogs):
    """The LogStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements) -> None:
        super().__init__(database)
        self._postgres = database

    async def append(self, lines: Sequence[LogLine]) -> None:
        if lines:
            await self._postgres.write("log_insert", lines=log_parameter(lines))
