"""decide(book, message, now) -> orders: the rules about runs.

A message that is outdated, or delivered again, changes nothing and is no error.
"""

from msgspec import Struct

from windlass.core.changes import Changes
from windlass.core.runs import actions, lifecycle, scheduling
from windlass.core.runs.commands import Order, ReleaseJob
from windlass.core.runs.ids import job_run_id, workflow_of
from windlass.core.runs.messages import (
    ContainerEnded,
    JobArrived,
    JobEnded,
    JobRefused,
    JobStarted,
    JobTriggered,
    RunAsked,
    RunDue,
    RunLost,
    RunNews,
    ScheduleChanged,
)
from windlass.core.runs.registry import R, Run, RunRegistry, RunTurn
from windlass.core.runs.rows import RunDetail, RunRow, ScheduleRow
from windlass.core.runs.rules import RunRules


class ScheduleContext(Struct, frozen=True):
    """What the shell read for a message about a schedule."""

    schedule: ScheduleRow | None = None
    rules: RunRules | None = None
    # Of the ids that a backfill may make, those that are runs already.
    known: frozenset[str] = frozenset()


NOTHING = ScheduleContext()


def decide(
    book: RunRegistry,
    message: RunDue | RunAsked | ScheduleChanged | RunNews,
    now: int,
    changes: Changes,
    given: ScheduleContext = NOTHING,
) -> list[Order]:
    """What follows from a message, added to the batch's changes; what jobs are to do is returned."""
    turn = RunTurn(book, changes, now)
    match message:
        case RunDue():
            _wake(turn, message)
        case JobArrived():
            _arrive(turn, message)
        case JobStarted():
            run = book.by_job.get(message.job_id)
            if run is not None and run.state is R.CONTAINER_CREATING and run.job_id == message.job_id:
                book.creating.pop(message.job_id, None)
                lifecycle.start(turn, run)
        case ContainerEnded():
            run = book.by_job.get(message.job_id)
            if run is not None:
                lifecycle.note_container(turn, run, message.container)
        case JobEnded():
            _end_job(turn, message)
        case ScheduleChanged():
            if given.schedule is not None:
                scheduling.change(turn, book.shelf(given.schedule.workflow_id), given.schedule, given.rules)
        case RunAsked():
            _answer(turn, message, given)
        case JobRefused() | JobTriggered() | RunLost():
            _hear(turn, message)
    turn.close()
    return turn.orders


def _wake(turn: RunTurn, message: RunDue) -> None:
    run = turn.book.find(message.job_id)
    if run is None:
        return
    if message.kind == "run_slow":
        lifecycle.slow_down(turn, run)
        return
    if message.kind == "run_limit":
        lifecycle.pass_limit(turn, run)
        return
    detail = run.detail
    if detail.due_kind != message.kind or detail.due_at is None:
        return
    if turn.now < detail.due_at:
        # Told of a wait that was never stored, or by a clock that went back: the wait that is recorded counts.
        turn.set_timer(run, detail.due_at, message.kind)
        return
    match message.kind:
        case "run_start":
            if run.is_planned:
                scheduling.fire(turn, run)
            else:
                lifecycle.begin(turn, run)
        case "run_check":
            turn.rest(run)
            lifecycle.check_again(turn, run)
        case "run_retry":
            lifecycle.begin(turn, run)
        case "run_wait":
            action = actions.on_violation(turn, run)
            lifecycle.fail(turn, run, f"waited {action.timeout_seconds:g} s for the constraints to hold, in vain")
        case _:
            return


def _arrive(turn: RunTurn, message: JobArrived) -> None:
    if message.request_id is not None:
        turn.changes.requests.append(message.request_id)
    known = turn.book.by_job.get(message.job_id)
    if known is not None:
        if known.state is R.CONTAINER_CREATING and message.request_id is None:
            turn.orders.append(ReleaseJob(message.job_id))
        return
    is_retry = message.request_id is not None
    run_id = job_run_id(message.workflow_id, message.job_id, message.request_id)
    if turn.book.is_known(run_id):
        return
    scheduled_at = message.created_at if message.scheduled_at is None else message.scheduled_at
    run = Run(
        RunRow(
            run_id=run_id, workflow_id=message.workflow_id, version=message.version, shard=turn.book.shard,
            state=R.PRE_RUN, previous_state=None, scheduled_at=turn.now if is_retry else scheduled_at,
            created_at=turn.now if is_retry else message.created_at, state_at=turn.now, completed_at=None,
            job_id=message.job_id, attempt=0,
            detail=RunDetail(origin="retry" if is_retry else "submit", from_node=message.from_node),
        ),
        is_stored=False,
    )  # fmt: skip
    turn.book.add(run)
    if run.scheduled_at > turn.now:
        turn.set_timer(run, run.scheduled_at, "run_start")
        turn.save(run)
    else:
        lifecycle.begin(turn, run)


def _end_job(turn: RunTurn, message: JobEnded) -> None:
    run = turn.book.by_job.get(message.job_id)
    if run is None:
        return
    if message.job_id in run.detail.calls:
        lifecycle.take_answer(turn, run, message)
    elif message.job_id == run.job_id:
        lifecycle.end_job(turn, run, message)


def _answer(turn: RunTurn, message: RunAsked, given: ScheduleContext) -> None:
    turn.stored.requests.append(message.request_id)
    if message.kind == "backfill":
        if given.rules is not None and message.since is not None and message.until is not None:
            shelf = turn.book.shelf(workflow_of(message.job_id))
            if shelf.schedule is None:
                shelf.schedule = given.schedule
            scheduling.backfill(turn, shelf, given.rules, message.since, message.until, set(given.known))
        return
    run = turn.book.find(message.job_id)
    if run is None:
        return
    reason = message.reason or "cancelled by request"
    if run.is_planned:
        scheduling.dismiss(turn, run, reason)
    else:
        lifecycle.stop(turn, run, R.CANCELLED, reason)


def _hear(turn: RunTurn, message: JobRefused | JobTriggered | RunLost) -> None:
    run = turn.book.find(message.run_id)
    if run is None:
        return
    match message:
        case JobRefused():
            turn.book.by_job.pop(run.job_id or "", None)
            run.job_id = None
            lifecycle.fail(turn, run, message.error)
        case JobTriggered():
            if run.detail.calls.pop(message.job_id, None) is None:
                return
            actions.finish(turn, run, message.purpose, message.error)
            lifecycle.after_action(turn, run, message.purpose)
        case RunLost():
            if run.state is not R.PRE_RUN:
                text = f"no engine served the run for {message.silent_seconds:.0f} s"
                lifecycle.stop(turn, run, R.ORPHANED, text)
