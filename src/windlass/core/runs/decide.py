"""decide(registry, message, now, changes) -> commands: the rules about runs.

A message that is outdated, or delivered again, changes nothing and is not an error.
"""

from collections.abc import Mapping

from msgspec import Struct

from windlass.core.changes import Changes
from windlass.core.ids import JobId, job_run_id, retry_run_id
from windlass.core.jobs import OF_SLOTS
from windlass.core.runs import admission, closing, execution, scheduling
from windlass.core.runs.commands import AdmitJob, Command
from windlass.core.runs.messages import (
    ContainerEnded,
    JobArrived,
    JobFinished,
    JobRefused,
    JobStarted,
    JobTriggered,
    RunDue,
    RunLost,
    RunMessage,
    RunRequested,
    RunSignal,
    RunWait,
    ScheduleChanged,
)
from windlass.core.runs.registry import NO_RULES, RETRY, R, Run, RunRegistry
from windlass.core.runs.rows import RunDetail, RunRow, ScheduleRow
from windlass.core.runs.rules import POST_RUN_HOOK, PRE_RUN_HOOK, ActionEvent, RunRules
from windlass.core.runs.turn import RunTurn


class ScheduleContext(Struct, frozen=True):
    """What the engine read from the store for a message about a schedule."""

    schedule: ScheduleRow | None = None
    rules: RunRules = NO_RULES
    # Of a backfill: the newest run of each slot that has one.
    newest: Mapping[int, RunRow] = {}


NO_CONTEXT = ScheduleContext()
_AboutRun = RunDue | JobStarted | ContainerEnded | JobFinished | JobRefused | JobTriggered | RunLost


def decide(
    registry: RunRegistry,
    message: RunMessage | RunSignal,
    now: int,
    changes: Changes,
    context: ScheduleContext = NO_CONTEXT,
    *,
    wall: int | None = None,
) -> list[Command]:
    """Add the consequences of a message to the batch's changes, and return the commands for jobs.

    `now` never steps; `wall` is the wall clock, if it may differ.
    """
    turn = RunTurn(registry, changes, now, wall)
    match message:
        case JobArrived():
            _admit(turn, message)
        case ScheduleChanged():
            if context.schedule is not None:
                workflow = registry.workflow(message.workflow_id)
                scheduling.change(turn, workflow, context.schedule, context.rules)
        case RunRequested():
            _apply_request(turn, message, context)
        case JobStarted() | ContainerEnded() | JobFinished():
            _apply_to_run(turn, registry.by_job.get(message.job_id), message)
        case RunDue() | JobRefused() | JobTriggered() | RunLost():
            _apply_to_run(turn, registry.find(message.run_id), message)
    _wake_others(turn)
    turn.close()
    return turn.commands


def _wake_others(turn: RunTurn) -> None:
    """Let waiting runs start where room became free, until nothing more follows from it."""
    while turn.freed:
        workflow_id, _ = turn.freed.popitem()
        admission.wake_waiting(turn, turn.registry.workflow(workflow_id))


def _apply_to_run(turn: RunTurn, run: Run | None, message: _AboutRun) -> None:
    """Apply a message about one run. It is outdated if the run has ended."""
    if run is None:
        return
    match message:
        case RunDue():
            _wake(turn, run, message.kind)
        case JobStarted():
            _start(turn, run, message)
        case ContainerEnded():
            execution.note_container(turn, run, message.container)
        case JobFinished():
            _end_job(turn, run, message)
        case JobRefused():
            _refuse_job(turn, run, message)
        case JobTriggered():
            _end_trigger(turn, run, message)
        case RunLost():
            _orphan(turn, run, message)


# Timers


def _wake(turn: RunTurn, run: Run, kind: RunWait) -> None:
    if kind is RunWait.RECHECK:
        admission.recheck(turn, run)
    elif kind is RunWait.START_LIMIT:
        execution.exceed_start_limit(turn, run)
    elif kind is RunWait.SLOW:
        execution.report_slow(turn, run)
    elif kind is RunWait.LIMIT:
        execution.exceed_limit(turn, run)
    elif run.detail.due_kind is kind and run.detail.due_at is not None:
        if turn.now_of(kind) < run.detail.due_at:
            # The timer was never stored, or the clock was set back: the recorded instant counts.
            turn.set_timer(run, run.detail.due_at, kind)
        else:
            _end_wait(turn, run, kind)


def _end_wait(turn: RunTurn, run: Run, kind: RunWait) -> None:
    if run.is_planned:
        scheduling.fire(turn, run)
    elif kind in (RunWait.START, RunWait.RETRY):
        admission.begin(turn, run)
    elif kind is RunWait.CHECK:
        turn.clear_timer(run)
        admission.check_again(turn, run)
    elif kind is RunWait.OTHERS:
        admission.exceed_wait(turn, run)


# Jobs


