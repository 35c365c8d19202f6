"""The rows of a memory store, which its parts share."""

from array import array
from collections.abc import Sequence

from msgspec import Raw, structs

from windlass.core.changes import InFlightEntry, IterationRow, NodeRow
from windlass.core.errors import CommitUnknown
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.loop_state import LoopRows, read_progress
from windlass.core.report_verdict import ReportVerdict
from windlass.ports.clock import Clock
from windlass.ports.store.jobs import JobSnapshot, Request, StoredResult, no_job
from windlass.ports.store.workflows import StoredWorkflow


class JobRows:
    """All rows of one job."""

    __slots__ = ("call_outputs", "chunks", "events", "in_flight", "iterations", "nodes", "row")

    def __init__(self, row: JobRecord, first: Event) -> None:
        self.row = row
        self.nodes: dict[str, NodeRow] = {}
        self.in_flight: tuple[InFlightEntry, ...] = ()
        # By number and generation, then by index, by index and call, or by chunk.
        self.iterations: dict[tuple[int, int, int], IterationRow] = {}
        self.call_outputs: dict[tuple[int, int, int, int], Raw] = {}
        self.chunks: dict[tuple[int, int, int], bytes] = {}
        self.events: list[Event] = [first]

    def snapshot(self) -> JobSnapshot:
        """Return the job with its nodes, without its loops."""
        job = structs.replace(self.row, seq=self.events[-1].seq)
        return JobSnapshot(job, list(self.nodes.values()), (), self.in_flight)

    def restored(self) -> JobSnapshot:
        """Return the job with its nodes and the loops that a retry may resume."""
        loops: list[LoopRows] = []
        for node in self.nodes.values():
            if node.progress is not None:
                progress = read_progress(node.progress)
                if progress.total >= 0:
                    loops.append(self._loop(node.number, progress.generation))
        return structs.replace(self.snapshot(), loops=loops)

    def _loop(self, number: int, generation: int) -> LoopRows:
        chunks = [
            body for key, body in sorted(self.chunks.items()) if key[:2] == (number, generation)
        ]
        completed = array("l")
        others: list[IterationRow] = []
        for key, row in self.iterations.items():
            if key[:2] != (number, generation):
                continue
            if row.status == "completed" and row.attempt == 1:
                completed.append(row.index)
            else:
                others.append(structs.replace(row, output=None, error=None, meta=None))
        return LoopRows(number, generation, chunks, completed=completed, others=others)


class Tables:
    """Workflows and jobs of one store."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_closed = False
        self.workflows: dict[str, list[StoredWorkflow]] = {}
        self.jobs: dict[str, JobRows] = {}
        # Job ids by workflow and idempotency key.
        self.keys: dict[tuple[str, str], str] = {}
        # Requests by id, and whether each was applied; results by id, and the verdict on those that were applied.
        self.requests: dict[str, tuple[Request, bool]] = {}
        self.results: dict[str, tuple[StoredResult, ReportVerdict | None]] = {}

    def check_open(self) -> None:
        """Raise CommitUnknown when the store is closed."""
        if self.is_closed:
            raise CommitUnknown("the store is closed")

    def job(self, job_id: str) -> JobRows:
        """Return the rows of a job; JobNotFound."""
        rows = self.jobs.get(job_id)
        if rows is None:
            raise no_job(job_id)
        return rows

    def job_rows(self) -> Sequence[JobRecord]:
        """Return the rows of all jobs."""
        return [rows.row for rows in self.jobs.values()]
