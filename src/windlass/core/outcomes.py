"""The end of an attempt: its node or iteration completes or fails."""

from msgspec import Raw

from windlass.core import completion, loops
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.turn import Turn


def complete(
    turn: Turn, attempt: Attempt, output: Raw, meta: Raw | None, execution: Raw | None
) -> None:
    """Complete the node or the iteration of an attempt."""
    if attempt.is_iteration:
        loops.complete_iteration(turn, attempt, output, meta, execution)
        return
    turn.complete_node(attempt, output, meta, execution)


def fail(turn: Turn, attempt: Attempt, error: TaskError, meta: Raw | None = None) -> None:
    """Fail the node or the iteration of an attempt for good."""
    if attempt.is_iteration:
        loops.fail_iteration(turn, attempt, error, meta)
    else:
        completion.fail_node(turn, attempt.node, error, meta)
