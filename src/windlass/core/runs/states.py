"""The fourteen states of a run and the table of moves between them.

A move that the table does not list is an error. Final states have no moves.
"""

from collections.abc import Mapping
from enum import StrEnum, unique

from windlass.core.errors import IllegalMove


@unique
class RunState(StrEnum):
    """The state of a run. The values are the names in rows, events and the API."""

    PRE_RUN = "pre_run"
    PENDING = "pending"
    CONDITION_PENDING = "condition_pending"
    CONDITION_RUNNING = "condition_running"
    ACTION_PENDING = "action_pending"
    ACTION_RUNNING = "action_running"
    CONTAINER_CREATING = "container_creating"
    RUNNING = "running"
    TERMINATING = "terminating"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ORPHANED = "orphaned"


R = RunState
# A run can be cancelled, or orphaned when no engine serves it, in every state that is not final.
_OUT = frozenset({R.CANCELLED, R.ORPHANED})

# fmt: off
RUN_MOVES: Mapping[RunState, frozenset[RunState]] = {
    R.PRE_RUN:            _OUT | {R.PENDING},
    # Straight to its job if there is nothing to check.
    R.PENDING:            _OUT | {R.CONDITION_PENDING, R.CONTAINER_CREATING, R.FAILED},
    R.CONDITION_PENDING:  _OUT | {R.CONDITION_RUNNING, R.FAILED},
    R.CONDITION_RUNNING:  _OUT | {R.ACTION_PENDING, R.CONTAINER_CREATING, R.FAILED},
    R.ACTION_PENDING:     _OUT | {R.ACTION_RUNNING, R.FAILED},
    # Completed without a job: the run was skipped.
    R.ACTION_RUNNING:     _OUT | {R.CONTAINER_CREATING, R.COMPLETED, R.FAILED},
    R.CONTAINER_CREATING: _OUT | {R.RUNNING, R.FAILED},
    R.RUNNING:            _OUT | {R.TERMINATING, R.FAILED},
    R.TERMINATING:        _OUT | {R.COMPLETED, R.FAILED, R.RETRYING},
    R.RETRYING:           _OUT | {R.PENDING, R.FAILED},
    R.COMPLETED:          frozenset(),
    R.FAILED:             frozenset(),
    R.CANCELLED:          frozenset(),
    R.ORPHANED:           frozenset(),
}
# fmt: on

RUN_FINAL = frozenset(state for state, targets in RUN_MOVES.items() if not targets)


def transition(state: RunState, target: RunState) -> RunState:
    """Return the state of a run after a move; IllegalMove when the table does not list the move."""
    if target not in RUN_MOVES[state]:
        allowed = ", ".join(sorted(RUN_MOVES[state])) or "nothing: the state is final"
        raise IllegalMove(f"illegal move of a run: {state} to {target}; allowed is {allowed}")
    return target
