"""The contract for the log lines of tasks."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from windlass.ports.handler import LogLine


class StoredLog(Struct, frozen=True):
    """A log line and its id, which is the cursor of readers that follow the log."""

    log_id: int
    line: LogLine


class LogFilter(Struct, frozen=True):
    """A page of the log lines of a job, in order, after an id."""

    job_id: str
    node_id: str | None = None
    attempt: int | None = None
    index: int | None = None
    after: int = 0
    limit: int = 1000


class LogStore(Protocol):
    """Stores log lines."""

    async def append(self, lines: Sequence[LogLine]) -> None:
        """Store lines in their order."""
        ...

    async def list(self, wanted: LogFilter) -> Sequence[StoredLog]:
        """Return lines of a job in order."""
        ...
