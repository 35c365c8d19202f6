"""What a turn of the core wants stored and released: rows, events, tasks, cancels, timers.

Instants are integers: microseconds since the epoch, UTC. JSON values travel encoded (`Raw`), once.
"""

from msgspec import Raw, Struct

from windlass.core.events import Event
from windlass.core.jobs import JobState
from windlass.core.messages import RetryRequested
from windlass.core.report_verdict import ReportVerdict
from windlass.core.runs.changes import RunChanges


class NodeRow(Struct, frozen=True, array_like=True, gc=False):
    """A node as stored: the whole row, written again on each change."""

    job_id: str
    node_id: str
    status: str
    attempt: int
    # Attempts made before the last operator's retry: they do not count against max_attempts.
    attempts_before: int
    losses: int
    first_seq: int | None
    dispatched_at: int | None
    started_at: int | None
    completed_at: int | None
    due_at: int | None
    worker_id: str | None
    output: Raw | None
    error: Raw | None
    meta: Raw | None
    # The node's place in its plan. Nodes that run at one time have neighbouring numbers, and so neighbouring rows.
    number: int = 0
    # How far a loop or a series of calls came, where there is one.
    progress: Raw | None = None


class InFlightEntry(Struct, frozen=True, array_like=True, gc=False):
    """A node that is out with a worker for the first time and has no row yet: its job's newest page of events says so.

    Most nodes come back before anything else happens to them, and then have cost one row and not two.
    """

    number: int
    node_id: str
    first_seq: int
    dispatched_at: int

    def row(self, job_id: str) -> NodeRow:
        """The row that it stands for."""
        return NodeRow(
            job_id, self.node_id, "dispatched", 1, 0, 0, self.first_seq, self.dispatched_at, None, None, None, None,
            None, None, None, self.number,
        )  # fmt: skip


class IterationRow(Struct, frozen=True, array_like=True, gc=False):
    """An iteration of a loop as stored. One that was begun and has no row is out with a worker for the first time."""

    job_id: str
    number: int
    generation: int
    index: int
    status: str
    attempt: int
    attempts_before: int
    losses: int
    first_seq: int | None
    dispatched_at: int | None
    started_at: int | None
    completed_at: int | None
    due_at: int | None
    worker_id: str | None
    output: Raw | None = None
    error: Raw | None = None
    meta: Raw | None = None
    progress: Raw | None = None


class CallOutputRow(Struct, frozen=True, array_like=True, gc=False):
    """What one call of a series brought, until the series is over. The index is -1 outside of loops."""

    job_id: str
    number: int
    generation: int
    index: int
    call: int
    output: Raw


class CollectionChunkRow(Struct, frozen=True, array_like=True, gc=False):
    """Some elements of a recorded collection, as one JSON array."""

    job_id: str
    number: int
    generation: int
    chunk: int
    body: bytes


class MergeOutputs(Struct, frozen=True, gc=False):
    """Outputs that lie in rows are to be put together, and their job told (`OutputsMerged`)."""

    job_id: str
    node_id: str
    number: int
    generation: int
    # None: the iterations of a loop. Else the calls of one iteration, or of the node itself (-1).
    index: int | None
    # How many iterations or calls there were.
    count: int
    # Whether each part is a list whose elements are meant, or one element itself.
    spliced: bool
    # The attempt that waits for it: what was asked for earlier, before a retry, is not what is wanted now.
    attempt: int = 0


class SinkSpec(Struct, frozen=True, gc=False):
    """Where an attempt's output is to be written, its templates rendered."""

    tool: str
    # A JSON object: table, connection, mode, …
    options: bytes
    # Where in the output the rows are, when the sink does not say: the path at which the node merges its pages.
    path: tuple[str, ...] = ()
    # Names this run of the node, over all its iterations and pages: what `replace` replaces once.
    run_key: str = ""


class Task(Struct, frozen=True, omit_defaults=True, gc=False):
    """One attempt for a worker. Published twice under one id, it is taken once."""

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
    # Attempts made since the job began or was retried, less one: what the author's rules count.
    retry_count: int = 0
    # Stable over redeliveries and retries of the same piece of work: an iteration, a page.
    idempotency_key: str = ""
    sink: SinkSpec | None = None
    # Keys of artifacts that stand in `params` as {"$artifact": key}; any other such object is just data.
    artifacts: tuple[str, ...] = ()


class Timer(Struct, frozen=True, gc=False):
    """Wake the job at `due_at`. Kept in memory: rows hold the instant, recovery sets it again."""

    due_at: int
    job_id: str
    kind: str
    node_id: str | None = None
    attempt: int = 0
    index: int = 0
    round: int = 0


class Changes:
    """All that a batch of messages brought about. Rows are keyed, so the last state of a batch wins."""

    __slots__ = (
        "arrivals",
        "blocks",
        "cancels",
        "events",
        "finished",
        "gathers",
        "in_flight",
        "iterations",
        "jobs",
        "nodes",
        "pages",
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
        self.pages: list[CallOutputRow] = []
        self.blocks: list[CollectionChunkRow] = []
        self.events: dict[str, list[Event]] = {}
        # By job, for those with events: all its nodes that are out and have no row, not only those of this batch.
        self.in_flight: dict[str, tuple[InFlightEntry, ...]] = {}
        self.tasks: list[Task] = []
        self.cancels: list[str] = []
        self.timers: list[Timer] = []
        self.requests: list[str] = []
        # The verdicts on reports that are stored and applied now, by result id.
        self.results: dict[str, ReportVerdict] = {}
        self.finished: list[str] = []
        self.gathers: list[MergeOutputs] = []
        # Jobs whose ready nodes exceeded the bound of one turn; the shell sends them Continue.
        self.unfinished_turns: list[str] = []
        # Jobs that may begin, or be retried, only when the rules about runs say so; with the request, if there is one.
        self.arrivals: list[tuple[str, RetryRequested | None]] = []
        # None for most batches: few workflows have runs.
        self.runs: RunChanges | None = None

    def of_runs(self) -> RunChanges:
        """Where rows of runs, schedules and deliveries go."""
        if self.runs is None:
            self.runs = RunChanges()
        return self.runs

    def __bool__(self) -> bool:
        return bool(self.jobs or self.nodes or self.events or self.requests or self.results or self.runs)
