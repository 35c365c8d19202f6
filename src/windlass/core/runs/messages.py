"""What can happen to runs and schedules, in the past tense.

Those that travel through an inbox have a `job_id` with a colon in it: a run's id, or `{workflow_id}:` for a schedule.
"""

from msgspec import Struct


class RunDue(Struct, frozen=True, tag="run_due", gc=False):
    """A wait of a run is over: `kind` is 'run_start', 'run_check', 'run_wait', 'run_retry', 'run_slow', 'run_limit'."""

    job_id: str
    kind: str


class ScheduleChanged(Struct, frozen=True, tag="schedule_changed", gc=False):
    """The row of a schedule was written by somebody else: deployed, deleted, paused, resumed."""

    job_id: str


class RunAsked(Struct, frozen=True, tag="run_asked"):
    """Somebody asked for a run to be cancelled ('cancel') or for slots to be run ('backfill')."""

    job_id: str
    request_id: str
    kind: str
    reason: str | None = None
    since: int | None = None
    until: int | None = None


RunMessage = RunDue | ScheduleChanged | RunAsked


class RunLost(Struct, frozen=True):
    """Nobody served the run for longer than is allowed."""

    run_id: str
    silent_seconds: float


class JobArrived(Struct, frozen=True):
    """A job of a workflow whose jobs are runs was submitted; or, with a request, is to be retried after its end."""

    job_id: str
    workflow_id: str
    version: int
    created_at: int
    scheduled_at: int | None
    request_id: str | None = None
    from_node: str | None = None


class JobStarted(Struct, frozen=True):
    """The first task of a run's job has really started."""

    job_id: str
    at: int


class Container(Struct, frozen=True):
    """What an attempt that ran a container tells of it."""

    exit_code: int | None = None
    pod_start_seconds: float | None = None
    api_calls: int = 0


class ContainerEnded(Struct, frozen=True):
    """An attempt of a run's job ran a container."""

    job_id: str
    container: Container


class JobEnded(Struct, frozen=True):
    """A job ended: that of a run, or one that made a call for it."""

    job_id: str
    status: str
    error: str | None = None
    # Of a call: whether its answer forbids the run, and why.
    refusal: str | None = None


class JobRefused(Struct, frozen=True):
    """A run's job could not be made."""

    run_id: str
    error: str


class JobTriggered(Struct, frozen=True):
    """What became of the job that an action was to start."""

    run_id: str
    purpose: str
    job_id: str
    error: str | None = None


RunNews = RunLost | JobArrived | JobStarted | ContainerEnded | JobEnded | JobRefused | JobTriggered
