"""Metrics of runs: durations by phase, and counts."""

from collections.abc import Mapping

from windlass.core.instants import MICROSECONDS
from windlass.core.runs.registry import R, Run
from windlass.core.runs.rows import RunMetrics
from windlass.core.runs.rules import RunRules
from windlass.core.runs.states import RunState

# The metric to which the time in a state is added.
PHASES: Mapping[RunState, str] = {
    R.PRE_RUN: "pre_run_seconds",
    R.PENDING: "constraint_check_seconds",
    R.CONDITION_PENDING: "constraint_check_seconds",
    R.CONDITION_RUNNING: "constraint_check_seconds",
    R.ACTION_PENDING: "action_seconds",
    R.ACTION_RUNNING: "action_seconds",
    R.CONTAINER_CREATING: "container_creation_seconds",
    R.RUNNING: "execution_seconds",
    R.TERMINATING: "termination_seconds",
    R.RETRYING: "retry_wait_seconds",
}


def metrics_of(run: Run, rules: RunRules) -> RunMetrics:
    """Return the metrics of a run so far."""
    detail = run.detail
    reported = detail.metrics or RunMetrics()
    return RunMetrics(
        **_phase_seconds(run),
        total_seconds=max(0, run.state_at - run.created_at) / MICROSECONDS,
        state_transitions=detail.transition_count,
        entered={one.state: one.at for one in detail.transitions},
        constraints_checked=detail.constraints_checked,
        constraints_violated=len(detail.violations),
        actions_executed=detail.actions_executed,
        actions_failed=detail.actions_failed,
        retry_attempt=run.attempt,
        max_retries=rules.retry.max_retries,
        api_calls=reported.api_calls,
        pod_start_seconds=reported.pod_start_seconds,
        exit_code=reported.exit_code,
        heartbeats=detail.heartbeats,
        final_state=run.state.value if run.is_final else None,
        success=run.state is R.COMPLETED and not detail.is_skipped,
        error=detail.reason,
    )


def _phase_seconds(run: Run) -> dict[str, float]:
    phases: dict[str, float] = {}
    for state, seconds in run.detail.durations.items():
        phase = PHASES[RunState(state)]
        phases[phase] = round(phases.get(phase, 0.0) + seconds, 6)
    return phases
