"""The shapes of schedules, runs and deliveries."""

from typing import Any

from msgspec import Struct

from windlass.wire.values import Instant, Key


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
    # Only say which slots would get a run.
    dry_run: bool = False


class Backfilled(Struct, frozen=True):
    """The slots of a range; those that had no run before get one, oldest first. With `dry_run`, only those that would
    get one, and nothing is started."""

    workflow_id: str
    slots: list[str]
    dry_run: bool = False


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
