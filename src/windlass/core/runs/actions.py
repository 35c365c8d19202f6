"""Actions on events of a run: calls, made by jobs of their own, and jobs of other workflows."""

from collections.abc import Mapping
from typing import Any

from windlass.core.events import EventType
from windlass.core.ids import JobId, derived_job_id
from windlass.core.runs.commands import MakeCall, TriggerJob
from windlass.core.runs.registry import Run
from windlass.core.runs.rules import Action, ActionEvent, ActionKind, Hook
from windlass.core.runs.turn import RunTurn
from windlass.core.runs.webhooks import instant_text

SKIP = Action(kind=ActionKind.SKIP)
PRE_RUN_HOOK, POST_RUN_HOOK = "pre_run_hook", "post_run_hook"
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


def complete(turn: RunTurn, run: Run) -> None:
    """Record that the action on a violated constraint is done."""
    turn.emit(run, EventType.ACTION_COMPLETED, {"action": on_violation(turn, run).kind.value})


def perform(turn: RunTurn, run: Run, action: Action, event: ActionEvent) -> None:
    """Make a call or start a job; its result arrives as a signal."""
    if action.kind is ActionKind.WEBHOOK and action.hook is not None:
        call(turn, run, event, action.hook)
    elif action.kind is ActionKind.TRIGGER_JOB and action.workflow_id is not None:
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
        )
        turn.commands.append(command)
        turn.save(run)
    else:
        turn.emit(run, EventType.ACTION_IGNORED, {"action": action.kind.value, "on": event})


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
        type=CALL_TYPES[purpose],
        data=call_data(run, purpose),
    )
    turn.commands.append(command)
    turn.emit(run, EventType.CALL_STARTED, {"for": purpose, "job_id": job_id, "url": hook.url})


def _new_job_id(turn: RunTurn, run: Run, purpose: str) -> JobId:
    return derived_job_id(turn.now, f"{run.id}/{purpose}/{run.attempt}/{run.detail.seq}")


def call_data(run: Run, purpose: str) -> dict[str, Any]:
    """Return what a call sends about its run."""
    detail = run.detail
    violations = [
        {"constraint": one.constraint, "message": one.message, "at": instant_text(one.at)}
        for one in detail.violations
    ]
    return {
        "run_id": run.id,
        "workflow_id": run.workflow_id,
        "version": run.version,
        "scheduled_at": instant_text(run.scheduled_at),
        "state": run.state.value,
        "attempt": run.attempt,
        "job_id": run.job_id,
        "for": purpose,
        "outcome": detail.outcome,
        "reason": detail.reason,
        "violations": violations,
    }


def finish(turn: RunTurn, run: Run, event: ActionEvent, error: str | None) -> None:
    """Record how an action ended. A critical action that failed fails the run."""
    action = turn.registry.rules_of(run).action(event)
    kind = "unknown" if action is None else action.kind.value
    if error is None:
        turn.emit(run, EventType.ACTION_COMPLETED, {"action": kind, "on": event})
        return
    run.detail.actions_failed += 1
    turn.emit(run, EventType.ACTION_FAILED, {"action": kind, "on": event, "error": error})
    if action is not None and action.critical:
        run.detail.has_failed_permanently = True
        run.detail.reason = f"action {event} failed: {error}"
        turn.save(run)
