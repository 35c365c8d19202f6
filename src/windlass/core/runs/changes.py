"""What a batch changes about runs, schedules and deliveries, besides its changes of jobs."""

from msgspec import Struct

from windlass.core.events import Event
from windlass.core.ids import JobId, RunId, WorkflowId
from windlass.core.jobs import JobSpec
from windlass.core.runs.messages import WALL_WAITS, Container, RunDue, RunWait
from windlass.core.runs.rows import DeliveryRow, RunRow

# The run id under which the events of a schedule are stored.
NO_RUN: RunId = ""


class ScheduleMark(Struct, frozen=True, array_like=True):
    """The part of a schedule's row that its shard writes."""

    workflow_id: WorkflowId
    slot_at: int
    seq: int


class RunTimer(Struct, frozen=True, gc=False):
    """Wake the run at `due_at`. Kept in memory: rows hold the instant, recovery sets it again."""

    due_at: int
    workflow_id: WorkflowId
    run_id: RunId
    kind: RunWait

    @property
    def follows_wall_clock(self) -> bool:
        """Whether the instant is one of the wall clock, and not the end of a duration."""
        return self.kind in WALL_WAITS

    def message(self) -> RunDue:
        """Return what is sent when the timer fires."""
        return RunDue(self.workflow_id, self.run_id, self.kind)


class RunChanges:
    """Rows are keyed, so the last state of a batch wins."""

    __slots__ = (
        "containers",
        "deliveries",
        "events",
        "inserted",
        "jobs",
        "notifications",
        "requests",
        "runs",
        "schedules",
        "timers",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.runs: dict[RunId, RunRow] = {}
        # Those of the runs that have no row yet: a second run with the same id must fail, not replace the first.
        self.inserted: set[RunId] = set()
        # Planned runs whose rows are removed.
        self.withdrawn: list[RunId] = []
        # By workflow and run; the events of the workflow's schedule have NO_RUN.
        self.events: dict[tuple[WorkflowId, RunId], list[Event]] = {}
        self.schedules: dict[WorkflowId, ScheduleMark] = {}
        # Jobs to create, each with its first event.
        self.jobs: list[JobSpec] = []
        # Ids of requests about runs that are applied by this commit.
        self.requests: list[str] = []
        self.deliveries: list[DeliveryRow] = []
        self.timers: list[RunTimer] = []
        # Of jobs of runs: containers that their attempts ran, for the metrics of the run.
        self.containers: list[tuple[JobId, Container]] = []
        # Jobs created here that other shards own: shard and job, to notify after the commit.
        self.notifications: list[tuple[int, JobId]] = []

    def __bool__(self) -> bool:
        rows = self.runs or self.withdrawn or self.events or self.schedules
        return bool(rows or self.jobs or self.requests or self.deliveries)
