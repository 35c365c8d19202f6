"""What can happen to a job, in the past tense. Messages carry everything that chance or a clock decided."""

from typing import ClassVar

from msgspec import Raw, Struct

from windlass.core.jobs import JobSpec
from windlass.core.runs.messages import RunAsked, RunDue, ScheduleChanged


class TaskError(Struct, frozen=True, omit_defaults=True):
    """Why an attempt failed. `retryable` is the worker's opinion; the author's `when` may overrule it."""

    # The type of an attempt whose process died under it: a loss of infrastructure, not the author's error.
    WORKER_LOST: ClassVar[str] = "worker_lost"

    type: str
    message: str
    retryable: bool = True
    status: int | None = None
    retry_after_seconds: float | None = None
    traceback: str | None = None
    # app, timeout, infra, rate_limited or cancelled; told by the core, whoever reports the error.
    failure_class: str | None = None
    # Set by the core: the attempt was closed without a report of its worker.
    without_result: bool = False


class Succeeded(Struct, frozen=True, tag="succeeded", omit_defaults=True, gc=False):
    """The handler returned. `output` is its JSON, encoded once; `meta` a JSON object or None."""

    output: Raw
    meta: Raw | None = None


class Failed(Struct, frozen=True, tag="failed", omit_defaults=True, gc=False):
    """The handler raised, timed out, or was refused its params."""

    error: TaskError
    meta: Raw | None = None


class Submitted(Struct, frozen=True, tag="submitted", omit_defaults=True, gc=False):
    """A job was stored and may start. `spec` saves the owner of its shard a look at the database."""

    job_id: str
    spec: JobSpec | None = None


class RunAdmitted(Struct, frozen=True, tag="released", gc=False):
    """The rules about runs let a job begin; its submit alone does not."""

    job_id: str


class Continue(Struct, frozen=True, tag="proceeded", gc=False):
    """The job has ready nodes left over from a turn that reached its bound."""

    job_id: str


class TaskStarted(Struct, frozen=True, tag="task_started", omit_defaults=True, gc=False):
    """A worker has been running an attempt for a while (short ones report only their end)."""

    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    started_at: int
    index: int = 0


class TaskFinished(Struct, frozen=True, tag="task_finished", omit_defaults=True, gc=False):
    """An attempt ended. `seed` feeds the jitter of a retry, so that a replay decides the same."""

    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    started_at: int
    finished_at: int
    outcome: Succeeded | Failed
    index: int = 0
    seed: int = 0
    # The id of the row that holds this result, when it was stored before it was sent.
    result_id: str | None = None
    # What the worker said about the state of things, for the event that tells of this end.
    context: Raw | None = None


class TaskLost(Struct, frozen=True, tag="task_lost", omit_defaults=True, gc=False):
    """The worker that held an attempt is gone; `losses` counts how often that happened to this attempt."""

    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    losses: int
    index: int = 0


class TimerDue(Struct, frozen=True, tag="timer_due", omit_defaults=True, gc=False):
    """A wait is over: `kind` is 'retry', 'node_timeout', 'loop_timeout' (with node, attempt, and index in a loop),
    'job_timeout' (with round) or 'begin'."""

    job_id: str
    kind: str
    node_id: str | None = None
    attempt: int = 0
    index: int = 0
    round: int = 0


class OutputsMerged(Struct, frozen=True, tag="gathered", gc=False):
    """Outputs that lay in rows were put together; `error` when they cannot be. The index is as in what was asked."""

    job_id: str
    node_id: str
    generation: int
    index: int | None
    output: Raw
    error: TaskError | None = None
    attempt: int = 0


class CancelRequested(Struct, frozen=True, tag="cancel_requested"):
    """Somebody asked for the job to stop."""

    job_id: str
    request_id: str
    reason: str | None = None


class RetryRequested(Struct, frozen=True, tag="retry_requested"):
    """Somebody asked for a finished job's failed and cancelled nodes to run again (or `from_node` and all after it)."""

    # What a request's id begins with that a run made of its own job; nobody else's does.
    OF_RUN: ClassVar[str] = "run:"

    job_id: str
    request_id: str
    from_node: str | None = None


Message = (
    Submitted
    | RunAdmitted
    | Continue
    | TaskStarted
    | TaskFinished
    | TaskLost
    | TimerDue
    | OutputsMerged
    | CancelRequested
    | RetryRequested
    | RunDue
    | ScheduleChanged
    | RunAsked
)
