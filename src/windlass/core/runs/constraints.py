"""The constraints of a run that its shard can check by itself."""

from collections.abc import Iterable

from msgspec import Struct

from windlass.core.jobs import OF_SLOTS
from windlass.core.runs.registry import RETRY, Run, WorkflowRuns
from windlass.core.runs.rules import ActionKind, Constraints
from windlass.core.runs.turn import RunTurn

MAX_CONCURRENT_RUNS = "max_concurrent_runs"
REQUIRE_PREVIOUS_SUCCESS = "require_previous_success"
START_TIMEOUT = "start_timeout"
MAX_EXPECTED_RUN_TIME = "max_expected_run_time"
MAX_ALLOWED_RUN_TIME = "max_allowed_run_time"


class BrokenConstraint(Struct, frozen=True):
    """A constraint that does not hold."""

    constraint: str
    message: str


def has_checks(constraints: Constraints) -> bool:
    """Return whether there is anything to check before a run."""
    return (
        constraints.max_concurrent_runs is not None
        or constraints.require_previous_success
        or constraints.pre_run_hook is not None
    )


def broken_constraints(turn: RunTurn, run: Run) -> list[BrokenConstraint]:
    """Return the constraints that do not hold now, and count the checks."""
    # Further attempts belong to a run that was admitted already.
    if run.attempt:
        return []
    constraints = turn.registry.rules_of(run).constraints
    found: list[BrokenConstraint] = []
    if constraints.max_concurrent_runs is not None:
        run.detail.constraints_checked += 1
        found += _concurrency(turn, run, constraints.max_concurrent_runs)
    if _requires_success(turn, run):
        run.detail.constraints_checked += 1
        if lacks_success(turn, run):
            found.append(
                BrokenConstraint(REQUIRE_PREVIOUS_SUCCESS, "the previous run did not succeed")
            )
    return found


def refusal_in(broken: Iterable[BrokenConstraint]) -> str | None:
    """Return why a run cannot start even with room for it; None if it only lacks room."""
    return next((one.message for one in broken if one.constraint != MAX_CONCURRENT_RUNS), None)


def reason_in(broken: list[BrokenConstraint]) -> str:
    """Return why a run cannot start; what does not change with room first."""
    return refusal_in(broken) or broken[0].message


def lacks_room(broken: Iterable[BrokenConstraint]) -> bool:
    """Return whether room is among what a run lacks."""
    return any(one.constraint == MAX_CONCURRENT_RUNS for one in broken)


def joins_queue(turn: RunTurn, run: Run) -> bool:
    """Return whether a run that lacks room is queued for it: its slot is made up for, or due while others are."""
    if run.detail.origin not in OF_SLOTS:
        return False
    return run.detail.is_catch_up or turn.registry.workflow(run.workflow_id).is_making_up


def stops_others(turn: RunTurn, run: Run) -> bool:
    """Return whether a run that lacks room stops other runs for it."""
    action = turn.registry.rules_of(run).on_constraint_violation
    if action is None or action.kind is not ActionKind.KILL_OLD:
        return False
    return not joins_queue(turn, run)


def rivals(turn: RunTurn, run: Run) -> list[Run]:
    """Return the runs that take the room of another: it has none if they are as many as the limit."""
    holding = turn.registry.workflow(run.workflow_id).holding_room(besides=run)
    if not stops_others(turn, run):
        return holding
    # A later run that asks its hook stops this one if it is allowed.
    return [one for one in holding if one.is_busy or one.queue_position < run.queue_position]


def waits_only_for_room(turn: RunTurn, run: Run) -> bool:
    """Return whether room is all that a waiting run lacks."""
    return not run.detail.is_vetoed and not lacks_success(turn, run)


def _requires_success(turn: RunTurn, run: Run) -> bool:
    # A retry repeats the previous run itself.
    is_retry = run.detail.origin == RETRY
    return turn.registry.rules_of(run).constraints.require_previous_success and not is_retry


def lacks_success(turn: RunTurn, run: Run) -> bool:
    """Return whether a run needs the success of the previous one, which failed."""
    has_failed = turn.registry.workflow(run.workflow_id).last_succeeded is False
    return has_failed and _requires_success(turn, run)


def _concurrency(turn: RunTurn, run: Run, limit: int) -> list[BrokenConstraint]:
    """Check the number of concurrent runs. Waiting runs of earlier slots go first."""
    holding = rivals(turn, run)
    ahead = 0
    if not stops_others(turn, run):
        ahead = _count_ahead(turn, turn.registry.workflow(run.workflow_id), run)
    if len(holding) + ahead < limit:
        return []
    busy = sum(one.is_busy for one in holding)
    parts = [f"{busy} of at most {limit} runs are active"]
    if busy < len(holding):
        parts.append(f"{len(holding) - busy} before this one wait for their hook")
    if ahead:
        parts.append(f"{ahead} wait before this one")
    return [BrokenConstraint(MAX_CONCURRENT_RUNS, ", ".join(parts))]


def _count_ahead(turn: RunTurn, workflow: WorkflowRuns, run: Run) -> int:
    """Count the waiting runs that start before a run.

    A retry does not wait for runs that lack more than room: it may be what they wait for.
    """
    is_retry = run.detail.origin == RETRY
    position = run.queue_position
    return sum(
        one.is_waiting
        and not one.is_asking
        and one.queue_position < position
        and (not is_retry or waits_only_for_room(turn, one))
        for one in workflow.runs.values()
    )
