"""Runs in memory: those of a shard that have not finished, by workflow, and the state of its schedules."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from windlass.core.ids import JobId, RunId, WorkflowId
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import OF_SLOTS
from windlass.core.runs.changes import RunTimer
from windlass.core.runs.messages import RunWait
from windlass.core.runs.rows import RunDetail, RunRow, ScheduleRow
from windlass.core.runs.rules import PRE_RUN_HOOK, RunRules
from windlass.core.runs.states import RUN_FINAL, RunState

# Ended runs that are remembered, because their rows may not be committed yet.
FINISHED_MAX = 10_000

R = RunState
# Runs in these states count against the limit of concurrent runs; so do runs between their attempts.
BUSY = frozenset({R.CONTAINER_CREATING, R.RUNNING, R.TERMINATING, R.RETRYING})
RETRY = "retry"
NO_RULES = RunRules()
BOUNDS = (RunWait.START_LIMIT, RunWait.SLOW, RunWait.LIMIT)


class Run:
    """One run. Only a turn writes its state, by the table of moves."""

    __slots__ = (
        "attempt", "completed_at", "created_at", "detail", "id", "is_stored", "job_id", "previous_state",
        "scheduled_at", "shard", "state", "state_at", "succeeded", "version", "workflow_id",
    )  # fmt: skip

    def __init__(self, row: RunRow, *, is_stored: bool) -> None:
        self.id = row.run_id
        self.workflow_id = row.workflow_id
        self.version = row.version
        self.shard = row.shard
        self.state = row.state
        self.previous_state = row.previous_state
        self.scheduled_at = row.scheduled_at
        self.created_at = row.created_at
        self.state_at = row.state_at
        self.completed_at = row.completed_at
        self.job_id = row.job_id
        self.attempt = row.attempt
        self.detail = _copied(row.detail)
        self.succeeded = row.succeeded
        # Whether it has a row, which is then updated, or gets one.
        self.is_stored = is_stored

    def row(self) -> RunRow:
        """Return the row as it is now; later changes of the run do not affect it."""
        return RunRow(
            run_id=self.id,
            workflow_id=self.workflow_id,
            version=self.version,
            shard=self.shard,
            state=self.state,
            previous_state=self.previous_state,
            scheduled_at=self.scheduled_at,
            created_at=self.created_at,
            state_at=self.state_at,
            completed_at=self.completed_at,
            job_id=self.job_id,
            attempt=self.attempt,
            detail=_copied(self.detail),
            succeeded=self.succeeded,
        )

    def add_reason(self, reason: str) -> None:
        """Record why it fails; an earlier reason stays first."""
        known = self.detail.reason
        self.detail.reason = reason if known is None else f"{known}; {reason}"

    def timer(self, due_at: int, kind: RunWait) -> RunTimer:
        """Return a timer of the run."""
        return RunTimer(due_at, self.workflow_id, self.id, kind)

    @property
    def is_final(self) -> bool:
        """Whether it has finished."""
        return self.state in RUN_FINAL

    @property
    def is_busy(self) -> bool:
        """Whether it counts against the limit of concurrent runs."""
        return self.state in BUSY or (self.attempt > 0 and not self.is_final)

    @property
    def is_asking(self) -> bool:
        """Whether the hook before it is being asked. It keeps its room until the answer."""
        return PRE_RUN_HOOK in self.detail.calls.values()

    @property
    def holds_room(self) -> bool:
        """Whether other runs have to wait for its room."""
        return self.is_busy or self.is_asking

    @property
    def has_submitted_job(self) -> bool:
        """Whether its job was submitted, and waits to be admitted."""
        return self.detail.origin not in OF_SLOTS and self.detail.origin != RETRY

    @property
    def is_planned(self) -> bool:
        """Whether it is the next run of its schedule, which has no events yet."""
        return self.state is R.PRE_RUN and self.detail.origin == "schedule"

    @property
    def is_waiting(self) -> bool:
        """Whether it is queued behind other runs."""
        return self.state is R.ACTION_RUNNING and self.detail.due_kind is RunWait.OTHERS

    @property
    def is_queued_for_room(self) -> bool:
        """Whether it is queued only until there is room, however long that takes."""
        return self.is_waiting and self.detail.due_at is None

    @property
    def queue_position(self) -> tuple[int, int, RunId]:
        """The sort key of its place in that queue: the order of the slots."""
        return (self.scheduled_at, self.created_at, self.id)

    @property
    def job_ids(self) -> list[JobId]:
        """Its job and the jobs that make its calls."""
        found = list(self.detail.calls)
        if self.job_id is not None:
            found.append(self.job_id)
        return found


def _copied(detail: RunDetail) -> RunDetail:
    return structs.replace(
        detail,
        transitions=list(detail.transitions),
        violations=list(detail.violations),
        actions=list(detail.actions),
        calls=dict(detail.calls),
        durations=dict(detail.durations),
        earlier_jobs=list(detail.earlier_jobs),
    )


class WorkflowRuns:
    """The runs of one workflow that have not finished, whether the last one succeeded, and the workflow's schedule."""

    __slots__ = ("last_succeeded", "runs", "schedule", "workflow_id")

    def __init__(self, workflow_id: WorkflowId) -> None:
        self.workflow_id = workflow_id
        self.runs: dict[RunId, Run] = {}
        # None: there was no run.
        self.last_succeeded: bool | None = None
        self.schedule: ScheduleRow | None = None

    @property
    def planned(self) -> Run | None:
        """The next run of the schedule."""
        return next((run for run in self.runs.values() if run.is_planned), None)

    def holding_room(self, besides: Run) -> list[Run]:
        """Return the other runs that count against the limit of concurrent runs, or may soon."""
        return [run for run in self.runs.values() if run.holds_room and run is not besides]

    @property
    def is_making_up(self) -> bool:
        """Whether a made-up slot is active or queued."""
        return any(
            run.detail.is_catch_up and (run.holds_room or run.is_waiting)
            for run in self.runs.values()
        )

    def of_slot(self, slot_at: int) -> Run | None:
        """Return the run of a slot that has not finished."""
        return next(
            (
                run
                for run in self.runs.values()
                if run.scheduled_at == slot_at and run.detail.origin in OF_SLOTS
            ),
            None,
        )

    def waiting(self) -> list[Run]:
        """Return the runs that are queued behind others, first one first."""
        return sorted(
            (run for run in self.runs.values() if run.is_waiting),
            key=lambda run: run.queue_position,
        )


