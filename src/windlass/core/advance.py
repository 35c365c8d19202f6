"""Apply one message to one job: `advance(job, message, now)` selects the rule and returns the changes.

A message that is outdated or delivered again changes nothing and is not an error.
"""

from windlass.core import attempts, completion, dispatch, loops, pagination
from windlass.core.changes import Arrival, Changes
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
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
    TimerKind,
)
from windlass.core.states import JobStatus
from windlass.core.timers import timer_of
from windlass.core.turn import Turn


def advance(
    job: Job,
    message: JobMessage,
    now: int,
    changes: Changes | None = None,
    *,
    wall: int | None = None,
    dispatches: bool = True,
) -> Changes:
    """Apply a message and add its consequences to `changes`, those of a batch or new ones.

    `now` never steps; `wall` is the wall clock, if it may differ.

    If the next message of the batch is about the same job, ready nodes may be left to it (`dispatches=False`).
    """
    turn = Turn(job, Changes() if changes is None else changes, now, wall)
    match message:
        case TaskFinished():
            verdict = attempts.finish_task(turn, message)
            if message.result_id is not None:
                # The first verdict stays: a message that is delivered again is judged again.
                turn.changes.results.setdefault(message.result_id, verdict)
        case Submitted():
            _submit(turn)
        case Continue():
            pass
        case TaskStarted():
            attempts.start_task(turn, message)
        case TimerDue():
            _wake(turn, message)
        case OutputsMerged():
            _take_outputs(turn, message)
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
        turn.close()
    return turn.changes


def _submit(turn: Turn) -> None:
    """Begin a job, or wait until the rules about runs admit it."""
    if turn.job.plan.runs is None:
        _begin(turn)
    elif turn.job.state.status is JobStatus.PENDING and not turn.job.ready:
        turn.changes.arrivals.append(Arrival(turn.job.id))


def _begin(turn: Turn) -> None:
    job = turn.job
    if job.state.status is not JobStatus.PENDING or job.ready:
        return
    if turn.postpone(job.spec.scheduled_at, TimerKind.BEGIN):
        return
    job.enqueue_unblocked()
    turn.set_deadline()


def _wake(turn: Turn, message: TimerDue) -> None:
    """Apply a timer. One that fires before the recorded instant is set again.

    That happens if the instant was never stored, a clock went back, or another worker runs the attempt now.
    """
    match message.kind:
        case TimerKind.BEGIN:
            _begin(turn)
        case TimerKind.JOB_TIMEOUT:
            _check_job_timeout(turn, message)
        case TimerKind.LOOP_TIMEOUT:
            _check_loop_timeout(turn, message)
        case TimerKind.RETRY | TimerKind.NODE_TIMEOUT | TimerKind.START_TIMEOUT:
            _wake_attempt(turn, message)


def _check_job_timeout(turn: Turn, message: TimerDue) -> None:
    state = turn.job.state
    if turn.job.is_final or message.round != state.round:
        return
    if not turn.postpone(state.deadline_at, TimerKind.JOB_TIMEOUT):
        completion.time_out_job(turn)


def _check_loop_timeout(turn: Turn, message: TimerDue) -> None:
    node = turn.job.plan.index.get(message.node_id or "", -1)
    loop = turn.job.loops.get(node)
    if loop is None or loop.node_attempt.number != message.attempt:
        return
    kind, due_at = TimerKind.LOOP_TIMEOUT, loop.deadline_at
    if not turn.postpone(due_at, kind, message.node_id, message.attempt):
        loops.time_out(turn, node)


def _wake_attempt(turn: Turn, message: TimerDue) -> None:
    job = turn.job
    node = job.plan.index.get(message.node_id or "", -1)
    attempt = _present_attempt(job, node, message.index)
    if attempt is None or attempt.number != message.attempt:
        return
    timer = timer_of(job, attempt)
    if timer is None or timer.kind is not message.kind:
        return
    if turn.now < timer.due_at:
        turn.changes.timers.append(timer)
    elif timer.kind is TimerKind.RETRY:
        _retry_attempt(turn, attempt)
    elif timer.kind is TimerKind.START_TIMEOUT:
        attempts.time_out_start(turn, attempt)
    else:
        attempts.time_out_attempt(turn, attempt)


def _present_attempt(job: Job, node: int, index: int) -> Attempt | None:
    """Return the attempt of a node, or of an iteration if the node is a loop in progress."""
    loop = job.loops.get(node)
    if loop is None:
        return job.attempts.get(node)
    return loop.attempts.get(index)


def _retry_attempt(turn: Turn, attempt: Attempt) -> None:
    """Dispatch the next attempt after its delay. An iteration first waits for room in the window of its loop."""
    job = turn.job
    if attempt.is_iteration:
        job.loops[attempt.node].queued[attempt.index] = None
        job.filling[attempt.node] = None
    else:
        dispatch.dispatch_again(turn, attempt)


def _take_outputs(turn: Turn, message: OutputsMerged) -> None:
    """Complete a loop, or a pagination, whose outputs have been merged."""
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    if message.generation != job.generations.get(node, 0):
        return
    if message.index is None:
        loop = job.loops.get(node)
        if loop is not None and loop.awaits_outputs and loop.node_attempt.number == message.attempt:
            loops.take_outputs(turn, node, message)
        return
    attempt = _present_attempt(job, node, message.index)
    if attempt is not None and attempt.is_merging and attempt.number == message.attempt:
        pagination.take_parts(turn, attempt, message)
