"""Schedules, runs and deliveries as stored. Instants are microseconds since the epoch, UTC."""

from typing import Any

from msgspec import Raw, Struct

from windlass.core.instants import MICROSECONDS
from windlass.core.runs.states import RunState


class Transition(Struct, frozen=True, array_like=True):
    """A state that a run entered, and when."""

    state: RunState
    at: int


class Violation(Struct, frozen=True):
    """A constraint that did not hold."""

    constraint: str
    message: str
    at: int


class RunMetrics(Struct, frozen=True, kw_only=True):
    """What a run's life was like; complete once it has ended."""

    pre_run_seconds: float = 0.0
    constraint_check_seconds: float = 0.0
    action_seconds: float = 0.0
    container_creation_seconds: float = 0.0
    execution_seconds: float = 0.0
    termination_seconds: float = 0.0
    # Waiting for the next attempt.
    retry_wait_seconds: float = 0.0
    total_seconds: float = 0.0
    state_transitions: int = 0
    # When each state was last entered.
    entered: dict[str, int] = {}
    constraints_checked: int = 0
    constraints_violated: int = 0
    actions_executed: int = 0
    actions_failed: int = 0
    retry_attempt: int = 0
    max_retries: int = 0
    # As the nodes of the job tell that ran containers.
    api_calls: int = 0
    pod_start_seconds: float | None = None
    exit_code: int | None = None
    # How often the owner of its shard said that it serves it.
    heartbeats: int = 0
    final_state: str | None = None
    success: bool = False
    error: str | None = None


class RunDetail(Struct, kw_only=True, omit_defaults=True):
    """The part of a run's row that nobody searches: what the API shows, and what its shard goes on from."""

    # schedule, backfill, submit or retry: where it came from.
    origin: str = "schedule"
    # The slot was missed, and is made up for.
    is_catch_up: bool = False
    # What the job gets as its input, where the run makes the job.
    input: dict[str, Any] | None = None
    # The newest ones; events tell of all.
    transitions: list[Transition] = []
    violations: list[Violation] = []
    # skipped, or why it ended otherwise than well.
    reason: str | None = None
    is_skipped: bool = False
    metrics: RunMetrics | None = None
    # The number of its last event.
    seq: int = 0
    # What it waits for, if that is a moment: start, check, wait, retry.
    due_at: int | None = None
    due_kind: str | None = None
    # When its first task started, in whichever attempt; what bounds its time counts from here.
    started_at: int | None = None
    is_slow: bool = False
    # How often the constraints were checked since the action began.
    checks: int = 0
    # Jobs that make its calls (hooks, webhooks), by id: what each is for.
    calls: dict[str, str] = {}
    # How the attempt's job ended, while the run terminates: completed, failed.
    outcome: str | None = None
    # Whether its last calls were made, and only their ends are waited for.
    is_closing: bool = False
    # A critical action failed, or a bound on time was passed: no retry makes that good.
    is_doomed: bool = False
    # Whether the hook before the run let this attempt through.
    is_hook_passed: bool = False
    # Of an operator's retry: the node from which on all is run again.
    from_node: str | None = None
    # Durations by state in seconds, and counts, until they become the metrics.
    durations: dict[str, float] = {}
    constraints_checked: int = 0
    actions_executed: int = 0
    actions_failed: int = 0
    heartbeats: int = 0
    transition_count: int = 0
    # Jobs of earlier attempts, where each attempt has its own.
    earlier_jobs: list[str] = []


class RunRow(Struct, frozen=True):
    """A run: the lifecycle around a job. Its id is `{workflow_id}:{slot}` or `{workflow_id}:{job_id}`."""

    run_id: str
    workflow_id: str
    version: int
    shard: int
    state: RunState
    previous_state: RunState | None
    # The slot; of a submitted job the moment it was to begin.
    scheduled_at: int
    created_at: int
    # When it entered its state.
    state_at: int
    completed_at: int | None
    # None until there is a job: a run that is skipped never has one.
    job_id: str | None
    # Attempts before this one.
    attempt: int
    detail: RunDetail
    # Of one that has ended and counts as the previous run of the next one: whether it did well.
    succeeded: bool | None = None


class ScheduleRow(Struct, frozen=True):
    """A workflow's schedule: what is stored besides the definition, which says when it is due."""

    workflow_id: str
    # The newest version.
    version: int
    is_paused: bool
    # Slots up to here were dealt with.
    slot_at: int
    created_at: int
    # When it was deployed, paused or resumed last.
    changed_at: int
    # Without a schedule in the newest version, or deleted with its workflow.
    is_gone: bool = False
    # The number of its last event; the events of a schedule are stored under `{workflow_id}:`.
    seq: int = 0


class DeliveryRow(Struct, frozen=True):
    """One attempt to deliver a webhook. Written with the attempt's end, from what the handler reported of it."""

    # The task's id.
    delivery_id: str
    job_id: str
    workflow_id: str
    node_id: str
    attempt: int
    url: str
    # delivered or failed.
    outcome: str
    # HTTP's status, where there was an answer.
    status: int | None
    error: str | None
    # The first characters of the answer.
    response: str | None
    duration_microseconds: int
    sent_at: int
    # The params of the task, for a further delivery. A secret is there by its name only.
    params: Raw

    @property
    def duration_seconds(self) -> float:
        """How long the attempt took."""
        return self.duration_microseconds / MICROSECONDS
