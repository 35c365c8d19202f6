"""Requests and views of jobs: submits, nodes, iterations, events, logs, activity."""

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from windlass.core.fields import Alias, Id, Version
from windlass.core.submit_request import SubmitRequest
from windlass.wire.values import BATCH_JOBS_MAX, ProblemDetails, Reason


class BatchRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Jobs to start in one transaction."""

    jobs: Annotated[list[SubmitRequest], Meta(max_length=BATCH_JOBS_MAX)]


class SubmittedView(Struct, frozen=True):
    """A job that was accepted and stored."""

    job_id: str
    status: str


class BatchItemView(Struct, frozen=True):
    """The result of one submit of a batch: the job, or the error."""

    job_id: str | None = None
    status: str | None = None
    error: ProblemDetails | None = None


class BatchView(Struct, frozen=True):
    """The results of a batch, in the order of its submits."""

    jobs: list[BatchItemView]


class LoopView(Struct, frozen=True):
    """The progress of a loop. Iterations below `begun` were dispatched; `running` counts those held by workers."""

    total: int
    begun: int
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    running: int = 0
    waiting: int = 0
    cancelled: int = 0


class IterationView(Struct, frozen=True):
    """An iteration of a loop."""

    index: int
    status: str
    attempt: int
    output: Raw
    error: Raw
    meta: Raw
    # Of the first attempt since the job was started or retried, and of the last one.
    started_at: str | None = None
    completed_at: str | None = None
    attempt_started_at: str | None = None


class ParamsView(Struct, frozen=True):
    """The params of a node. If `rendered` is false, they are templates whose values are not available yet."""

    params: Raw
    rendered: bool


class NodeView(Struct, frozen=True):
    """A node of a job; `loop` is the progress of its loop, once started."""

    node_id: str
    status: str
    attempt: int
    output: Raw
    error: Raw
    meta: Raw
    # Of the first attempt since the job was started or retried, and of the last one.
    started_at: str | None = None
    completed_at: str | None = None
    attempt_started_at: str | None = None
    loop: LoopView | None = None


class JobView(Struct, frozen=True):
    """A job. `result_data` maps node ids to outputs once the job has finished; `nodes` is set on request."""

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
    # What started it: submit, rerun, schedule, backfill, trigger_job, or call (a webhook of a run).
    origin: str = "submit"
    # The run, and its job, that started it; or the job that it repeats.
    parent_run_id: str | None = None
    parent_job_id: str | None = None
    # How many jobs led to it, each started by the one before.
    depth: int = 0
    nodes: list[NodeView] | None = None
    # Failed iterations of completed loops, and failed nodes that are allowed to fail.
    failures: int = 0


class ActivityBucketView(Struct, frozen=True):
    """The jobs submitted and finished in one interval; durations exclude cancelled jobs."""

    at: str
    submitted: int
    completed: int
    failed: int
    cancelled: int
    p50_seconds: float | None = None
    p95_seconds: float | None = None


class ActivityView(Struct, frozen=True):
    """Activity over the last minutes. If `truncated` is true, older jobs are missing because there were too many."""

    bucket_seconds: int
    buckets: list[ActivityBucketView]
    unfinished: int
    truncated: bool = False


class CancelRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The reason for a cancellation."""

    reason: Reason | None = None


class RetryRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The node to run again with all downstream nodes; also accepted as a parameter."""

    from_node: Id | None = field(default=None, name="from")


class RerunRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The version of a new job with the same input; by default that of the old one."""

    version: Version | Alias | None = None


class EventView(Struct, frozen=True):
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


class LogView(Struct, frozen=True):
    """A log line."""

    log_id: int
    job_id: str
    node_id: str
    index: int
    attempt: int
    timestamp: str
    level: str
    message: str
