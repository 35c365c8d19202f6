"""The shapes of jobs: submits, nodes and iterations, events, logs, activity."""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from windlass.wire.values import BATCH_JOBS_MAX, Alias, Id, Instant, Key, Priority, ProblemDetails, Reason, Version


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


class Params(Struct, frozen=True):
    """What a node gets. Not `rendered`: as its definition has them, since something they need is not there yet."""

    params: Raw
    rendered: bool


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


class ActivityBucket(Struct, frozen=True):
    """What came and what ended in one step of time, and how long what ended by itself had taken."""

    at: str
    submitted: int
    completed: int
    failed: int
    cancelled: int
    p50_seconds: float | None = None
    p95_seconds: float | None = None


class Activity(Struct, frozen=True):
    """The last minutes, step by step. `truncated`: there were too many jobs, and the older ones are not counted."""

    bucket_seconds: int
    buckets: list[ActivityBucket]
    unfinished: int
    truncated: bool = False


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
