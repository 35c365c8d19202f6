"""advance(job, message, now) -> Changes: the rules.

A message that is outdated, or delivered again, changes nothing and is no error.
"""

from windlass.core import attempts, completion, dispatch, loops, pagination
from windlass.core.changes import Changes
from windlass.core.job import Job
from windlass.core.loop_state import IN_FLIGHT, Attempt
from windlass.core.messages import (
    CancelRequested,
    Continue,
    Message,
    OutputsMerged,
    RetryRequested,
    RunAdmitted,
    RunAsked,
    RunDue,
    ScheduleChanged,
    Submitted,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
)
from windlass.core.states import JobStatus, NodeStatus
from windlass.core.turn import Turn


def advance(job: Job, message: Message, now: int, changes: Changes | None = None, *, goes_on: bool = True) -> Changes:
    """What follows from `message`, added to `changes` (a batch's, or new ones).

    Where another message for the job comes next, the job may go on after that one (`goes_on`).
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
        case RunDue() | ScheduleChanged() | RunAsked():
            # About runs, and never for a job.
            pass
    if goes_on:
        dispatch.go_on(turn)
    changes = turn.changes
    if not turn.page:
        del changes.events[job.id]
    elif job.departed:
        changes.departed[job.id] = tuple(job.departed.values())
    else:
        changes.departed.pop(job.id, None)
    return changes


def _arrive(turn: Turn) -> None:
    """Begin, or leave it to the rules about runs to say when."""
    if turn.job.plan.runs is None:
        _begin(turn)
    elif turn.job.state.status is JobStatus.PENDING and not turn.job.ready:
        turn.changes.arrivals.append((turn.job.id, None))


def _begin(turn: Turn) -> None:
    job = turn.job
    if job.state.status is not JobStatus.PENDING or job.ready:
        return
    if job.spec.scheduled_at is not None and turn.now < job.spec.scheduled_at:
        turn.wake(job.spec.scheduled_at, "begin")
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
            turn.wake(job.state.deadline_at, "job_timeout")
        else:
            completion.time_out_job(turn)
        return
    node = job.plan.index.get(message.node_id or "", -1)
    loop = job.loops.get(node)
    if message.kind == "loop_timeout":
        if loop is None or loop.flight.attempt != message.attempt:
            return
        if loop.deadline_at is not None and turn.now < loop.deadline_at:
            turn.wake(loop.deadline_at, "loop_timeout", message.node_id, message.attempt)
        else:
            loops.time_out(turn, node)
        return
    flight = job.flights.get(node) if loop is None else loop.flights.get(message.index)
    if flight is None or flight.attempt != message.attempt:
        return
    if message.kind == "retry":
        _go_on_with(turn, flight)
    elif message.kind == "node_timeout" and job.state_of(flight) in IN_FLIGHT:
        attempts.give_up_on_worker(turn, flight)


def _go_on_with(turn: Turn, flight: Attempt) -> None:
    """The wait before a further attempt is over; an iteration then waits for room in its loop."""
    job = turn.job
    if job.state_of(flight) != NodeStatus.WAITING or flight.is_gathering:
        return
    if flight.due_at is not None and turn.now < flight.due_at:
        # Told of a wait that was never stored, or by a clock that went back: the wait that is recorded counts.
        node_id = job.plan.nodes[flight.node].id
        turn.wake(flight.due_at, "retry", node_id, flight.attempt, max(flight.index, 0))
        return
    if flight.index < 0:
        dispatch.dispatch_again(turn, flight)
    else:
        job.loops[flight.node].queued[flight.index] = None
        job.filling[flight.node] = None


def _take_gathered(turn: Turn, message: OutputsMerged) -> None:
    job = turn.job
    node = job.plan.index.get(message.node_id, -1)
    loop = job.loops.get(node)
    if message.generation != job.generations.get(node, 0):
        return
    if message.index is None:
        if loop is not None and loop.is_over and loop.is_gathering and loop.flight.attempt == message.attempt:
            loops.take_outputs(turn, node, message)
        return
    flight = job.flights.get(node) if loop is None else loop.flights.get(message.index)
    if flight is not None and flight.is_gathering and flight.attempt == message.attempt:
        pagination.take_parts(turn, flight, message)
