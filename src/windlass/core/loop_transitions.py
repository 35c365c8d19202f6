"""Transitions of iterations: their end, the cancellation of their loop, and the reset for a retry."""

from windlass.core.loop_state import IN_FLIGHT, Attempt
from windlass.core.states import NodeMove, NodeStatus
from windlass.core.turn import CANCELLED, Turn, json_raw

_COMPLETED = int(NodeStatus.COMPLETED)


def end_iteration(turn: Turn, attempt: Attempt) -> None:
    """Remove an iteration that ends from those in flight."""
    loop = turn.job.loops[attempt.node]
    index = attempt.index
    del loop.attempts[index]
    if loop.queued:
        loop.queued.pop(index, None)
    attempt.due_at = None
    # The state of an iteration that completed implies its first attempt.
    if (
        attempt.number != 1
        or loop.last_attempts
        or loop.attempts_start
        or loop.states[index] != _COMPLETED
    ):
        loop.remember_attempt(index, attempt.number, attempt.attempts_before)
    if attempt.first_seq is not None and loop.states[index] != _COMPLETED:
        loop.first_seqs[index] = attempt.first_seq
    turn.job.filling[attempt.node] = None


def cancel_iterations(turn: Turn, node: int, reason: str) -> None:
    """Cancel every iteration that was begun and the tasks that workers run."""
    job = turn.job
    loop = job.loops[node]
    data = json_raw({"reason": reason})
    for index in list(loop.attempts):
        attempt = loop.attempts[index]
        if loop.states[index] in IN_FLIGHT:
            turn.withdraw(attempt)
        turn.transition(attempt, NodeMove.CANCEL)
        end_iteration(turn, attempt)
        turn.emit_attempt(attempt, CANCELLED, data)
        turn.save(attempt, turn.now)


def reset_iterations(turn: Turn, node: int) -> None:
    """Prepare a parked loop for a retry: failed and cancelled iterations run again, completed ones stay."""
    loop = turn.job.parked[node]
    loop.is_merging = False
    loop.first_failure = loop.paused_until = None
    loop.window = loop.plan.window
    for index in range(loop.begun):
        if loop.states[index] not in (NodeStatus.FAILED, NodeStatus.CANCELLED):
            continue
        loop.failed -= loop.states[index] == NodeStatus.FAILED
        attempt = loop.last_attempt_number(index)
        loop.states[index] = NodeStatus.PENDING
        loop.remember_attempt(index, attempt, attempt)
        loop.queued[index] = None
        row = Attempt(
            node,
            attempt,
            attempt,
            first_seq=loop.first_seqs.get(index),
            index=index,
            is_iteration=True,
        )
        turn.save_parked(loop, row)
    # In order of the index, with those that were queued before.
    loop.queued = dict.fromkeys(sorted(loop.queued))
