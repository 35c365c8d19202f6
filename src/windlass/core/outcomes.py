"""The end of an attempt: its node or iteration completes or fails."""

from msgspec import Raw

from windlass.core import completion, loops
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.turn import Turn


def complete(
    turn: Turn, attempt: Attempt, output: Raw, meta: Raw | None, end_meta: Raw | None
) -> None:
    """Complete the node or the iteration of an attempt; `end_meta` is the metadata of the event."""
    if attempt.is_iteration:
        loops.complete_iteration(turn, attempt, output, meta, end_meta)
        return
    turn.complete_node(attempt, output, meta, end_meta)


def fail(
    turn: Turn,
    attempt: Attempt,
    error: TaskError,
    end_meta: Raw | None,
    meta: Raw | None = None,
) -> None:
    """Fail the node or the iteration of an attempt for good; `end_meta` is the metadata of the event."""
    if attempt.is_iteration:
        loops.fail_iteration(turn, attempt, error, end_meta, meta)
    else:
        if meta is not None:
            turn.job.metas[attempt.node] = meta
        completion.fail_node(turn, attempt.node, error, end_meta)
