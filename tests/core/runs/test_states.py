"""The table of run states and moves."""

from itertools import product

import pytest

from windlass.core.errors import IllegalMove
from windlass.core.runs.states import RUN_FINAL, RunState, transition

# Moves by the stored names of the states. Every state that is not final may also become orphaned.
TABLE = {
    "pre_run": "pending cancelled",
    "pending": "condition_pending container_creating cancelled failed",
    "condition_pending": "condition_running cancelled failed",
    "condition_running": "action_pending container_creating cancelled failed",
    "action_pending": "action_running cancelled failed",
    "action_running": "container_creating completed cancelled failed",
    "container_creating": "running cancelled failed",
    "running": "terminating cancelled failed",
    "terminating": "completed failed retrying cancelled",
    "retrying": "pending failed cancelled",
    "completed": "",
    "failed": "",
    "cancelled": "",
    "orphaned": "",
}
ALLOWED = {
    (source, target)
    for source, targets in TABLE.items()
    for target in (*targets.split(), *(["orphaned"] if targets else []))
}


def test_there_are_fourteen_states() -> None:
    assert {state.value for state in RunState} == set(TABLE)
    assert len(RunState) == 14


@pytest.mark.parametrize(("source", "target"), list(product(RunState, RunState)))
def test_only_listed_moves_can_be_made(source: RunState, target: RunState) -> None:
    if (source.value, target.value) in ALLOWED:
        assert transition(source, target) is target
    else:
        with pytest.raises(IllegalMove, match=f"{source} to {target}"):
            transition(source, target)


def test_final_states_have_no_moves() -> None:
    assert {state.value for state in RUN_FINAL} == {"completed", "failed", "cancelled", "orphaned"}
