"""What a definition says about runs, compiled for the core."""

from datetime import datetime
from typing import Any

from windlass.core.runs.cron import Schedule as Slots
from windlass.core.runs.cron import instant_of
from windlass.core.runs.rules import (
    HOOK_ATTEMPTS,
    HOOK_TIMEOUT_SECONDS,
    NO_CONSTRAINTS,
    RETRY_LATER_SECONDS,
    RETRY_LATER_TIMES_MAX,
    WAIT_SECONDS,
    ActionKind,
    CatchUp,
    OnCheckError,
    RunRules,
)
from windlass.core.runs.rules import Action as ActionRule
from windlass.core.runs.rules import Constraints as ConstraintRules
from windlass.core.runs.rules import Hook as HookRule
from windlass.core.runs.rules import RunRetry as RetryRule
from windlass.spec.checks.inputs import fill
from windlass.spec.definition import Action, Constraints, Definition, Hook, RunRetry, Schedule


def run_rules(definition: Definition) -> RunRules | None:
    """The rules of a workflow's runs; None when its jobs are no runs."""
    planned, bounds, retry, acts = (
        definition.schedule,
        definition.constraints,
        definition.run_retry,
        definition.actions,
    )
    if planned is None and bounds is None and retry is None and not acts:
        return None
    rules = {event: _action(action) for event, action in acts.items()}
    return RunRules(
        schedule=None if planned is None else slots_of(planned, definition.input),
        constraints=NO_CONSTRAINTS if bounds is None else _constraints(bounds),
        on_constraint_violation=rules.get("on_constraint_violation"),
        on_failure=rules.get("on_failure"),
        on_success=rules.get("on_success"),
        on_slow=rules.get("on_slow"),
        retry=None if retry is None else _retry(retry),
    )


def slots_of(planned: Schedule, schema: dict[str, Any] | None) -> Slots:
    """A schedule as the core reckons with it, its input with the defaults of the workflow's schema."""
    given: Any = fill(schema, planned.input)
    return Slots(
        cron=planned.cron,
        interval_seconds=None if planned.every is None else int(planned.every),
        at=_instant(planned.at, planned.timezone),
        zone=planned.timezone,
        anchor=_instant(planned.anchor, planned.timezone) or 0,
        jitter_seconds=planned.jitter,
        enabled=planned.enabled,
        input_data=given,
    )


def _instant(written: str | None, zone: str) -> int | None:
    return None if written is None else instant_of(datetime.fromisoformat(written.upper()), zone)


def _constraints(bounds: Constraints) -> ConstraintRules:
    caught_up = {True: "all", False: "none"}.get(bounds.catch_up) if isinstance(bounds.catch_up, bool) else None
    return ConstraintRules(
        max_concurrent_runs=bounds.max_concurrent_runs,
        require_previous_success=bounds.require_previous_success,
        catch_up=CatchUp(caught_up or bounds.catch_up),
        catch_up_window_seconds=bounds.catch_up_window,
        max_expected_run_seconds=bounds.max_expected_run_time,
        max_allowed_run_seconds=bounds.max_allowed_run_time,
        pre_run_hook=_hook(bounds.pre_run_hook),
        post_run_hook=_hook(bounds.post_run_hook),
        on_check_error=OnCheckError(bounds.on_check_error),
        missed_heartbeats_max=bounds.max_missed_heartbeats,
    )


def _hook(hook: Hook | None) -> HookRule | None:
    if hook is None:
        return None
    return HookRule(url=hook.url, secret=hook.secret, timeout_seconds=hook.timeout, attempts_max=hook.max_attempts)


def _action(action: Action) -> ActionRule:
    said = action.parameters
    hook = None
    if action.type == ActionKind.WEBHOOK.value:
        hook = HookRule(
            url=said["url"],
            secret=said.get("secret"),
            timeout_seconds=said.get("timeout", HOOK_TIMEOUT_SECONDS),
            attempts_max=said.get("max_attempts", HOOK_ATTEMPTS),
        )
    return ActionRule(
        kind=ActionKind(action.type),
        critical=action.critical,
        delay_seconds=said.get("delay", RETRY_LATER_SECONDS),
        times_max=said.get("max_times", RETRY_LATER_TIMES_MAX),
        timeout_seconds=said.get("timeout", WAIT_SECONDS) if hook is None else WAIT_SECONDS,
        hook=hook,
        workflow_id=said.get("workflow_id"),
        version=said.get("version"),
        input_data=said.get("input", {}),
    )


def _retry(retry: RunRetry) -> RetryRule:
    return RetryRule(
        max_retries=retry.max_retries,
        initial_delay_seconds=retry.initial_delay,
        backoff_multiplier=retry.backoff_multiplier,
        max_delay_seconds=retry.max_delay,
        full=retry.full,
    )
