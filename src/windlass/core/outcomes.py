"""What the end of an attempt means for its node or its iteration: done, failed, or another attempt later."""

from msgspec import Raw

from windlass.core import completion, loops
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.states import NodeMove
from windlass.core.turn import COMPLETED, Turn, attempt_data

_COMPLETE = NodeMove.COMPLETE


def complete(turn: Turn, attempt: Attempt, output: Raw, meta: Raw | None, execution: Raw | None) -> None:
    """The end of a node, or of an iteration, with an output."""
    if attempt.is_iteration:
        loops.complete_iteration(turn, attempt, output, meta, execution)
        return
    job = turn.job
    node = attempt.node
    turn.move(node, _COMPLETE)
    turn.finish(node)
    job.put_output(node, output)
    if meta is not None:
        job.metas[node] = meta
    turn.emit_attempt(attempt, COMPLETED, attempt_data(attempt.number), None, execution, attempt.parent_seq)
    turn.save_node(node, attempt, turn.now)
    turn.meet_dependents(node, skipped=False)


def fail(turn: Turn, attempt: Attempt, error: TaskError, meta: Raw | None = None) -> None:
    """The final failure of a node or of an iteration."""
    if attempt.is_iteration:
        loops.fail_iteration(turn, attempt, error, meta)
    else:
        completion.fail_node(turn, attempt.node, error, meta)


def wait(turn: Turn, attempt: Attempt) -> None:
    """Have the next attempt made when the wait is over."""
    assert attempt.due_at is not None
    node_id = turn.job.plan.nodes[attempt.node].id
    turn.set_timer(attempt.due_at, "retry", node_id, attempt.number, max(attempt.index, 0))
