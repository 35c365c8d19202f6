"""advance(job, message, now) -> Changes: the rules.

A message that is outdated, or delivered again, changes nothing and is no error.
"""

from windlass.core import attempts, completion, dispatch, loops, pagination
from windlass.core.changes import Arrival, Changes
from windlass.core.job import Job
from windlass.core.loop_state import IN_FLIGHT, Attempt
from windlass.core.messages import (
    CancelRequested,
    Continue,
    JobMessage,
    OutputsMerged,
    RetryRequested,
    RunAdmitted,
    Submitted,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
)
from windlass.core.states import JobStatus, NodeStatus
from windlass.core.turn import Turn


def advance(
    job: Job, message: JobMessage, now: int, changes: Changes | None = None, *, dispatches: bool = True
) -> Changes:
    """What follows from `message`, added to `changes` (a batch's, or new ones).

    Where another message for the job comes next, the job may go on after that one (`dispatches`).
    """
    turn = Turn(job, Changes() if changes is None else changes, now)
    match message:
        case TaskFinished():
            attempts.finish_task(turn, message)
        case Submitted():
            _arrive(turn)
        case Continue():
            pass
        case TaskStarted():
            attempts.start_task(turn, message)
        case TimerDue():
            _wake(turn, message)
        case OutputsMerged():
            _take_gathered(turn, message)
        case TaskLost():
            attempts.lose_task(turn, message)
        case CancelRequested():
            completion.cancel_job(turn, message)
        case RetryRequested():
            completion.retry_job(turn, message)
        case RunAdmitted():
            _begin(turn)
    if dispatches:
        dispatch.dispatch_ready(turn)
    changes = turn.changes
    if not turn.page:
        del changes.events[job.id]
    elif job.in_flight:
        changes.in_flight[job.id] = tuple(job.in_flight.values())
    else:
        changes.in_flight.pop(job.id, None)
    return changes


def _arrive(turn: Turn) -> None:
    """Begin, or leave it to the rules about runs to say when."""
    if turn.job.plan.runs is None:
        _begin(turn)
    elif turn.job.state.status is JobStatus.PENDING and not turn.job.ready:
        turn.changes.arrivals.append(Arrival(turn.job.id))


def _begin(turn: Turn) -> None:
    job = turn.job
    if job.state.status is not JobStatus.PENDING or job.ready:
        return
    if job.spec.scheduled_at is not None and turn.now < job.spec.scheduled_at:
        turn.set_timer(job.spec.scheduled_at, "begin")
        return
    job.ready.extend(node for node in range(len(job.states)) if not job.states[node] and not job.remaining[node])
    turn.set_deadline()


def _wake(turn: Turn, message: TimerDue) -> None:
    job = turn.job
    if message.kind == "begin":
        _begin(turn)
        return
    if message.kind == "job_timeout":
        if job.ended or message.round != job.state.round:
            return
        if job.state.deadline_at is not None and turn.now < job.state.deadline_at:
            turn.set_timer(job.state.deadline_at, "job_timeout")
        else:
            completion.time_out_job(turn)
        return
    node = job.plan.index.get(message.node_id or "", -1)
    loop = job.loops.get(node)
    if message.kind == "loop_timeout":
        if loop is None or loop.node_attempt.number != message.attempt:
            return
        if loop.deadline_at is not None and turn.now < loop.deadline_at:
            turn.set_timer(loop.deadline_at, "loop_timeout", message.node_id, message.attempt)
        else:
            loops.time_out(turn, node)
        return
    attempt = job.attempts.get(node) if loop is None else loop.attempts.get(message.index)
    if attempt is None or attempt.number != message.attempt:
        return
    if message.kind == "retry":
        _go_on_with(turn, attempt)
    elif message.kind == "node_timeout" and job.state_of(attempt) in IN_FLIGHT:
        attempts.give_up_on_worker(turn, attempt)


def _go_on_with(turn: Turn, attempt: Attempt) -> None:
    """The wait before a further attempt is over; an iteration then waits for room in its loop."""
    job = turn.job
    if job.state_of(attempt) != NodeStatus.WAITING or attempt.is_merging:
        return
    if attempt.due_at is not None and turn.now < attempt.due_at:
        # Told of a wait that was never stored, or by a clock that went back: the wait that is recorded counts.
        node_id = job.plan.nodes[attempt.node].id
        turn.set_timer(attempt.due_at, "retry", node_id, attempt.number, max(attempt.index, 0))
        return
    if not attempt.is_iteration:
        dispatch.dispatch_again(turn, attempt)
    else:
        job.loops[attempt.node].queued[attempt.index] = None
        job.filling[attempt.node] = None


def _take_gathered(turn: Turn, message: OutputsMerged) -> None:
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    loop = job.loops.get(node)
    if message.generation != job.generations.get(node, 0):
        return
    if message.index is None:
        if loop is not None and loop.is_over and loop.is_merging and loop.node_attempt.number == message.attempt:
            loops.take_outputs(turn, node, message)
        return
    attempt = job.attempts.get(node) if loop is None else loop.attempts.get(message.index)
    if attempt is not None and attempt.is_merging and attempt.number == message.attempt:
        pagination.take_parts(turn, attempt, message)
