"""What a batch wants stored of runs, schedules and deliveries, besides what it wants stored of jobs."""

from msgspec import Struct

from windlass.core.jobs import JobSpec
from windlass.core.runs.messages import Container
from windlass.core.runs.rows import DeliveryRow, RunRow


class ScheduleMark(Struct, frozen=True, array_like=True):
    """The part of a schedule's row that its shard writes."""

    workflow_id: str
    slot_at: int
    seq: int


class RunChanges:
    """Rows are keyed, so the last state of a batch wins."""

    __slots__ = ("containers", "deliveries", "fresh", "hints", "jobs", "requests", "runs", "schedules", "withdrawn")

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}
        # Those of the runs that have no row yet: a second one under the same id must fail, not write over it.
        self.fresh: set[str] = set()
        # Planned runs that are not to be.
        self.withdrawn: list[str] = []
        self.schedules: dict[str, ScheduleMark] = {}
        # Jobs to be made, each with its first event.
        self.jobs: list[JobSpec] = []
        # Ids of requests about runs that are applied now.
        self.requests: list[str] = []
        self.deliveries: list[DeliveryRow] = []
        # Of jobs that are runs: what attempts told that ran containers. The figures of the run take it in.
        self.containers: list[tuple[str, Container]] = []
        # Jobs of other shards that are made here: whom to tell, after the commit.
        self.hints: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self.runs or self.withdrawn or self.schedules or self.jobs or self.requests or self.deliveries)
