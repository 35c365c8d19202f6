"""The shapes of the HTTP API, shared by the server and the client. Instants are ISO 8601 in UTC, JSON is plain JSON."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Raw, Struct, field

T = TypeVar("T")

# What the server takes; it also stands in the description of the API.
BATCH_JOBS_MAX = 1_000
ALIAS_TARGETS_MAX = 16

Id = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,128}$", max_length=128)]
Version = Annotated[int, Meta(ge=1, le=999_999_999)]
Alias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,128}$", max_length=128)]
Key = Annotated[str, Meta(pattern="^[!-~]{1,255}$", max_length=255)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]
Weight = Annotated[int, Meta(ge=1, le=1_000_000)]
# RFC 3339; the offset must be there.
_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
Instant = Annotated[str, Meta(pattern=_INSTANT, max_length=40)]
Reason = Annotated[str, Meta(max_length=1000)]


def _null() -> Raw:
    # A factory: the description of the API can not show a raw default.
    return Raw(b"null")


class Page(Struct, Generic[T], frozen=True):
    """A part of a list, and where the next one begins."""

    items: list[T]
    next_cursor: str | None = None


class ProblemItem(Struct, frozen=True, omit_defaults=True):
    """One thing wrong with a request or a document."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class ProblemDetails(Struct, frozen=True):
    """A refusal: application/problem+json."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemItem] = []
    request_id: str | None = None


class Warned(Struct, frozen=True):
    """Something that a document may do but hardly means."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class AliasTarget(Struct, frozen=True):
    """A version that an alias points at, and its share of the submits."""

    version: Version
    weight: Weight = 100


class Workflow(Struct, frozen=True):
    """One version of a workflow."""

    workflow_id: str
    version: int
    digest: str
    created_at: str
    description: str | None = None
    aliases: dict[str, list[AliasTarget]] = {}
    definition: Raw = field(default_factory=_null)
    warnings: list[Warned] = []


class Validation(Struct, frozen=True):
    """What is to be said about a document that was only checked."""

    valid: bool
    workflow_id: str | None
    errors: list[ProblemItem] = []
    warnings: list[Warned] = []


class AliasRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an alias points: one version, or several with weights."""

    version: Version | None = None
    targets: Annotated[list[AliasTarget], Meta(max_length=ALIAS_TARGETS_MAX)] = []


class SubmitRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to be run. `version` is a number or an alias; `scheduled_at` an ISO instant."""

    workflow_id: Id
    input_data: dict[str, Any] = {}
    version: Version | Alias | None = None
    idempotency_key: Key | None = None
    scheduled_at: Instant | None = None
    priority: Priority = 0


class BatchRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Many jobs, stored in one transaction."""

    jobs: Annotated[list[SubmitRequest], Meta(max_length=BATCH_JOBS_MAX)]


class Submitted(Struct, frozen=True):
    """A job that was accepted; it is durable."""

    job_id: str
    status: str


class BatchItem(Struct, frozen=True):
    """The answer to one job of a batch: the job, or why it was refused."""

    job_id: str | None = None
    status: str | None = None
    error: ProblemDetails | None = None


class BatchAnswer(Struct, frozen=True):
    """The answers of a batch, in its order."""

    jobs: list[BatchItem]


class Loop(Struct, frozen=True):
    """How far a loop came. Its iterations from 0 to `begun` were begun; `running` counts those with workers."""

    total: int
    begun: int
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    running: int = 0
    waiting: int = 0
    cancelled: int = 0


class Task(Struct, frozen=True):
    """An iteration of a loop."""

    index: int
    status: str
    attempt: int
    output: Raw
    error: Raw
    meta: Raw
    started_at: str | None = None
    completed_at: str | None = None


class Node(Struct, frozen=True):
    """A node of a job; `loop` says how far a loop came that has begun."""

    node_id: str
    status: str
    attempt: int
    output: Raw
    error: Raw
    meta: Raw
    started_at: str | None = None
    completed_at: str | None = None
    loop: Loop | None = None


class Job(Struct, frozen=True):
    """A job. `result_data` maps node ids to outputs once it has ended; `nodes` come when asked for."""

    job_id: str
    workflow_id: str
    version: int
    status: str
    input_data: Raw
    result_data: Raw
    error: Raw
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None
    scheduled_at: str | None = None
    priority: int = 0
    idempotency_key: str | None = None
    nodes: list[Node] | None = None


class CancelRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a job is to stop."""

    reason: Reason | None = None


class Event(Struct, frozen=True):
    """One transition of a job."""

    event_id: str
    seq: int
    event_type: str
    job_id: str
    node_id: str | None
    index: int | None
    timestamp: str
    data: Raw
    meta: Raw
    context: Raw
    parent_event_id: str | None = None


class Log(Struct, frozen=True):
    """A line of a log."""

    log_id: int
    job_id: str
    node_id: str
    index: int
    attempt: int
    timestamp: str
    level: str
    message: str


