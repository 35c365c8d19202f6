"""Metrics of runs: durations by phase, and counts."""

from collections.abc import Mapping

from windlass.core.instants import MICROSECONDS
from windlass.core.runs.rows import RunMetrics, RunRow
from windlass.core.runs.states import RUN_FINAL, RunState

R = RunState

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


def metrics_of(run: RunRow, now: int, shard_heartbeats: int) -> RunMetrics:
    """Return the metrics of a run so far, by the time and the heartbeats of its shard until now."""
    detail = run.detail
    heartbeats = 0
    if detail.heartbeats_before is not None:
        # A copied database counts anew.
        heartbeats = max(0, shard_heartbeats - detail.heartbeats_before)
    reported = detail.metrics or RunMetrics()
    is_final = run.state in RUN_FINAL
    until = run.state_at if is_final else max(now, run.state_at)
    return RunMetrics(
        **_phase_seconds(run, until),
        total_seconds=max(0, until - run.created_at) / MICROSECONDS,
        state_transitions=detail.transition_count,
        entered={one.state: one.at for one in detail.transitions},
        constraints_checked=detail.constraints_checked,
        constraints_violated=detail.constraints_violated,
        actions_executed=detail.actions_executed,
        actions_failed=detail.actions_failed,
        retry_attempt=run.attempt,
        max_retries=detail.max_retries,
        api_calls=reported.api_calls,
        pod_start_seconds=reported.pod_start_seconds,
        exit_code=reported.exit_code,
        heartbeats=heartbeats,
        final_state=run.state.value if is_final else None,
        success=run.state is R.COMPLETED and not detail.is_skipped,
        error=detail.reason,
    )


def _phase_seconds(run: RunRow, until: int) -> dict[str, float]:
    phases: dict[str, float] = {}
    durations = dict(run.detail.durations)
    if run.state not in RUN_FINAL:
        seconds = max(0, until - run.state_at) / MICROSECONDS
        durations[run.state] = durations.get(run.state, 0.0) + seconds
    for state, seconds in durations.items():
        phase = PHASES[RunState(state)]
        phases[phase] = round(phases.get(phase, 0.0) + seconds, 6)
    return phases
