"""Schedules, runs and deliveries as stored. Instants are microseconds since the epoch, UTC."""

from typing import Any

from msgspec import Raw, Struct, field

from windlass.core.ids import JobId, RunId, WorkflowId
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.messages import RunWait
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


class ActionRecord(Struct, frozen=True, omit_defaults=True):
    """An action that started a call or a job, or failed."""

    # The event: on_failure and so on.
    on: str
    action: str
    at: int
    # The job that makes the call, or that was started.
    job_id: JobId | None = None
    error: str | None = None


class RunMetrics(Struct, frozen=True, kw_only=True):
    """Durations and counts of a run; complete once it has ended."""

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
    # As reported by the nodes of the job that ran containers.
    api_calls: int = 0
    pod_start_seconds: float | None = None
    exit_code: int | None = None
    # Heartbeats of the shard's owner during the run.
    heartbeats: int = 0
    final_state: str | None = None
    success: bool = False
    error: str | None = None


class RunDetail(Struct, kw_only=True, omit_defaults=True):
    """The part of a run's row that no query filters by: what the API shows, and what its shard continues from."""

    # schedule, backfill or retry; of a submitted job its own origin: submit, trigger_job or rerun.
    origin: str = "schedule"
    # The slot is made up for: it was handled late, or is backfilled.
    is_catch_up: bool = False
    # The input of the job, where the run creates the job.
    input: dict[str, Any] | None = None
    # The newest ones; the events have all.
    transitions: list[Transition] = []
    violations: list[Violation] = []
    actions: list[ActionRecord] = []
    # Why it was skipped or did not succeed.
    reason: str | None = None
    is_skipped: bool = False
    metrics: RunMetrics | None = None
    # The task whose container had the exit code in the metrics.
    exit_code_task: str | None = None
    # The number of its last event.
    seq: int = 0
    # The timer it waits for, if any.
    due_at: int | None = None
    due_kind: RunWait | None = None
    # When its first attempt was launched; the expected and the allowed duration count from here.
    launched_at: int | None = None
    # When the first task of its first attempt started.
    started_at: int | None = None
    is_slow: bool = False
    # How often the constraints were checked since the action began.
    checks: int = 0
    # When a waiting run checks next what other runs do not change.
    recheck_at: int | None = None
    # Why it cannot start although there may be room: it is skipped after its action.
    refusal: str | None = None
    # Whether its hook refused it last; it is asked again at `recheck_at`.
    is_vetoed: bool = False
    # Jobs that make its calls (hooks, webhooks) and the purpose of each.
    calls: dict[JobId, str] = {}
    # How the attempt's job ended, while the run terminates: completed, failed; or orphaned.
    outcome: str | None = None
    # Whether its last calls were made, and only their ends are missing.
    is_closing: bool = False
    # The state in which it ends after its last calls, if it does not terminate after a job.
    closing_state: RunState | None = None
    # A critical action failed, or the allowed duration was exceeded: it is not retried. Stored under an older name.
    has_failed_permanently: bool = field(default=False, name="is_doomed")
    # Of a retry by request: the node to start again from.
    from_node: str | None = None
    # Of a backfill: the request that asked for it.
    request_id: str | None = None
    # The first, second, ... run of its slot.
    repetition: int = 1
    # Actions `trigger_job` that led to it, one after the other.
    depth: int = 0
    max_retries: int = 0
    # Durations by state in seconds, and counts, until they become the metrics.
    durations: dict[str, float] = {}
    constraints_checked: int = 0
    constraints_violated: int = 0
    actions_executed: int = 0
    actions_failed: int = 0
    # The heartbeats of its shard until it began; it counts those since.
    heartbeats_before: int | None = None
    transition_count: int = 0
    # Jobs of earlier attempts, where each attempt has its own.
    earlier_jobs: list[JobId] = []


class RunRow(Struct, frozen=True):
    """A run: the lifecycle around a job."""

    run_id: RunId
    workflow_id: WorkflowId
    version: int
    shard: int
    state: RunState
    previous_state: RunState | None
    # The slot; of a submitted job the instant at which it was to start.
    scheduled_at: int
    created_at: int
    # When it entered its state.
    state_at: int
    completed_at: int | None
    # None until there is a job: a run that is skipped never has one.
    job_id: JobId | None
    # Attempts before this one.
    attempt: int
    detail: RunDetail
    # Whether it succeeded, if it has ended and counts as the previous run of the next one.
    succeeded: bool | None = None

    @property
    def had_job(self) -> bool:
        """Whether any of its attempts had a job; one that was skipped or failed before its job had none."""
        return self.job_id is not None or bool(self.detail.earlier_jobs)


class ScheduleRow(Struct, frozen=True):
    """A workflow's schedule: what is stored besides the definition, which says when it is due."""

    workflow_id: WorkflowId
    # The newest version.
    version: int
    is_paused: bool
    # Slots up to here were handled.
    slot_at: int
    created_at: int
    # When it was deployed, paused or resumed last.
    changed_at: int
    # The newest version has no schedule, or the workflow was deleted.
    is_gone: bool = False
    # The number of its last event.
    seq: int = 0


class DeliveryRow(Struct, frozen=True):
    """One attempt to deliver a webhook, as its handler reported it; written with the attempt's end."""

    # The task's id.
    delivery_id: str
    job_id: JobId
    workflow_id: WorkflowId
    node_id: str
    attempt: int
    url: str
    # delivered or failed.
    outcome: str
    # The HTTP status, where there was a response.
    status: int | None
    error: str | None
    # The start of the response.
    response: str | None
    duration_microseconds: int
    sent_at: int
    # The params of the task, for a redelivery. A secret is given by name only.
    params: Raw

    @property
    def duration_seconds(self) -> float:
        """How long the attempt took."""
        return self.duration_microseconds / MICROSECONDS
