"""Log lines in a list."""

from collections.abc import Collection, Sequence

from windlass.ports.handler import LogLine
from windlass.ports.store.logs import LogFilter, StoredLog
from windlass.stores.memory.tables import Tables


class MemoryLogs:
    """The LogStore contract in the memory of one process."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._logs: list[StoredLog] = []
        self._last_id = 0

    async def append(self, lines: Sequence[LogLine]) -> None:
        self._tables.check_open()
        for line in lines:
            self._last_id += 1
            self._logs.append(StoredLog(self._last_id, line))

    async def list(self, wanted: LogFilter) -> Sequence[StoredLog]:
        found = [
            stored
            for stored in self._logs
            if stored.log_id > wanted.after and _matches(stored.line, wanted)
        ]
        return found[: wanted.limit]

    def delete_of_jobs(self, job_ids: Collection[str]) -> None:
        """Delete the lines of deleted jobs."""
        self._logs = [stored for stored in self._logs if stored.line.job_id not in job_ids]


def _matches(line: LogLine, wanted: LogFilter) -> bool:
    return (
        line.job_id == wanted.job_id
        and wanted.node_id in (None, line.node_id)
        and wanted.attempt in (None, line.attempt)
        and wanted.index in (None, line.index)
    )