def _admit(turn: RunTurn, message: JobArrived) -> None:
    if message.request_id is not None:
        turn.changes.requests.append(message.request_id)
    known = turn.registry.by_job.get(message.job_id)
    if known is not None:
        if known.state is R.CONTAINER_CREATING and message.request_id is None:
            turn.commands.append(AdmitJob(message.job_id))
        return
    run = _new_run(turn, message)
    if turn.registry.is_known(run.id):
        return
    turn.registry.add(run)
    if message.scheduled_at is not None and message.scheduled_at > turn.wall:
        turn.set_timer(run, run.scheduled_at, RunWait.START)
        turn.save(run)
    else:
        admission.begin(turn, run)


def _new_run(turn: RunTurn, message: JobArrived) -> Run:
    """Return the run of a submitted job, or of a request to retry one."""
    if message.request_id is None:
        run_id = job_run_id(message.workflow_id, message.job_id)
        created_at = message.created_at
        # The job of a slot belongs to a run that has ended.
        origin = "submit" if message.origin in OF_SLOTS else message.origin
        detail = RunDetail(origin=origin, depth=message.depth)
    else:
        run_id = retry_run_id(message.workflow_id, message.request_id)
        created_at = turn.now
        detail = RunDetail(origin=RETRY, from_node=message.from_node, depth=message.depth)
    scheduled_at = created_at if message.scheduled_at is None else message.scheduled_at
    row = RunRow(
        run_id=run_id,
        workflow_id=message.workflow_id,
        version=message.version,
        shard=turn.registry.shard,
        state=R.PRE_RUN,
        previous_state=None,
        scheduled_at=scheduled_at,
        created_at=created_at,
        state_at=turn.now,
        completed_at=None,
        job_id=message.job_id,
        attempt=0,
        detail=detail,
    )
    run = Run(row, is_stored=False)
    run.detail.max_retries = turn.registry.rules_of(run).retry.max_retries
    return run


def _start(turn: RunTurn, run: Run, message: JobStarted) -> None:
    if run.state is R.CONTAINER_CREATING and run.job_id == message.job_id:
        turn.registry.creating.pop(message.job_id, None)
        execution.start(turn, run, message.started_at)


def _end_job(turn: RunTurn, run: Run, message: JobFinished) -> None:
    if message.job_id in run.detail.calls:
        _end_call(turn, run, message)
    elif message.job_id == run.job_id:
        execution.end_job(turn, run, message)


def _end_call(turn: RunTurn, run: Run, message: JobFinished) -> None:
    """Continue a run after a call that was made for it."""
    purpose = run.detail.calls.pop(message.job_id)
    turn.save(run)
    turn.registry.by_job.pop(message.job_id, None)
    if purpose == PRE_RUN_HOOK:
        admission.end_hook(turn, run, message)
    elif purpose == POST_RUN_HOOK:
        closing.end_post_run_hook(turn, run, message.failure)
    else:
        _end_action(turn, run, ActionEvent(purpose), message.failure, message.job_id)


def _end_action(
    turn: RunTurn, run: Run, event: ActionEvent, error: str | None, job_id: JobId | None
) -> None:
    if event is ActionEvent.CONSTRAINT_VIOLATION:
        admission.end_action(turn, run, error, job_id)
    else:
        closing.end_action(turn, run, event, error, job_id)


def _refuse_job(turn: RunTurn, run: Run, message: JobRefused) -> None:
    turn.registry.by_job.pop(run.job_id or "", None)
    run.job_id = None
    closing.fail(turn, run, message.error)


def _end_trigger(turn: RunTurn, run: Run, message: JobTriggered) -> None:
    if run.detail.calls.pop(message.job_id, None) is not None:
        job_id = message.job_id if message.error is None else None
        _end_action(turn, run, ActionEvent(message.purpose), message.error, job_id)


# Requests, and lost engines


def _apply_request(turn: RunTurn, message: RunRequested, context: ScheduleContext) -> None:
    turn.run_changes.requests.append(message.request_id)
    if message.kind == "backfill":
        _backfill(turn, message, context)
        return
    run = turn.registry.find(message.run_id or "")
    if run is None:
        return
    reason = message.reason or "cancelled by request"
    if run.is_planned:
        scheduling.cancel_planned(turn, run, reason)
    else:
        closing.stop(turn, run, R.CANCELLED, reason)


def _backfill(turn: RunTurn, message: RunRequested, context: ScheduleContext) -> None:
    if context.schedule is None or message.since is None or message.until is None:
        return
    workflow = turn.registry.workflow(message.workflow_id)
    if workflow.schedule is None:
        workflow.schedule = context.schedule
    span = scheduling.Span(message.since, message.until)
    scheduling.backfill(
        turn,
        workflow,
        context.rules,
        span,
        request_id=message.request_id,
        newest=context.newest,
    )


def _orphan(turn: RunTurn, run: Run, message: RunLost) -> None:
    # The job of a terminating run has ended, and the calls of a closing run are jobs that continue.
    is_decided = run.detail.is_closing or run.state is R.TERMINATING
    if run.state is not R.PRE_RUN and not is_decided:
        reason = f"no engine served the run for {message.silent_seconds:.0f} s"
        closing.close(turn, run, R.ORPHANED, reason)
