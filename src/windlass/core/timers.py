"""The timer of an attempt: when it is retried, or when the core stops waiting for its start or its result."""

from windlass.core.changes import Timer
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import TimerKind
from windlass.core.plan import NodePlan
from windlass.core.runs.containers import CONTAINER, STOP_SECONDS_MAX
from windlass.core.states import NodeStatus
from windlass.core.turn import Turn

# The worker enforces a node's timeout. This much later the core stops waiting for a worker that did not.
NODE_TIMEOUT_GRACE_SECONDS = 30.0


def result_seconds(plan: NodePlan) -> float:
    """Return how long after its start the core waits for the result of an attempt."""
    limit = plan.timeout_seconds + NODE_TIMEOUT_GRACE_SECONDS
    if plan.handler == CONTAINER:
        # Its worker reports a timeout when the container has stopped.
        limit += STOP_SECONDS_MAX
    return limit


def timer_of(job: Job, attempt: Attempt) -> Timer | None:
    """Return the timer of an attempt that waits for its retry or a worker, or runs; None for any other."""
    state = job.state_of(attempt)
    plan = job.plan.nodes[attempt.node]
    if state == NodeStatus.WAITING and attempt.due_at is not None:
        kind, due_at = TimerKind.RETRY, attempt.due_at
    elif state == NodeStatus.RUNNING and attempt.started_at is not None:
        limit = result_seconds(plan)
        kind, due_at = TimerKind.NODE_TIMEOUT, attempt.started_at + round(limit * MICROSECONDS)
    elif (
        state == NodeStatus.DISPATCHED
        and plan.start_timeout_seconds is not None
        and attempt.dispatched_at is not None
    ):
        limit = plan.start_timeout_seconds
        kind, due_at = TimerKind.START_TIMEOUT, attempt.dispatched_at + round(limit * MICROSECONDS)
    else:
        return None
    return Timer(
        due_at,
        job.id,
        kind,
        node_id=plan.id,
        attempt=attempt.number,
        index=max(attempt.index, 0),
        round=job.state.round,
    )


def set_attempt_timer(turn: Turn, attempt: Attempt) -> None:
    """Set the timer of an attempt that now waits or runs, or that a worker must start in time."""
    timer = timer_of(turn.job, attempt)
    assert timer is not None
    turn.changes.timers.append(timer)
