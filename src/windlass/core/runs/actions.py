"""What is done when something happens to a run: calls by jobs of their own, jobs of other workflows."""

from typing import Any

from windlass.core.changes import Timer
from windlass.core.runs.commands import MakeCall, TriggerJob
from windlass.core.runs.ids import derived_job_id
from windlass.core.runs.registry import Run, RunTurn
from windlass.core.runs.rules import Action, ActionKind, Hook
from windlass.core.runs.webhooks import instant_text

ON_VIOLATION, ON_FAILURE, ON_SUCCESS, ON_SLOW = "on_constraint_violation", "on_failure", "on_success", "on_slow"
SKIP = Action(kind=ActionKind.SKIP)
_EVENTS = {
    ON_VIOLATION: "run.constraint_violated",
    ON_FAILURE: "run.failed",
    ON_SUCCESS: "run.completed",
    ON_SLOW: "run.slow",
}


def on_violation(turn: RunTurn, run: Run) -> Action:
    """What a workflow wants done with a run whose constraints do not hold."""
    return turn.book.rules_of(run).on_constraint_violation or SKIP


def begin(turn: RunTurn, run: Run, action: Action) -> None:
    """Record that something is about to be done."""
    run.detail.actions_executed += 1
    turn.emit(run, "action_started", {"action": action.kind.value})


def complete(turn: RunTurn, run: Run) -> None:
    """Record that an action of the run's own shard is done."""
    turn.emit(run, "action_completed", {"action": on_violation(turn, run).kind.value})


def perform(turn: RunTurn, run: Run, action: Action, purpose: str) -> None:
    """Have a call made or a job started; what became of it comes as a message."""
    if action.kind is ActionKind.WEBHOOK and action.hook is not None:
        call(turn, run, purpose, action.hook, _EVENTS[purpose])
    elif action.kind is ActionKind.TRIGGER_JOB and action.workflow_id is not None:
        workflow_id = action.workflow_id
        reason = f"{run.id}/{purpose}/{run.attempt}/{run.detail.seq}"
        job_id = derived_job_id(turn.now, reason, workflow_id)
        # Until the shell has said, before anything is stored, what became of it.
        run.detail.calls[job_id] = purpose
        turn.orders.append(TriggerJob(run.id, job_id, purpose, workflow_id, action.version, action.input_data))
        turn.save(run)
    else:
        turn.emit(run, "action_ignored", {"action": action.kind.value, "on": purpose})


def call(turn: RunTurn, run: Run, purpose: str, hook: Hook, event: str) -> None:
    """Have an address called, by a job of its own on the run's shard."""
    job_id = derived_job_id(turn.now, f"{run.id}/{purpose}/{run.attempt}/{run.detail.seq}", run.workflow_id)
    run.detail.calls[job_id] = purpose
    turn.book.by_job[job_id] = run
    turn.orders.append(MakeCall(run.id, job_id, hook, event, told(run, purpose)))
    turn.emit(run, "call_started", {"for": purpose, "job_id": job_id, "url": hook.url})


def told(run: Run, purpose: str) -> dict[str, Any]:
    """What others are told of a run."""
    detail = run.detail
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
        "violations": [
            {"constraint": one.constraint, "message": one.message, "at": instant_text(one.at)}
            for one in detail.violations
        ],
    }


def finish(turn: RunTurn, run: Run, purpose: str, error: str | None) -> None:
    """Record how an action ended. A critical one that failed fails the run."""
    rules = turn.book.rules_of(run)
    wanted = {
        ON_VIOLATION: rules.on_constraint_violation,
        ON_FAILURE: rules.on_failure,
        ON_SUCCESS: rules.on_success,
        ON_SLOW: rules.on_slow,
    }
    action = wanted[purpose]
    kind = "unknown" if action is None else action.kind.value
    if error is None:
        turn.emit(run, "action_completed", {"action": kind, "on": purpose})
        return
    run.detail.actions_failed += 1
    turn.emit(run, "action_failed", {"action": kind, "on": purpose, "error": error})
    if action is not None and action.critical:
        run.detail.is_doomed = True
        run.detail.reason = f"the action {purpose} failed: {error}"
        turn.save(run)


def timer(run: Run, due_at: int, kind: str) -> Timer:
    """A wait of a run besides the one in its row."""
    return Timer(due_at, run.id, kind)
