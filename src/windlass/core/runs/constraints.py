"""The constraints of a run that its shard can check by itself."""

from msgspec import Struct

from windlass.core.runs.registry import Run, WorkflowRuns
from windlass.core.runs.rules import Constraints
from windlass.core.runs.turn import RunTurn

MAX_CONCURRENT_RUNS = "max_concurrent_runs"
REQUIRE_PREVIOUS_SUCCESS = "require_previous_success"


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
    workflow = turn.registry.workflow(run.workflow_id)
    found: list[BrokenConstraint] = []
    if constraints.max_concurrent_runs is not None:
        run.detail.constraints_checked += 1
        found += _concurrency(workflow, run, constraints.max_concurrent_runs)
    # A retry repeats the previous run itself.
    if constraints.require_previous_success and run.detail.origin != "retry":
        run.detail.constraints_checked += 1
        if workflow.last_succeeded is False:
            found.append(
                BrokenConstraint(REQUIRE_PREVIOUS_SUCCESS, "the previous run did not succeed")
            )
    return found


def _concurrency(workflow: WorkflowRuns, run: Run, limit: int) -> list[BrokenConstraint]:
    """Check the number of concurrent runs. Runs that wait longer go first."""
    busy = len(workflow.busy(besides=run))
    # A run that does not wait yet would be the last one.
    ahead = [*workflow.waiting(), run].index(run)
    if busy + ahead < limit:
        return []
    message = f"{busy} of at most {limit} runs are active"
    if ahead:
        message += f", and {ahead} wait before this one"
    return [BrokenConstraint(MAX_CONCURRENT_RUNS, message)]
