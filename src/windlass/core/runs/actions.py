"""Actions on events of a run: calls, made by jobs of their own, and jobs of other workflows."""

from collections.abc import Mapping
from typing import Any

from windlass.core.events import EventType
from windlass.core.ids import JobId, derived_job_id
from windlass.core.jobs import JOB_DEPTH_MAX
from windlass.core.redaction import public_url
from windlass.core.runs.commands import MakeCall, TriggerJob
from windlass.core.runs.registry import Run
from windlass.core.runs.rows import ActionRecord
from windlass.core.runs.rules import (
    POST_RUN_HOOK,
    PRE_RUN_HOOK,
    Action,
    ActionEvent,
    ActionKind,
    Hook,
)
from windlass.core.runs.states import RunState
from windlass.core.runs.turn import RunTurn
from windlass.core.runs.webhooks import instant_text

# What a row keeps of them; the events have all.
ACTIONS_MAX = 100
SKIP = Action(kind=ActionKind.SKIP)
_EVENTS = frozenset(ActionEvent)
# The type of the event that a call sends, by the purpose of the call.
CALL_TYPES: Mapping[str, str] = {
    PRE_RUN_HOOK: "run.starting",
    POST_RUN_HOOK: "run.ended",
    ActionEvent.CONSTRAINT_VIOLATION: "run.constraint_violated",
    ActionEvent.FAILURE: "run.failed",
    ActionEvent.SUCCESS: "run.completed",
    ActionEvent.SLOW: "run.slow",
}


def on_violation(turn: RunTurn, run: Run) -> Action:
    """Return the action on a violated constraint; to skip the run if the workflow declares none."""
    return turn.registry.rules_of(run).on_constraint_violation or SKIP


def start(turn: RunTurn, run: Run, action: Action) -> None:
    """Record that an action starts."""
    run.detail.actions_executed += 1
    turn.emit(run, EventType.ACTION_STARTED, {"action": action.kind.value})


def complete(turn: RunTurn, run: Run, action: Action) -> None:
    """Record that an action on a violated constraint is done."""
    data = {"action": action.kind.value, "on": ActionEvent.CONSTRAINT_VIOLATION}
    turn.emit(run, EventType.ACTION_COMPLETED, data)


def perform(turn: RunTurn, run: Run, action: Action, event: ActionEvent) -> str | None:
    """Make a call or start a job; its result arrives as a signal. Return why it is refused at once, if it is."""
    if action.kind is ActionKind.WEBHOOK and action.hook is not None:
        call(turn, run, event, action.hook)
    elif action.kind is ActionKind.TRIGGER_JOB and action.workflow_id is not None:
        if run.detail.depth >= JOB_DEPTH_MAX:
            return (
                f"too many jobs started one by another: {run.detail.depth + 1}, at most {JOB_DEPTH_MAX}; "
                "break the cycle of trigger_job actions"
            )
        job_id = _new_job_id(turn, run, event)
        # Until JobTriggered answers, in the same batch.
        run.detail.calls[job_id] = event
        command = TriggerJob(
            run_id=run.id,
            job_id=job_id,
            purpose=event,
            workflow_id=action.workflow_id,
            version=action.version,
            input=action.input_data,
            parent_job_id=run.job_id,
            depth=run.detail.depth + 1,
            run=_run_data(run),
        )
        turn.commands.append(command)
        turn.save(run)
    else:
        return f"action {action.kind.value} cannot be performed on this event: {event}"
    return None


def _run_data(run: Run) -> dict[str, Any]:
    """Return what calls and templates are told about a run."""
    violations = [
        {"constraint": one.constraint, "message": one.message, "at": instant_text(one.at)}
        for one in run.detail.violations
    ]
    return {
        "run_id": run.id,
        "workflow_id": run.workflow_id,
        "version": run.version,
        "scheduled_at": instant_text(run.scheduled_at),
        "state": run.state.value,
        "attempt": run.attempt,
        "job_id": run.job_id,
        "outcome": run.detail.outcome,
        "reason": reason_of(run),
        "violations": violations,
    }


def reason_of(run: Run) -> str | None:
    """Return why a run failed, or why it cannot start while its action on that is carried out."""
    detail = run.detail
    if detail.reason is None and run.state is RunState.ACTION_RUNNING and detail.violations:
        return detail.refusal or detail.violations[-1].message
    return detail.reason


def call(turn: RunTurn, run: Run, purpose: str, hook: Hook) -> None:
    """Call an address by a job of its own on the run's shard."""
    job_id = _new_job_id(turn, run, purpose)
    run.detail.calls[job_id] = purpose
    turn.registry.by_job[job_id] = run
    command = MakeCall(
        run_id=run.id,
        workflow_id=run.workflow_id,
        job_id=job_id,
        hook=hook,
        parent_job_id=run.job_id,
        type=CALL_TYPES[purpose],
        data={**_run_data(run), "for": purpose},
    )
    turn.commands.append(command)
    data = {"for": purpose, "started_job_id": job_id, "url": public_url(hook.url)}
    turn.emit(run, EventType.CALL_STARTED, data)


def _new_job_id(turn: RunTurn, run: Run, purpose: str) -> JobId:
    return derived_job_id(turn.now, f"{run.id}/{purpose}/{run.attempt}/{run.detail.seq}")


def has_critical_call(turn: RunTurn, run: Run) -> bool:
    """Return whether a critical action is under way, which may still fail the run."""
    rules = turn.registry.rules_of(run)
    pending = [rules.action(event) for event in _pending_events(run)]
    return any(action is not None and action.critical for action in pending)


def _pending_events(run: Run) -> list[ActionEvent]:
    return [ActionEvent(purpose) for purpose in run.detail.calls.values() if purpose in _EVENTS]


def finish(
    turn: RunTurn, run: Run, event: ActionEvent, error: str | None, job_id: JobId | None = None
) -> str | None:
    """Record how an action ended. Return why the run fails, if a critical action failed."""
    action = _record_end(turn, run, event, error, job_id)
    if error is None or action is None or not action.critical:
        return None
    return f"action {event} failed: {error}"


def abandon(turn: RunTurn, run: Run) -> None:
    """Forget the calls of a run that ends or closes; its actions among them did not succeed."""
    for job_id, purpose in run.detail.calls.items():
        if purpose in _EVENTS:
            _record_end(turn, run, ActionEvent(purpose), "stopped with the run", job_id)
    run.detail.calls.clear()


def _record_end(
    turn: RunTurn, run: Run, event: ActionEvent, error: str | None, job_id: JobId | None
) -> Action | None:
    action = turn.registry.rules_of(run).action(event)
    kind = "unknown" if action is None else action.kind.value
    run.detail.actions.append(ActionRecord(event.value, kind, turn.now, job_id, error))
    del run.detail.actions[:-ACTIONS_MAX]
    data: dict[str, Any] = {"action": kind, "on": event}
    if job_id is not None:
        data["started_job_id"] = job_id
    if error is None:
        turn.emit(run, EventType.ACTION_COMPLETED, data)
    else:
        run.detail.actions_failed += 1
        turn.emit(run, EventType.ACTION_FAILED, {**data, "error": error})
    return action
