"""Log lines in SQLite."""

from collections.abc import Sequence

from windlass.ports.handler import LogLine
from windlass.stores.columns import LOG
from windlass.stores.sql.logs import SqlLogs
from windlass.stores.sqlite.database import SqliteStatements


class SqliteLogs(SqlLogs):
    """The LogStore contract on one SQLite file."""

    def __init__(self, database: SqliteStatements) -> None:
        super().__init__(database)
        self._sqlite = database
        self._insert = database.bulk("log_insert")

    async def append(self, lines: Sequence[LogLine]) -> None:
        values = [value for line in lines for value in LOG.values(line)]
        await self._sqlite.transact(lambda connection: self._insert(connection.execute, values))
