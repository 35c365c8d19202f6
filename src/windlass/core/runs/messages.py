"""Inputs of the rules about runs: messages, which an inbox carries, and signals, which the engine raises itself."""

from enum import StrEnum, unique

from msgspec import Struct

from windlass.core.ids import JobId, RunId, WorkflowId


@unique
class RunWait(StrEnum):
    """What a run waits for when it has a timer."""

    # Its slot, or the instant at which its job is to start.
    START = "run_start"
    # The next check of its constraints.
    CHECK = "run_check"
    # The end of other runs; the timer bounds the wait.
    OTHERS = "run_wait"
    RETRY = "run_retry"
    # The next check of what other runs do not change, while it waits.
    RECHECK = "run_recheck"
    # The bounds on its duration: until its first task starts, expected, and allowed.
    START_LIMIT = "run_start_limit"
    SLOW = "run_slow"
    LIMIT = "run_limit"


# Waits for instants of the wall clock. All others end after a duration.
WALL_WAITS = frozenset({RunWait.START})


# Messages


class RunDue(Struct, frozen=True, tag="run_due", gc=False):
    """A timer of a run fired."""

    workflow_id: WorkflowId
    run_id: RunId
    kind: RunWait


class ScheduleChanged(Struct, frozen=True, tag="schedule_changed", gc=False):
    """The row of a schedule was written by another process: deployed, deleted, paused or resumed."""

    workflow_id: WorkflowId


class RunRequested(Struct, frozen=True, tag="run_requested", omit_defaults=True):
    """A request to cancel a run ('cancel') or to run slots of a schedule ('backfill')."""

    workflow_id: WorkflowId
    request_id: str
    kind: str
    # Of a cancel.
    run_id: RunId | None = None
    reason: str | None = None
    # Of a backfill: the slots after `since` and up to `until`.
    since: int | None = None
    until: int | None = None


class RunLost(Struct, frozen=True):
    """No engine served the run for longer than is allowed. Raised by recovery; no inbox carries it."""

    workflow_id: WorkflowId
    run_id: RunId
    silent_seconds: float


RunMessage = RunDue | ScheduleChanged | RunRequested | RunLost


# Signals


class JobArrived(Struct, frozen=True):
    """A job of a workflow whose jobs are runs was submitted; or, with a request, is to be retried after its end."""

    job_id: JobId
    workflow_id: WorkflowId
    version: int
    created_at: int
    scheduled_at: int | None
    request_id: str | None = None
    from_node: str | None = None
    # Actions `trigger_job` that led to the job, one after the other.
    depth: int = 0
    # Of the job: submit, trigger_job or rerun.
    origin: str = "submit"


class JobStarted(Struct, frozen=True):
    """The first task of a run's job has started."""

    job_id: JobId
    # As the worker reported it, which may be a little later.
    started_at: int


class Container(Struct, frozen=True):
    """What an attempt reports about the container it ran."""

    exit_code: int | None = None
    pod_start_seconds: float | None = None
    api_calls: int = 0
    # The task that the attempt was one of; set by the core.
    task: str = ""


class ContainerEnded(Struct, frozen=True):
    """An attempt of a run's job ran a container."""

    job_id: JobId
    container: Container


class JobFinished(Struct, frozen=True):
    """A job finished: that of a run, or one that made a call for it."""

    job_id: JobId
    status: str
    error: str | None = None
    # Of a call: why its answer forbids the run, if it does.
    refusal: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the job did not complete; None if it did."""
        if self.status == "completed":
            return None
        return self.error or "the call failed"


class JobRefused(Struct, frozen=True):
    """The job of a run could not be created or retried."""

    run_id: RunId
    error: str


class JobTriggered(Struct, frozen=True):
    """The job that an action starts was created, or could not be."""

    run_id: RunId
    purpose: str
    job_id: JobId
    error: str | None = None


RunSignal = JobArrived | JobStarted | ContainerEnded | JobFinished | JobRefused | JobTriggered
