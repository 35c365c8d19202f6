"""The result of a decision: rows and events to store, tasks, cancellations and timers to publish.

Instants are integers: microseconds since the epoch, UTC. JSON values are encoded once and passed as `Raw`.
"""

from msgspec import Raw, Struct

from windlass.core.artifacts import TaskArtifact
from windlass.core.events import Event
from windlass.core.jobs import JobState
from windlass.core.messages import WALL_TIMERS, TimerDue, TimerKind
from windlass.core.report_verdict import ReportVerdict
from windlass.core.runs.changes import RunChanges


class NodeRow(Struct, frozen=True, array_like=True, gc=False):
    """A node as stored: the whole row, written again on each change."""

    job_id: str
    node_id: str
    status: str
    attempt: int
    # Attempts made before the last retry of the job: they do not count against max_attempts.
    attempts_before: int = 0
    losses: int = 0
    first_seq: int | None = None
    dispatched_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    due_at: int | None = None
    worker_id: str | None = None
    output: Raw | None = None
    error: Raw | None = None
    meta: Raw | None = None
    # The position of the node in its plan. Nodes that run at the same time have adjacent rows.
    number: int = 0
    # The progress of a loop or of a pagination, if the node has one.
    progress: Raw | None = None
    # The start of the first attempt since the job was started or retried, if the last attempt started later.
    first_started_at: int | None = None


class InFlightEntry(Struct, frozen=True, array_like=True, gc=False):
    """A node in flight for the first time, which has no row yet: the newest page of its job's events lists it.

    Most nodes complete at once, and then cost one row instead of two (ADR 19).
    """

    number: int
    node_id: str
    dispatched_at: int

    def row(self, job_id: str) -> NodeRow:
        """Return the row that the entry replaces."""
        return NodeRow(
            job_id,
            self.node_id,
            "dispatched",
            attempt=1,
            dispatched_at=self.dispatched_at,
            number=self.number,
        )


class IterationRow(Struct, frozen=True, array_like=True, gc=False):
    """An iteration of a loop as stored. One that was begun and has no row is in its first attempt."""

    job_id: str
    number: int
    generation: int
    index: int
    status: str
    attempt: int
    attempts_before: int = 0
    losses: int = 0
    first_seq: int | None = None
    dispatched_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    due_at: int | None = None
    worker_id: str | None = None
    output: Raw | None = None
    error: Raw | None = None
    meta: Raw | None = None
    progress: Raw | None = None
    first_started_at: int | None = None


class CallOutputRow(Struct, frozen=True, array_like=True, gc=False):
    """One page, until the pagination ends. The index is -1 outside of loops."""

    job_id: str
    number: int
    generation: int
    index: int
    call: int
    output: Raw


class CollectionChunkRow(Struct, frozen=True, array_like=True, gc=False):
    """A stored piece of a recorded collection, as a JSON array. Unrelated to the chunk of elements that a task gets."""

    job_id: str
    number: int
    generation: int
    chunk: int
    body: bytes


class MergeOutputs(Struct, frozen=True, gc=False):
    """A request to merge outputs that are stored in rows; `OutputsMerged` is the answer."""

    job_id: str
    node_id: str
    number: int
    generation: int
    # None for the iterations of a loop; else the pages of one iteration, or of the node itself (-1).
    index: int | None
    # The number of iterations or pages.
    count: int
    # Whether each part is a list to concatenate, or one element.
    spliced: bool
    # The attempt that waits for the merge. An answer for an earlier attempt is ignored.
    attempt: int = 0


class SinkSpec(Struct, frozen=True, gc=False):
    """Where the output of an attempt is written, with rendered options."""

    tool: str
    # A JSON object: table, connection, mode, …
    options: bytes
    # The path to the rows in the output if the options name none: the merge_path of the node.
    path: tuple[str, ...] = ()
    # Identifies this execution of the node over all its iterations and pages: `replace` empties the target once for it.
    run_key: str = ""


class Task(Struct, frozen=True, omit_defaults=True, gc=False):
    """One attempt for a worker. Published twice under one id, it is claimed once."""

    task_id: str
    job_id: str
    node_id: str
    attempt: int
    handler: str
    params: bytes
    queue: str = "default"
    timeout_seconds: float = 300.0
    priority: int = 0
    shard: int = 0
    index: int = 0
    # Attempts since the job started or was retried, less one, as the retry rules count them.
    retry_count: int = 0
    # The same for all redeliveries and retries of one piece of work: a node, an iteration, a page.
    idempotency_key: str = ""
    sink: SinkSpec | None = None
    # The large values that belong to `params`, which has null in their places.
    artifacts: tuple[TaskArtifact, ...] = ()
    # Workflows with waiting tasks take turns.
    workflow_id: str = ""


class Timer(Struct, frozen=True, gc=False):
    """Send the job a TimerDue at `due_at`. Kept in memory: rows hold the instant, and recovery sets it again."""

    due_at: int
    job_id: str
    kind: TimerKind
    node_id: str | None = None
    attempt: int = 0
    index: int = 0
    round: int = 0

    @property
    def follows_wall_clock(self) -> bool:
        """Whether the instant is one of the wall clock, and not the end of a duration."""
        return self.kind in WALL_TIMERS

    def message(self) -> TimerDue:
        """Return what is sent when the timer fires."""
        return TimerDue(
            job_id=self.job_id,
            kind=self.kind,
            node_id=self.node_id,
            attempt=self.attempt,
            index=self.index,
            round=self.round,
        )


class Arrival(Struct, frozen=True, gc=False):
    """A job that starts, or is retried, only when the rules about runs admit it."""

    job_id: str
    # Of a retry: the stored request.
    request_id: str | None = None
    from_node: str | None = None


class Changes:
    """The changes of a batch of messages. Rows have keys: the last state in a batch is stored."""

    __slots__ = (
        "arrivals",
        "call_outputs",
        "cancels",
        "chunks",
        "events",
        "finished",
        "in_flight",
        "iterations",
        "jobs",
        "merges",
        "nodes",
        "requests",
        "results",
        "runs",
        "tasks",
        "timers",
        "unfinished_turns",
    )

    def __init__(self) -> None:
        self.jobs: dict[str, JobState] = {}
        self.nodes: dict[tuple[str, str], NodeRow] = {}
        # By job, node and index.
        self.iterations: dict[tuple[str, int, int], IterationRow] = {}
        self.call_outputs: list[CallOutputRow] = []
        self.chunks: list[CollectionChunkRow] = []
        self.events: dict[str, list[Event]] = {}
        # By job, for jobs with events: all their nodes in flight without a row, not only those of this batch.
        self.in_flight: dict[str, tuple[InFlightEntry, ...]] = {}
        self.tasks: list[Task] = []
        self.cancels: list[str] = []
        self.timers: list[Timer] = []
        self.requests: list[str] = []
        # The verdicts on stored reports that are applied, by result id.
        self.results: dict[str, ReportVerdict] = {}
        self.finished: list[str] = []
        self.merges: list[MergeOutputs] = []
        # Jobs with ready nodes beyond the bound of one turn; the engine sends them Continue.
        self.unfinished_turns: list[str] = []
        self.arrivals: list[Arrival] = []
        # None in most batches, because few workflows have runs.
        self.runs: RunChanges | None = None

    def of_runs(self) -> RunChanges:
        """Return the changes of runs, schedules and deliveries."""
        if self.runs is None:
            self.runs = RunChanges()
        return self.runs

    def __bool__(self) -> bool:
        return bool(
            self.jobs or self.nodes or self.events or self.requests or self.results or self.runs
        )
