"""Requests and views of HTTP workers: claims, heartbeats, results, emitted events."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from windlass.core.durations import Duration
from windlass.core.fields import Id, whole
from windlass.wire.values import null

TASKS_MAX = 100
QUEUES_MAX = 32
HELD_MAX = 1_000
CLAIM_WAIT_SECONDS_MAX = 60.0
TASK_ID_CHARS_MAX = 300
DURATION_MS_MAX = 365 * 86_400_000.0
# The error type of a failure that the worker did not name.
UNNAMED_ERROR = "task_failed"
HANDLERS_MAX = 1_000

WorkerId = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z0-9_.@-]{1,128}"),
        max_length=128,
        extra={"form": "1 to 128 letters, digits, _, ., @ and -"},
    ),
]
QueueName = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z0-9_.-]{1,64}"),
        max_length=64,
        extra={"form": "1 to 64 letters, digits, _, . and -"},
    ),
]
HandlerName = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z0-9_.-]{1,128}"),
        max_length=128,
        extra={"form": "1 to 128 letters, digits, _, . and -"},
    ),
]
TaskId = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z0-9_-]+(\[[0-9]{1,9}\])?_[0-9]{1,9}"),
        max_length=TASK_ID_CHARS_MAX,
        extra={"form": "the task_id of a claimed task"},
    ),
]
AttemptNumber = Annotated[int, Meta(ge=0, le=10**9)]
Index = Annotated[int, Meta(ge=0, le=10**9)]
DurationMs = Annotated[float, Meta(ge=0, le=DURATION_MS_MAX)]
Wait = Annotated[float, Meta(ge=0, le=CLAIM_WAIT_SECONDS_MAX)]


class ClaimRequest(Struct, frozen=True):
    """A request for tasks. `wait` is a number of seconds or a duration, at most 60 s.

    With `handlers`, only tasks of these handlers are claimed; other tasks are left to other workers.
    """

    worker_id: WorkerId
    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=QUEUES_MAX)] = field(
        default_factory=lambda: ["default"]
    )
    max_tasks: Annotated[int, Meta(ge=1, le=TASKS_MAX)] = 1
    wait: Wait | Duration = 0.0
    handlers: Annotated[list[HandlerName], Meta(min_length=1, max_length=HANDLERS_MAX)] | None = (
        None
    )


class ClaimedSinkView(Struct, frozen=True):
    """Where the worker writes a task's output before it reports it: at `path`, once per `identity`."""

    tool: str
    # An object: table, connection, mode, …
    options: Raw
    path: list[str]
    identity: str
    # The same for all iterations and pages of one execution of the node; `replace` replaces the rows with this key.
    run_key: str


class ClaimedTaskView(Struct, frozen=True):
    """A task for an HTTP worker. `meta` describes its loop and its retries or pages."""

    task_id: str
    job_id: str
    node_id: str
    index: int
    attempt: int
    handler: str
    params: Raw
    queue: str
    timeout_seconds: float
    retry_count: int
    idempotency_key: str
    sink: ClaimedSinkView | None = None
    meta: dict[str, Any] = {}


class ClaimView(Struct, frozen=True):
    """The tasks that the worker now holds, and the time without a heartbeat after which they go to another worker."""

    tasks: list[ClaimedTaskView]
    worker_timeout_seconds: float


class HeartbeatRequest(Struct, frozen=True):
    """A worker's heartbeat and the tasks that it holds."""

    worker_id: WorkerId
    task_ids: Annotated[list[TaskId], Meta(max_length=HELD_MAX)] = []


class HeartbeatView(Struct, frozen=True):
    """The tasks that the worker must stop: cancelled, or held by another worker."""

    stop: list[str]
    # After this time without a heartbeat, the tasks of the worker go to another one.
    worker_timeout_seconds: float


class TaskErrorRequest(Struct, frozen=True):
    """Why an attempt failed. `retry_after` is a number of seconds or a duration."""

    type: str = UNNAMED_ERROR
    message: str = ""
    retryable: bool = True
    status: Annotated[int, Meta(ge=0, le=999)] | None = None
    retry_after: float | str | None = None
    traceback: str | None = None


class TaskResultRequest(Struct, frozen=True):
    """The result of a task: `output` if it completed, `error` if it failed."""

    task_id: TaskId
    job_id: Id
    node_id: Id
    status: Literal["completed", "failed"]
    worker_id: WorkerId
    output: Raw = field(default_factory=null)
    error: TaskErrorRequest | str | None = None
    meta: Raw = field(default_factory=null)
    execution_duration_ms: DurationMs | None = None
    index: Index | None = None
    attempt: AttemptNumber | None = None


class TaskResultView(Struct, frozen=True):
    """Whether a result was accepted; `duplicate` if the task already has one, `reason` if it has no effect (yet)."""

    accepted: bool
    duplicate: bool = False
    reason: str | UnsetType = UNSET


class EmittedData(Struct, frozen=True):
    """The supported fields of an emitted event's data."""

    result: Raw | UnsetType = UNSET
    error: TaskErrorRequest | str | None = None
    # The `attempt` of the claimed task, and its `index` if its node is a loop.
    attempt_number: AttemptNumber | None = None
    iteration_index: Index | None = None


class QueueMeta(Struct, frozen=True):
    """The worker that ran the task."""

    worker_id: WorkerId | None = None


class EmittedMeta(Struct, frozen=True):
    """The supported fields of an emitted event's meta."""

    queue_meta: QueueMeta | None = None


class EmitEventRequest(Struct, frozen=True):
    """An event of a worker. `job_id` or `execution_id` names the job; other fields are ignored."""

    node_id: Id
    event_type: Literal["action_started", "action_completed", "action_failed"]
    job_id: Id | None = None
    execution_id: Id | int | None = None
    worker_id: WorkerId | None = None
    duration: Annotated[float, Meta(ge=0, le=DURATION_MS_MAX / 1000)] | None = None
    result: Raw | UnsetType = UNSET
    error: TaskErrorRequest | str | None = None
    data: EmittedData | None = None
    meta: EmittedMeta | None = None
    # An object with the worker's context. It is stored with the event, without credentials.
    context: Raw = field(default_factory=null)
