"""Messages: what happened to a job, in the past tense, with every random or clock value that a decision needs."""

from collections.abc import Sequence
from enum import StrEnum, unique
from typing import ClassVar, Protocol, Self, cast

from msgspec import Raw, Struct

from windlass.core.ids import JobId, NodeId
from windlass.core.jobs import JobSpec
from windlass.core.runs.messages import RunDue, RunLost, RunMessage, RunRequested, ScheduleChanged


class TaskIdentity(Protocol):
    """The fields of a `Task` or a `TaskId` that identify the attempt."""

    @property
    def job_id(self) -> JobId: ...

    @property
    def node_id(self) -> NodeId: ...

    @property
    def attempt(self) -> int: ...

    @property
    def index(self) -> int | None: ...


class TaskError(Struct, frozen=True, omit_defaults=True):
    """Why an attempt failed. `retryable` is the worker's opinion; the author's `when` may overrule it."""

    # The type of an attempt whose process died: an infrastructure failure, not an error of the handler.
    WORKER_LOST: ClassVar[str] = "worker_lost"

    type: str
    message: str
    retryable: bool = True
    status: int | None = None
    retry_after_seconds: float | None = None
    traceback: str | None = None
    # app, timeout, infra, rate_limited or cancelled; set by the core.
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
    """A job was stored and may start. `spec` saves the owner of its shard a query."""

    job_id: JobId
    spec: JobSpec | None = None


class RunAdmitted(Struct, frozen=True, tag="run_admitted", gc=False):
    """The rules about runs let a job start; for a job of a run the submit alone does not."""

    job_id: JobId


class Continue(Struct, frozen=True, tag="continue", gc=False):
    """The job has ready nodes left over from a turn that reached its bound."""

    job_id: JobId


class TaskStarted(Struct, frozen=True, tag="task_started", omit_defaults=True, gc=False):
    """A worker has been running an attempt for a while (short ones report only their end)."""

    job_id: JobId
    node_id: NodeId
    attempt: int
    worker_id: str
    started_at: int
    index: int = 0

    @classmethod
    def of(cls, task: TaskIdentity, worker_id: str, started_at: int) -> Self:
        """Return the message about a task."""
        return cls(
            job_id=task.job_id,
            node_id=task.node_id,
            attempt=task.attempt,
            worker_id=worker_id,
            started_at=started_at,
            index=task.index or 0,
        )


class TaskFinished(Struct, frozen=True, tag="task_finished", omit_defaults=True, gc=False):
    """An attempt ended. `seed` feeds the jitter of a retry, so that a replay decides the same."""

    job_id: JobId
    node_id: NodeId
    attempt: int
    worker_id: str
    # None if the worker did not say how long it ran the attempt.
    started_at: int | None
    finished_at: int
    outcome: Succeeded | Failed
    index: int = 0
    seed: int = 0
    # The id of the row that holds this result, when it was stored before it was sent.
    result_id: str | None = None
    # The worker's context for the event of this end.
    context: Raw | None = None
    # Of a stored result: whether its worker held the task, which is then removed with the report.
    is_held: bool = False

    @property
    def microseconds(self) -> int | None:
        """How long the worker ran the attempt, if known; at least 0, because its clock may have been set back."""
        if self.started_at is None:
            return None
        elapsed = self.finished_at - self.started_at
        return elapsed if elapsed > 0 else 0

    @classmethod
    def of(
        cls,
        task: TaskIdentity,
        worker_id: str,
        outcome: Succeeded | Failed,
        *,
        started_at: int | None,
        finished_at: int,
        seed: int = 0,
        result_id: str | None = None,
        context: Raw | None = None,
    ) -> Self:
        """Return the message about a task."""
        return cls(
            job_id=task.job_id,
            node_id=task.node_id,
            attempt=task.attempt,
            worker_id=worker_id,
            started_at=started_at,
            finished_at=finished_at,
            outcome=outcome,
            index=task.index or 0,
            seed=seed,
            result_id=result_id,
            context=context,
        )


class TaskLost(Struct, frozen=True, tag="task_lost", omit_defaults=True, gc=False):
    """The worker that held an attempt was lost; `losses` counts how often that happened to this attempt."""

    job_id: JobId
    node_id: NodeId
    attempt: int
    worker_id: str
    losses: int
    index: int = 0

    @classmethod
    def of(cls, task: TaskIdentity, worker_id: str, losses: int) -> Self:
        """Return the message about a task."""
        return cls(
            job_id=task.job_id,
            node_id=task.node_id,
            attempt=task.attempt,
            worker_id=worker_id,
            losses=losses,
            index=task.index or 0,
        )


@unique
class TimerKind(StrEnum):
    """What a timer of a job is for."""

    # The scheduled start of the job.
    BEGIN = "begin"
    # The timeout of the job, in one round.
    JOB_TIMEOUT = "job_timeout"
    # The timeout of a loop, with its node and the attempt of the node.
    LOOP_TIMEOUT = "loop_timeout"
    # The timeout of an attempt and the next attempt after a delay, with node, attempt, and index in a loop.
    NODE_TIMEOUT = "node_timeout"
    RETRY = "retry"
    # The time within which a worker must start an attempt.
    START_TIMEOUT = "start_timeout"


# Timers at instants that a caller named. All others end durations.
WALL_TIMERS = frozenset({TimerKind.BEGIN})


class TimerDue(Struct, frozen=True, tag="timer_due", omit_defaults=True, gc=False):
    """A timer fired. Its kind determines which of the other fields it has."""

    job_id: JobId
    kind: TimerKind
    node_id: NodeId | None = None
    attempt: int = 0
    index: int = 0
    round: int = 0


class OutputsMerged(Struct, frozen=True, tag="outputs_merged", gc=False):
    """Outputs in rows were merged; `error` when they cannot be. The index is that of MergeOutputs."""

    job_id: JobId
    node_id: NodeId
    generation: int
    index: int | None
    output: Raw
    error: TaskError | None = None
    attempt: int = 0


class CancelRequested(Struct, frozen=True, tag="cancel_requested"):
    """The job is to stop."""

    job_id: JobId
    # The stored request; None when a run cancels its job.
    request_id: str | None
    reason: str | None = None
    # The round of the job that the request is about; None when a run cancels its job.
    round: int | None = None


class RetryRequested(Struct, frozen=True, tag="retry_requested"):
    """The failed and cancelled nodes of a finished job are to run again (or `from_node` and all after it)."""

    job_id: JobId
    # The stored request; None when a run retries its job.
    request_id: str | None
    from_node: NodeId | None = None
    # The round of the job that the request is about; None when a run retries its job.
    round: int | None = None

    @property
    def is_by_run(self) -> bool:
        """Whether the rules about runs decided it."""
        return self.request_id is None


JobMessage = (
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
)
# What an inbox carries.
Message = JobMessage | RunMessage

_RUN_MESSAGE_TYPES = frozenset({RunDue, ScheduleChanged, RunRequested, RunLost})


def split_batch(batch: Sequence[Message]) -> tuple[Sequence[JobMessage], Sequence[RunMessage]]:
    """Return the messages about jobs and those about runs, each in their order."""
    # Testing the exact type is several times as fast as isinstance with a union, and most batches are about jobs alone.
    about_runs = [message for message in batch if type(message) in _RUN_MESSAGE_TYPES]
    if not about_runs:
        return cast("Sequence[JobMessage]", batch), ()
    about_jobs = [message for message in batch if type(message) not in _RUN_MESSAGE_TYPES]
    return cast("Sequence[JobMessage]", about_jobs), cast("Sequence[RunMessage]", about_runs)