class RunRegistry:
    """All runs of a shard, as the rules need them."""

    __slots__ = (
        "_by_id",
        "_finished",
        "by_job",
        "creating",
        "heartbeats",
        "rules",
        "shard",
        "workflows",
    )

    def __init__(self, shard: int) -> None:
        self.shard = shard
        # How often an engine recorded that it serves the runs of the shard.
        self.heartbeats = 0
        self.workflows: dict[WorkflowId, WorkflowRuns] = {}
        # By the id of the run's job, and of the jobs that make its calls.
        self.by_job: dict[JobId, Run] = {}
        # Jobs none of whose tasks has started yet, with the number of their last event when they were admitted.
        self.creating: dict[JobId, int] = {}
        # The rules of versions in use; the engine adds those that a message needs.
        self.rules: dict[tuple[WorkflowId, int], RunRules] = {}
        self._by_id: dict[RunId, Run] = {}
        self._finished: dict[RunId, None] = {}

    def clear(self) -> None:
        """Discard everything, before the rows are read again."""
        self.workflows.clear()
        self.by_job.clear()
        self.creating.clear()
        self.rules.clear()
        self._by_id.clear()
        self._finished.clear()

    def workflow(self, workflow_id: WorkflowId) -> WorkflowRuns:
        """Return the runs of a workflow."""
        return self.workflows.setdefault(workflow_id, WorkflowRuns(workflow_id))

    def runs(self) -> Iterator[Run]:
        """Iterate over all runs that have not finished."""
        return iter(self._by_id.values())

    def find(self, run_id: RunId) -> Run | None:
        """Return a run that has not finished."""
        return self._by_id.get(run_id)

    def is_known(self, run_id: RunId) -> bool:
        """Return whether a run exists in memory, or finished recently."""
        return run_id in self._finished or run_id in self._by_id

    def rules_of(self, run: Run) -> RunRules:
        """Return the rules of the run's version, which may be none."""
        return self.rules.get((run.workflow_id, run.version), NO_RULES)

    def add(self, run: Run) -> None:
        """Add a run that has not finished."""
        self._by_id[run.id] = run
        self.workflow(run.workflow_id).runs[run.id] = run
        for job_id in run.job_ids:
            self.by_job[job_id] = run

    def restore(self, rows: Iterable[RunRow]) -> None:
        """Add runs from their rows."""
        for row in rows:
            self.add(Run(row, is_stored=True))

    def remove(self, run: Run) -> None:
        """Remove a run."""
        self._by_id.pop(run.id, None)
        self.workflow(run.workflow_id).runs.pop(run.id, None)
        for job_id in run.job_ids:
            self.forget_job(job_id)

    def close(self, run: Run) -> None:
        """Remove a run that has finished, and remember its id."""
        self.remove(run)
        self._finished[run.id] = None
        while len(self._finished) > FINISHED_MAX:
            del self._finished[next(iter(self._finished))]

    def forget_job(self, job_id: JobId) -> None:
        """Ignore from now on what happens to a job."""
        self.by_job.pop(job_id, None)
        self.creating.pop(job_id, None)

    def timers(self) -> list[RunTimer]:
        """Return the timers of all runs, from their rows."""
        found: list[RunTimer] = []
        for run in self.runs():
            detail = run.detail
            if detail.due_at is not None and detail.due_kind is not None:
                found.append(run.timer(detail.due_at, detail.due_kind))
            if detail.recheck_at is not None:
                found.append(run.timer(detail.recheck_at, RunWait.RECHECK))
            found += bounds(run, self.rules_of(run))
        return found


def bounds(run: Run, rules: RunRules) -> list[RunTimer]:
    """Return the timers that bound the duration of a run that was launched."""
    found = {kind: bound_at(run, rules, kind) for kind in BOUNDS}
    return [run.timer(due_at, kind) for kind, due_at in found.items() if due_at is not None]


def bound_at(run: Run, rules: RunRules, kind: RunWait) -> int | None:
    """Return when a run reaches a bound on its duration; None if the bound does not apply to it."""
    constraints, detail = rules.constraints, run.detail
    match kind:
        case RunWait.START_LIMIT:
            since = run.state_at if run.state is R.CONTAINER_CREATING else None
            seconds = constraints.start_timeout_seconds
        case RunWait.SLOW:
            since, seconds = detail.launched_at, constraints.max_expected_run_seconds
        case _:
            since, seconds = detail.launched_at, constraints.max_allowed_run_seconds
    if since is None or seconds is None:
        return None
    return since + round(seconds * MICROSECONDS)
