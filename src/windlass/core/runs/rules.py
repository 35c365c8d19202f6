"""Rules for the runs of a workflow: schedule, constraints, actions and retries.

The document reader builds these structs; `rename` maps each field to its key in documents and stored definitions.
"""

from enum import Enum, StrEnum, unique
from typing import Any

from msgspec import Struct

from windlass.core.runs.cron import Schedule

HOOK_TIMEOUT_SECONDS = 10.0
HOOK_ATTEMPTS = 4
CATCH_UP_WINDOW_SECONDS = 86_400.0
RETRY_LATER_SECONDS = 60.0
RETRY_LATER_TIMES_MAX = 10
WAIT_SECONDS = 3_600.0
# The purposes of the calls that constraints make; those of actions are their events.
PRE_RUN_HOOK, POST_RUN_HOOK = "pre_run_hook", "post_run_hook"


@unique
class CatchUp(Enum):
    """Which slots missed while no engine was running are started afterwards."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


@unique
class OnCheckError(Enum):
    """What happens to a run when a constraint cannot be checked."""

    ALLOW = "allow"
    SKIP = "skip"


@unique
class ActionKind(Enum):
    """What an action does."""

    SKIP = "skip"
    RETRY_LATER = "retry_later"
    KILL_OLD = "kill_old"
    WAIT = "wait"
    WEBHOOK = "webhook"
    TRIGGER_JOB = "trigger_job"


@unique
class ActionEvent(StrEnum):
    """The events of a run that may have an action. The values are the keys in documents and fields of RunRules."""

    CONSTRAINT_VIOLATION = "on_constraint_violation"
    FAILURE = "on_failure"
    SUCCESS = "on_success"
    SLOW = "on_slow"


class Hook(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"timeout_seconds": "timeout", "attempts_max": "max_attempts"},
):
    """A signed webhook call. `secret` is the name of the signing key; only workers resolve it."""

    url: str
    secret: str | None = None
    timeout_seconds: float = HOOK_TIMEOUT_SECONDS
    # Includes the first attempt.
    attempts_max: int = HOOK_ATTEMPTS


class Constraints(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "catch_up_window_seconds": "catch_up_window",
        "max_expected_run_seconds": "max_expected_run_time",
        "max_allowed_run_seconds": "max_allowed_run_time",
        "start_timeout_seconds": "start_timeout",
        "missed_heartbeats_max": "max_missed_heartbeats",
    },
):
    """Conditions for starting and continuing a run."""

    max_concurrent_runs: int | None = None
    require_previous_success: bool = False
    catch_up: CatchUp = CatchUp.NONE
    # Slots missed by more than this are not started.
    catch_up_window_seconds: float = CATCH_UP_WINDOW_SECONDS
    # Both count from the launch of the first attempt.
    max_expected_run_seconds: float | None = None
    max_allowed_run_seconds: float | None = None
    # From the launch of an attempt until its first task starts.
    start_timeout_seconds: float | None = None
    pre_run_hook: Hook | None = None
    post_run_hook: Hook | None = None
    on_check_error: OnCheckError = OnCheckError.SKIP
    # None: the engine's setting applies.
    missed_heartbeats_max: int | None = None


NO_CONSTRAINTS = Constraints()


class Action(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "kind": "type",
        "delay_seconds": "delay",
        "times_max": "max_times",
        "timeout_seconds": "timeout",
        "input_data": "input",
    },
):
    """A response to an event of a run. The kind determines which fields apply."""

    kind: ActionKind
    # Whether the run fails when the action fails; otherwise the failure is only recorded.
    critical: bool = False
    # retry_later: time until the next check of the constraints, and the maximum number of checks.
    delay_seconds: float = RETRY_LATER_SECONDS
    times_max: int = RETRY_LATER_TIMES_MAX
    # wait: maximum time to wait for other runs.
    timeout_seconds: float = WAIT_SECONDS
    # webhook
    hook: Hook | None = None
    # trigger_job: the workflow to start, its version or alias (None: the newest), and the input.
    workflow_id: str | None = None
    version: int | str | None = None
    input_data: dict[str, Any] = {}


class RunRetry(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"initial_delay_seconds": "initial_delay", "max_delay_seconds": "max_delay"},
):
    """Retries of a failed run. `max_retries` does not include the first attempt."""

    max_retries: int = 0
    initial_delay_seconds: float = 30.0
    backoff_multiplier: float = 2.0
    max_delay_seconds: float = 600.0
    # Start a new job instead of retrying the failed nodes.
    full: bool = False


NO_RUN_RETRY = RunRetry()


class RunRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All rules for the runs of a workflow. Plans without such rules have None instead."""

    schedule: Schedule | None = None
    constraints: Constraints = NO_CONSTRAINTS
    on_constraint_violation: Action | None = None
    on_failure: Action | None = None
    on_success: Action | None = None
    on_slow: Action | None = None
    retry: RunRetry = NO_RUN_RETRY

    def action(self, event: ActionEvent) -> Action | None:
        """Return the action on an event, if there is one."""
        return getattr(self, event)
