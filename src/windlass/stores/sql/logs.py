"""Reading log lines, the same in both dialects."""

from collections.abc import Sequence

from msgspec import structs

from windlass.ports.store.logs import LogFilter, StoredLog
from windlass.stores.columns import LOG
from windlass.stores.database import Database


class SqlLogs:
    """The part of the LogStore contract that only reads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, wanted: LogFilter) -> Sequence[StoredLog]:
        rows = await self._database.rows("log_list", **structs.asdict(wanted))
        return [StoredLog(log_id, LOG.row(line)) for log_id, *line in rows]
