"""The end of an attempt: its node or iteration completes, fails, or waits for the next attempt."""

from msgspec import Raw

from windlass.core import completion, loops
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.turn import Turn


def complete(turn: Turn, attempt: Attempt, output: Raw, meta: Raw | None, execution: Raw | None) -> None:
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


def wait(turn: Turn, attempt: Attempt) -> None:
    """Set the timer of the next attempt."""
    assert attempt.due_at is not None
    node_id = turn.job.plan.nodes[attempt.node].id
    turn.set_timer(attempt.due_at, "retry", node_id, attempt.number, max(attempt.index, 0))
