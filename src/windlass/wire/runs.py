"""Requests and views of schedules, runs and deliveries."""

from typing import Any

from msgspec import Struct

from windlass.core.fields import Instant, Key


class ScheduleView(Struct, frozen=True):
    """A schedule; one of `cron`, `every_seconds` and `at` is set."""

    workflow_id: str
    version: int
    # `enabled` is set in the definition, `paused` through the API.
    enabled: bool
    paused: bool
    timezone: str
    cron: str | None = None
    every_seconds: int | None = None
    at: str | None = None
    jitter_seconds: float = 0.0
    # None while the schedule is paused or has no further slot.
    next_at: str | None = None
    # The last slot that was processed.
    slot_at: str | None = None
    changed_at: str | None = None
    input_data: dict[str, Any] = {}


class NextSlotsView(Struct, frozen=True):
    """The next slots of a schedule, in UTC and in its time zone."""

    workflow_id: str
    timezone: str
    times: list[str]
    local_times: list[str]


class TriggerRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run to start now; the input defaults to that of the schedule."""

    input_data: dict[str, Any] | None = None
    idempotency_key: Key | None = None


class BackfillRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A range of slots to run; both ends are included."""

    since: Instant
    until: Instant
    # List the slots that would get a run and start none.
    dry_run: bool = False


class BackfillView(Struct, frozen=True):
    """The slots of a range that a backfill started, or with `dry_run` would start, oldest first.

    `left_out` counts the others: `has_run` (ended with a job, and not cancelled), `in_progress`, and `scheduled`
    (left to the schedule itself).
    """

    workflow_id: str
    slots: list[str]
    dry_run: bool = False
    left_out: dict[str, int] = {}


class RunTransitionView(Struct, frozen=True):
    """A state that a run entered."""

    state: str
    at: str


class RunViolationView(Struct, frozen=True):
    """A constraint that a run violated."""

    constraint: str
    message: str
    at: str


class RunActionView(Struct, frozen=True):
    """An action of a run that ended: the job that it started, or why it failed."""

    on: str
    action: str
    at: str
    job_id: str | None = None
    error: str | None = None


class RunEventView(Struct, frozen=True):
    """One transition of a run, or of a schedule, which has no `run_id`."""

    seq: int
    event_type: str
    workflow_id: str
    run_id: str | None
    timestamp: str
    data: dict[str, Any]


class RunView(Struct, frozen=True):
    """A run: the lifecycle around a job. `metrics` are those so far until the run has finished."""

    run_id: str
    workflow_id: str
    version: int
    scheduled_at: str
    state: str
    previous_state: str | None
    job_id: str | None
    # The number of earlier attempts.
    attempt: int
    transitions: list[RunTransitionView]
    violations: list[RunViolationView]
    metrics: dict[str, Any]
    origin: str
    created_at: str
    completed_at: str | None = None
    # Why the run did not complete, or was skipped.
    reason: str | None = None
    skipped: bool = False
    # The slot was missed or backfilled.
    catch_up: bool = False
    actions: list[RunActionView] = []


class DeliveryView(Struct, frozen=True):
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


class RedeliveryView(Struct, frozen=True):
    """A webhook that is delivered again by a new job."""

    delivery_id: str
    job_id: str
