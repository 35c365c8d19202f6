"""What a workflow says about its runs, compiled: schedule, constraints, actions and retries of whole runs.

A plan holds None in the place of these rules when its workflow says nothing of the kind.
"""

from enum import Enum, unique
from typing import Any

from msgspec import Struct

from windlass.core.runs.cron import Schedule

HOOK_TIMEOUT_SECONDS = 10.0
HOOK_ATTEMPTS = 4
CATCH_UP_WINDOW_SECONDS = 86_400.0
RETRY_LATER_SECONDS = 60.0
RETRY_LATER_TIMES_MAX = 10
WAIT_SECONDS = 3_600.0


@unique
class CatchUp(Enum):
    """Which of the slots that were missed while no engine ran are made up for."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


@unique
class OnCheckError(Enum):
    """What becomes of a run when a constraint cannot be checked."""

    ALLOW = "allow"
    SKIP = "skip"


@unique
class ActionKind(Enum):
    """What can be done when something happens to a run."""

    SKIP = "skip"
    RETRY_LATER = "retry_later"
    KILL_OLD = "kill_old"
    WAIT = "wait"
    WEBHOOK = "webhook"
    TRIGGER_JOB = "trigger_job"


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signed call to an address. `secret` is the name of the signing key, which only a worker resolves."""

    url: str
    secret: str | None = None
    timeout_seconds: float = HOOK_TIMEOUT_SECONDS
    # All attempts, the first one too.
    attempts_max: int = HOOK_ATTEMPTS


class Constraints(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must hold for a run to begin and to go on."""

    max_concurrent_runs: int | None = None
    require_previous_success: bool = False
    catch_up: CatchUp = CatchUp.NONE
    # Slots missed by more than this are not made up for.
    catch_up_window_seconds: float = CATCH_UP_WINDOW_SECONDS
    max_expected_run_seconds: float | None = None
    max_allowed_run_seconds: float | None = None
    pre_run_hook: Hook | None = None
    post_run_hook: Hook | None = None
    on_check_error: OnCheckError = OnCheckError.SKIP
    # None leaves it to the engine's setting.
    missed_heartbeats_max: int | None = None


NO_CONSTRAINTS = Constraints()


class Action(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do when something happened to a run. Which fields count depends on the kind."""

    kind: ActionKind
    # Whether the run fails when the action does; else that is only recorded.
    critical: bool = False
    # retry_later: how long until the constraints are checked again, and how often at most.
    delay_seconds: float = RETRY_LATER_SECONDS
    times_max: int = RETRY_LATER_TIMES_MAX
    # wait: how long the run waits at most for the others.
    timeout_seconds: float = WAIT_SECONDS
    # webhook
    hook: Hook | None = None
    # trigger_job: the workflow to start, its version or alias (None: the newest), and the input.
    workflow_id: str | None = None
    version: int | str | None = None
    input_data: dict[str, Any] = {}


class RunRetry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a failed run is tried again. `max_retries` does not count the first attempt."""

    max_retries: int = 0
    initial_delay_seconds: float = 30.0
    backoff_multiplier: float = 2.0
    max_delay_seconds: float = 600.0
    # A whole new job, instead of the failed nodes of the old one.
    full: bool = False


class RunRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a workflow says about its runs."""

    schedule: Schedule | None = None
    constraints: Constraints = NO_CONSTRAINTS
    on_constraint_violation: Action | None = None
    on_failure: Action | None = None
    on_success: Action | None = None
    on_slow: Action | None = None
    retry: RunRetry | None = None
