"""A cache of recent reports, to answer a second delivery of the same task without running it again."""

from windlass.core.messages import Succeeded
from windlass.ports.broker import TaskReport

REPORTS_CACHED_MAX = 4096
REPORTS_CACHED_BYTES_MAX = 32 * 1024 * 1024


class ReportCache:
    """The latest reports by task id: at least as many as the limits, at most twice as many.

    Two generations, of which the older is dropped when the newer is full: evicting reports one by one would take
    longer than everything else done with a report here.
    """

    def __init__(self) -> None:
        self._newer: dict[str, TaskReport] = {}
        self._older: dict[str, TaskReport] = {}
        self._newer_bytes = 0

    def add(self, report: TaskReport) -> None:
        """Add a report; drop old ones beyond the limits."""
        newer = self._newer
        newer[report.task_id] = report
        outcome = report.message.outcome
        if isinstance(outcome, Succeeded):
            self._newer_bytes += len(outcome.output)
        if len(newer) >= REPORTS_CACHED_MAX or self._newer_bytes >= REPORTS_CACHED_BYTES_MAX:
            self._older, self._newer, self._newer_bytes = newer, {}, 0

    def get(self, task_id: str) -> TaskReport | None:
        """Return the report of a task that finished here recently."""
        return self._newer.get(task_id) or self._older.get(task_id)
