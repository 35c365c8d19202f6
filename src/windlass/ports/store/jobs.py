"""The contract for jobs: their rows, nodes, iterations and events, requests about them and reported results."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Raw, Struct

from windlass.core.changes import InFlightEntry, IterationRow, MergeOutputs, NodeRow
from windlass.core.errors import JobNotFound
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSelection, JobSpec
from windlass.core.loop_state import LoopRows
from windlass.core.messages import TaskFinished
from windlass.core.report_verdict import ReportVerdict


class JobSnapshot(Struct, frozen=True):
    """The rows of a job at one moment. Of its loops only those that did not complete or have failures."""

    job: JobRecord
    nodes: Sequence[NodeRow] = ()
    loops: Sequence[LoopRows] = ()
    # Nodes that were dispatched for the first time and have no row yet.
    in_flight: Sequence[InFlightEntry] = ()

    def all_nodes(self) -> list[NodeRow]:
        """Return the nodes that left PENDING, with or without a row."""
        return [*self.nodes, *(entry.row(self.job.spec.job_id) for entry in self.in_flight)]


class SubmitResult(Struct, frozen=True):
    """The result of a submit. A known idempotency key returns its job, with `conflict` if the request differs."""

    job: JobRecord
    created: bool = True
    conflict: bool = False


class JobFilter(JobSelection, frozen=True):
    """A page of a list of jobs, newest first."""

    # The cursor: only jobs created before this one (by created_at, then id).
    before: tuple[int, str] | None = None
    limit: int = 50
    # The start of the id of a job or of a deployed workflow, or a whole idempotency key.
    search: str | None = None


class JobPosition(Struct, frozen=True):
    """The sequence number of a job's last event, and its status."""

    job_id: str
    seq: int
    status: str


class NodeBrief(Struct, frozen=True):
    """A node without its output."""

    number: int
    status: str
    completed_at: int | None = None
    # The first characters of the output; None without one.
    head: str | None = None
    meta: Raw | None = None
    progress: Raw | None = None


class IterationFilter(Struct, frozen=True):
    """A page of a list of a loop's iterations, ordered by index."""

    job_id: str
    number: int
    generation: int
    status: str | None = None
    after: int = -1
    limit: int = 50


class Request(Struct, frozen=True):
    """A request about a job (cancel, retry), stored before it is acknowledged."""

    request_id: str
    job_id: str
    kind: str
    created_at: int
    reason: str | None = None
    from_node: str | None = None
    # The round of the job that the request is about.
    round: int = 0


class StoredResult(Struct, frozen=True):
    """A result reported over HTTP, stored before it is acknowledged and then sent to the inbox as a message."""

    result_id: str
    shard: int
    message: TaskFinished
    created_at: int


def no_job(job_id: str) -> JobNotFound:
    """Return the error for an unknown job id."""
    return JobNotFound(
        f"job not found: {job_id}; list the jobs of this database with `windlass jobs list`"
    )


class JobStore(Protocol):
    """Stores jobs. Their nodes, iterations and events are written by `Store.commit` only."""

    async def insert(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        """Store jobs as pending and return an answer for each, in order. The row is also the event job_created."""
        ...

    async def get(self, job_id: str) -> JobRecord:
        """Return one job; JobNotFound."""
        ...

    async def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """Return a page of jobs, newest first."""
        ...

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        """Return the positions of those of the jobs that exist."""
        ...

    async def unfinished(self, shard: int) -> Sequence[str]:
        """Return the ids of the shard's unfinished jobs, oldest first."""
        ...

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        """Return the ids of jobs created before an instant that have not started, oldest first.

        Finds jobs whose submit message was lost.
        """
        ...

    async def restore(self, job_id: str) -> JobSnapshot:
        """Return a job, finished or not, with the rows of its nodes and loops; JobNotFound."""
        ...

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        """Restore those of the jobs that exist, in few queries."""
        ...

    async def snapshot(self, job_id: str) -> JobSnapshot:
        """Return a job with the rows of its nodes, without its loops; JobNotFound."""
        ...

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        """Return the nodes of a job that left PENDING, or the one named."""
        ...

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        """Return `limit` nodes from number `first` on, in order, without those that are PENDING."""
        ...

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        """Return the nodes with these numbers without their outputs, and without those that are PENDING."""
        ...

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Return events of a job or run in order, after a sequence number."""
        ...

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        """Return a page of the iterations of a loop that have a row."""
        ...

    async def iteration_counts(
        self, job_id: str, number: int, generation: int
    ) -> Mapping[str, int]:
        """Count the iterations of a loop that have a row, by status."""
        ...

    async def unrecorded_iterations(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        """Return indexes below `begun` without a row, in order: iterations that are dispatched for the first time."""
        ...

    async def iteration_outputs(
        self, wanted: MergeOutputs, start: int, stop: int
    ) -> Sequence[Raw | None]:
        """Return the outputs of a loop's iterations from `start` to before `stop`; None where there is none."""
        ...

    async def call_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        """Return the outputs of the calls of a paginated node, in order."""
        ...

    async def put_request(self, request: Request) -> int:
        """Store a request and return the job's shard; JobNotFound."""
        ...

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        """Return requests that were not applied yet, oldest first."""
        ...

    async def unapplied_requests(self, request_ids: Sequence[str]) -> Sequence[str]:
        """Return those of the requests, about jobs or runs, that were not applied yet."""
        ...

    async def put_result(self, result: StoredResult) -> None:
        """Store a result."""
        ...

    async def verdicts(self, result_ids: Sequence[str]) -> Mapping[str, ReportVerdict]:
        """Return the verdicts on results, without those that were not applied yet. The row of UNKNOWN is deleted."""
        ...

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        """Return results that were not applied yet, oldest first."""
        ...

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        """Delete up to `limit` jobs that finished before an instant, with all their rows, and return their ids."""
        ...
