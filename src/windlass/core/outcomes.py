"""What the end of an attempt means for its node or its iteration: done, failed, or another attempt later."""

from msgspec import Raw

from windlass.core import completion, loops
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.states import NodeMove
from windlass.core.turn import COMPLETED, Turn, attempt_data

_COMPLETE = NodeMove.COMPLETE


def complete(turn: Turn, flight: Attempt, output: Raw, meta: Raw | None, execution: Raw | None) -> None:
    """The end of a node, or of an iteration, with an output."""
    if flight.index >= 0:
        loops.complete_iteration(turn, flight, output, meta, execution)
        return
    job = turn.job
    node = flight.node
    turn.move(node, _COMPLETE)
    turn.land(node)
    job.put_output(node, output)
    if meta is not None:
        job.metas[node] = meta
    again = flight.first_seq if flight.calls or flight.attempt - flight.attempts_before > 1 else None
    turn.tell(flight, COMPLETED, attempt_data(flight.attempt), None, execution, again)
    turn.store(node, flight, turn.now)
    turn.release_children(node, skipped=False)


def fail(turn: Turn, flight: Attempt, error: TaskError, meta: Raw | None = None) -> None:
    """The final failure of a node or of an iteration."""
    if flight.index >= 0:
        loops.fail_iteration(turn, flight, error, meta)
    else:
        completion.fail_node(turn, flight.node, error, meta)


def wait(turn: Turn, flight: Attempt) -> None:
    """Have the next attempt made when the wait is over."""
    assert flight.due_at is not None
    node_id = turn.job.plan.nodes[flight.node].id
    turn.wake(flight.due_at, "retry", node_id, flight.attempt, max(flight.index, 0))
