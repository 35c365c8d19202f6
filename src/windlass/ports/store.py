"""The store's contract: definitions, jobs, nodes, events, leases. Rows are the truth; all else is rebuilt from them."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from msgspec import Raw, Struct

from windlass.core.changes import Changes, InFlightEntry, IterationRow, MergeOutputs, NodeRow
from windlass.core.errors import JobNotFound
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.loop_state import LoopRows
from windlass.core.messages import TaskFinished
from windlass.ports.handler import LogLine
from windlass.ports.overview import Overview
from windlass.ports.runs import RunStore


class StoredWorkflow(Struct, frozen=True):
    """One version of a workflow: its canonical definition as JSON and the digest that tells versions apart."""

    workflow_id: str
    version: int
    definition: Raw
    digest: str
    created_at: int
    # Whether this very call made the version.
    is_new: bool = False


class AliasTarget(Struct, frozen=True):
    """A version that an alias points at, and its share of the submits."""

    version: int
    weight: int = 100


class WorkflowFilter(Struct, frozen=True):
    """Which workflows a list shows, by id."""

    after: str | None = None
    limit: int = 50


class StoredLog(Struct, frozen=True):
    """A line of a log under its number: the cursor of those who follow it."""

    log_id: int
    line: LogLine


class StoredResult(Struct, frozen=True):
    """A result that was reported over HTTP: a row before it is acknowledged, and a message afterwards."""

    task_id: str
    shard: int
    message: TaskFinished
    created_at: int


class JobSnapshot(Struct, frozen=True):
    """A job as its rows have it, at one moment. Of the loops only those that did not complete."""

    job: JobRecord
    nodes: Sequence[NodeRow] = ()
    loops: Sequence[LoopRows] = ()
    # Nodes that are out and have no row.
    in_flight: Sequence[InFlightEntry] = ()

    def all_nodes(self) -> list[NodeRow]:
        """The nodes that left PENDING, whether they have a row or not."""
        return [*self.nodes, *(one.row(self.job.spec.job_id) for one in self.in_flight)]


class IterationFilter(Struct, frozen=True):
    """Which iterations of a loop a list shows, by index."""

    job_id: str
    number: int
    generation: int
    status: str | None = None
    after: int = -1
    limit: int = 50


class NodeBrief(Struct, frozen=True):
    """What can be told of a node without reading its output."""

    number: int
    status: str
    completed_at: int | None = None
    # The first characters of the output; None without one.
    head: str | None = None
    meta: Raw | None = None
    progress: Raw | None = None


class SubmitResult(Struct, frozen=True):
    """What became of a submit. A known idempotency key gives its job back, with `conflict` if the body differs."""

    job: JobRecord
    created: bool = True
    conflict: bool = False


class Request(Struct, frozen=True):
    """Something asked of a job (cancel, retry), durable before it is acknowledged."""

    request_id: str
    job_id: str
    kind: str
    created_at: int
    reason: str | None = None
    from_node: str | None = None


class Lease(Struct, frozen=True):
    """Ownership of a shard. `abandoned` when the owner before did not give it back: what it ran was lost."""

    epoch: int
    abandoned: bool


class LeaseRow(Struct, frozen=True):
    """Who owns a shard, by the database's own clock."""

    shard: int
    owner: str | None
    epoch: int
    # Whether the owner did not renew it in time: anybody may take it.
    expired: bool
    # None: held until it is given back or taken.
    expires_at: int | None = None


class Ownership(Struct, frozen=True):
    """How the shards are spread at this moment: every engine that lives, and every shard that ever had an owner."""

    engines: Sequence[str]
    leases: Sequence[LeaseRow]


class JobPosition(Struct, frozen=True):
    """How far a job is: the number of its last event, and its state."""

    job_id: str
    seq: int
    status: str


def no_job(job_id: str) -> JobNotFound:
    """What is raised for an id that no job has."""
    return JobNotFound(f"there is no job {job_id}; `windlass jobs list` shows the jobs of this database")


class JobFilter(Struct, frozen=True):
    """Which jobs a list shows, newest first."""

    workflow_id: str | None = None
    status: str | None = None
    # Jobs created before this one (by created_at, then id): the cursor.
    before: tuple[int, str] | None = None
    limit: int = 50
    # The start of an id of a job or of a workflow that was deployed, or a whole idempotency key.
    search: str | None = None