class Schedule(Struct, frozen=True):
    """When a workflow starts by itself: by one of `cron`, `every_seconds` and `at`."""

    workflow_id: str
    version: int
    # What its definition says, and what was asked for since.
    enabled: bool
    paused: bool
    timezone: str
    cron: str | None = None
    every_seconds: int | None = None
    at: str | None = None
    jitter_seconds: float = 0.0
    # None when nothing is due any more, or it is paused.
    next_at: str | None = None
    # Slots up to here were dealt with.
    slot_at: str | None = None
    changed_at: str | None = None
    input_data: dict[str, Any] = {}


class NextTimes(Struct, frozen=True):
    """Slots to come, in UTC and on the clock of the schedule."""

    workflow_id: str
    timezone: str
    times: list[str]
    local_times: list[str]


class TriggerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A run to be started now; without input, with that of the schedule."""

    input_data: dict[str, Any] | None = None
    idempotency_key: Key | None = None


class BackfillRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The slots from one instant on, up to another, both included."""

    since: Instant
    until: Instant


class Backfilled(Struct, frozen=True):
    """The slots of a range; those that had no run before get one, oldest first."""

    workflow_id: str
    slots: list[str]


class RunTransition(Struct, frozen=True):
    """A state that a run entered, and when."""

    state: str
    at: str


class RunViolation(Struct, frozen=True):
    """A constraint that did not hold."""

    constraint: str
    message: str
    at: str


class Run(Struct, frozen=True):
    """A run: the lifecycle around a job. `metrics` are complete once it has ended."""

    run_id: str
    workflow_id: str
    version: int
    scheduled_at: str
    state: str
    previous_state: str | None
    job_id: str | None
    # Attempts before this one.
    attempt: int
    transitions: list[RunTransition]
    violations: list[RunViolation]
    metrics: dict[str, Any]
    origin: str
    created_at: str
    completed_at: str | None = None
    # Why it ended otherwise than well, or was skipped.
    reason: str | None = None
    skipped: bool = False


class Delivery(Struct, frozen=True):
    """One attempt to deliver a webhook."""

    delivery_id: str
    job_id: str
    workflow_id: str
    node_id: str
    attempt: int
    url: str
    outcome: str
    sent_at: str
    duration_seconds: float
    status: int | None = None
    error: str | None = None
    response: str | None = None


class Redelivered(Struct, frozen=True):
    """A delivery that is made once more, by a job of its own."""

    delivery_id: str
    job_id: str


class WorkerSeen(Struct, frozen=True):
    """A worker, as the broker sees it."""

    worker_id: str
    queues: list[str]
    running: int
    seen_at: str
    alive: bool


class ClaimRequest(Struct, frozen=True):
    """A worker asks for tasks; `wait` is a duration."""

    worker_id: str
    queues: list[str] = field(default_factory=lambda: ["default"])
    max_tasks: int = 1
    wait: float | str = 0


class ClaimedSink(Struct, frozen=True):
    """Where the worker writes a task's output before it reports it: at `path` in it, once for each `identity`."""

    tool: str
    # An object: table, connection, mode, …
    options: Raw
    path: list[str]
    identity: str
    # The same for all iterations and pages of one run of the node: what `replace` replaces.
    run_key: str


class ClaimedTask(Struct, frozen=True):
    """A task for an HTTP worker. `meta` tells of the loop and of the series of attempts that it belongs to."""

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
    sink: ClaimedSink | None = None
    meta: dict[str, Any] = {}


class ClaimAnswer(Struct, frozen=True):
    """The tasks that are now the worker's."""

    tasks: list[ClaimedTask]


class HeartbeatRequest(Struct, frozen=True):
    """A worker says that it lives and what it holds."""

    worker_id: str
    task_ids: list[str] = []


class HeartbeatAnswer(Struct, frozen=True):
    """The tasks that the worker should stop: cancelled, or no longer its own."""

    stop: list[str]


class TaskResult(Struct, frozen=True):
    """How a task ended."""

    task_id: str
    job_id: str
    node_id: str
    status: Literal["completed", "failed"]
    worker_id: str
    output: Raw = field(default_factory=_null)
    error: Raw = field(default_factory=_null)
    meta: Raw = field(default_factory=_null)
    execution_duration_ms: float | None = None
    index: int = 0
    attempt: int | None = None


class ResultAnswer(Struct, frozen=True):
    """What became of a reported result; a repetition is `duplicate`."""

    accepted: bool
    duplicate: bool = False


class Health(Struct, frozen=True):
    """Whether the process lives and can serve, and what it is made of."""

    status: Literal["ok", "degraded"]
    version: str
    shards: list[dict[str, Any]]
    workers: list[WorkerSeen]


def instant(microseconds: int | None) -> str | None:
    """An instant as ISO 8601."""
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{rest:06}Z"


# Events and rows come by the thousand, and many of them happened in the same second.
@lru_cache(maxsize=1_024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