class Store(Protocol):
    """What every database must do. Writes of one call are one transaction; a returned write is durable."""

    @property
    def runs(self) -> RunStore:
        """What it keeps of schedules, runs and deliveries."""
        ...

    @property
    def overview(self) -> Overview:
        """What it tells across jobs."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and let go of the database."""
        ...

    async def put_workflow(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        """Store a definition as the next version, or give back the newest one when its digest is the same."""
        ...

    async def workflow(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        """A version, or the newest of a workflow that is not deleted; WorkflowNotFound."""
        ...

    async def workflows(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        """A page of workflows by id, each in its newest version; deleted ones are left out."""
        ...

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        """Every version, newest first, of a deleted workflow too; WorkflowNotFound."""
        ...

    async def delete_workflow(self, workflow_id: str, now: int, *, force: bool) -> None:
        """Take a workflow off the lists and refuse its submits; versions and jobs stay. RequestRefused while jobs of it
        are unfinished, unless forced; WorkflowNotFound."""
        ...

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        """The aliases that were set, without `latest`."""
        ...

    async def put_alias(self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int) -> None:
        """Point an alias at versions, or remove it when none are given; WorkflowNotFound for one that is not there."""
        ...

    async def submit(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        """Store jobs as pending, which is their first event (job_created); an answer for each, in order."""
        ...

    async def request(self, request: Request) -> int:
        """Store something asked of a job, and tell the job's shard; JobNotFound."""
        ...

    async def unapplied(self, request_ids: Sequence[str]) -> Sequence[str]:
        """Those of the requests that were not applied yet."""
        ...

    async def take_lease(self, shard: int, owner: str) -> Lease:
        """Become the shard's owner, whoever was, under a new epoch."""
        ...

    async def release_lease(self, shard: int, epoch: int) -> None:
        """Give the shard back, if it is still the caller's."""
        ...

    async def epoch(self, shard: int) -> int:
        """The epoch of the shard's newest lease; 0 when there was none."""
        ...

    async def beat(self, owner: str, leases: Mapping[int, int], ttl_seconds: float) -> Ownership:
        """Say that an engine lives and renew its leases (shard -> epoch) as far as they are still its own. What was not
        renewed for `ttl_seconds` is expired; instants are the database's."""
        ...

    async def ownership(self) -> Ownership:
        """How the shards are spread at this moment, for those who only look."""
        ...

    async def claim_lease(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        """Become the shard's owner under a new epoch, if it has none, if its lease is expired, or if it is the caller's
        own already (who then leaves what it wrote under the old epoch behind); else None."""
        ...

    async def leave(self, owner: str) -> None:
        """Forget that an engine lives: it stops in good order, and has released its leases."""
        ...

    async def job_positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        """How far each of the jobs is that exist: what those poll who wait for many jobs at once."""
        ...

    def commit(self, shard: int, epoch: int, changes: Changes) -> Awaitable[None]:
        """Store everything or nothing. StaleLease when the epoch is not the shard's; CommitUnknown on any failure."""
        ...

    async def unfinished(self, shard: int) -> Sequence[str]:
        """Ids of the shard's unfinished jobs, oldest first."""
        ...

    async def restore(self, job_id: str) -> JobSnapshot:
        """One job, finished or not, with the rows of its nodes and loops; JobNotFound."""
        ...

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        """Those of the jobs that exist, each as `restore` has it, in few questions."""
        ...

    async def iteration_outputs(self, wanted: MergeOutputs, start: int, stop: int) -> Sequence[Raw | None]:
        """Outputs of a loop's iterations from one index to before another, in order; None where there is none."""
        ...

    async def page_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        """What the calls of a series brought, in order."""
        ...

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        """A page of the iterations of a loop that have a row."""
        ...

    async def iteration_counts(self, job_id: str, number: int, generation: int) -> Mapping[str, int]:
        """How many iterations of a loop have a row, by status."""
        ...

    async def unrecorded(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        """Indexes below `begun` without a row, in order: what is out with workers for the first time."""
        ...

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        """Ids of jobs stored before an instant that have not begun, oldest first: a hint may have been lost."""
        ...

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        """What was asked and not yet applied, oldest first."""
        ...

    async def put_result(self, result: StoredResult) -> bool:
        """Store a result, before anybody is told that it arrived; False when the task has one already."""
        ...

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        """Results that were not applied yet, oldest first."""
        ...

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        """Store lines in their order."""
        ...

    async def logs(
        self,
        job_id: str,
        node_id: str | None = None,
        attempt: int | None = None,
        after: int = 0,
        limit: int = 1000,
        index: int | None = None,
    ) -> Sequence[StoredLog]:
        """Lines of a job in order, after a number."""
        ...

    async def job(self, job_id: str) -> JobRecord:
        """One job; JobNotFound."""
        ...

    async def jobs(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """A page of jobs, newest first."""
        ...

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        """The nodes of a job that left PENDING (or the one named)."""
        ...

    async def snapshot(self, job_id: str) -> JobSnapshot:
        """As `restore`, without the loops: what is shown of a job."""
        ...

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        """The rows of the nodes with these numbers, from `first` on, in their order; a node may have none."""
        ...

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        """What the rows of these nodes tell, without their outputs; a node may have none."""
        ...

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Events of a job in order, after a sequence number."""
        ...

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        """Remove jobs that ended before an instant, with all their rows, at most `limit` of them; which."""
        ...
