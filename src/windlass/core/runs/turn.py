"""One turn of the rules about runs: how they move runs, record it, and collect commands for jobs.

Nothing else writes a run's state. Every move is checked against the table.
"""

from typing import Any

import msgspec
from msgspec import Raw, structs

from windlass.core.changes import Changes
from windlass.core.events import Event, EventType
from windlass.core.ids import RunId, WorkflowId
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import NO_RUN, RunChanges, ScheduleMark
from windlass.core.runs.commands import Command
from windlass.core.runs.messages import WALL_WAITS, RunWait
from windlass.core.runs.registry import Run, RunRegistry, WorkflowRuns
from windlass.core.runs.rows import Transition, Violation
from windlass.core.runs.states import RunState, transition

# What a row keeps of these; the events have all.
TRANSITIONS_MAX = 200
VIOLATIONS_MAX = 100


class RunTurn:
    """The consequences of one message, written into the batch's changes."""

    __slots__ = (
        "_changed",
        "changes",
        "commands",
        "freed",
        "now",
        "registry",
        "run_changes",
        "wall",
    )

    def __init__(
        self, registry: RunRegistry, changes: Changes, now: int, wall: int | None = None
    ) -> None:
        self.registry = registry
        self.changes = changes
        self.now = now
        # The wall clock, for slots and starts that a caller named; `now` never steps.
        self.wall = now if wall is None else wall
        # What jobs are to do, in the same commit.
        self.commands: list[Command] = []
        # Workflows in which waiting runs may start, because room became free or a run ended.
        self.freed: dict[WorkflowId, None] = {}
        self.run_changes: RunChanges = changes.of_runs()
        self._changed: dict[RunId, Run] = {}

    def move(
        self, run: Run, target: RunState, reason: str | None = None, *, at: int | None = None
    ) -> None:
        """Change a run's state, as far as the table allows, and record it; `at` an earlier instant, if known."""
        before = run.state
        at = self.now if at is None else max(run.state_at, min(at, self.now))
        run.state = transition(before, target)
        run.previous_state = before
        detail = run.detail
        seconds = max(0, at - run.state_at) / MICROSECONDS
        detail.durations[before] = detail.durations.get(before, 0.0) + seconds
        run.state_at = at
        detail.transition_count += 1
        detail.transitions.append(Transition(target, at))
        del detail.transitions[:-TRANSITIONS_MAX]
        data: dict[str, Any] = {"state": target, "previous_state": before, "attempt": run.attempt}
        if reason is not None:
            data["reason"] = reason
        self.emit(run, EventType.RUN_STATE_CHANGED, data, at)

    def emit(self, run: Run, event: EventType, data: dict[str, Any], at: int | None = None) -> None:
        """Record an event of a run, and have its row written."""
        if not run.detail.seq:
            self._emit_created(run)
        run.detail.seq += 1
        at = self.now if at is None else at
        self._record(run.workflow_id, run.id, _event(run.detail.seq, event, at, data))
        self.save(run)

    def _emit_created(self, run: Run) -> None:
        data = {
            "workflow_id": run.workflow_id,
            "version": run.version,
            "origin": run.detail.origin,
            "scheduled_at": run.scheduled_at,
            "is_catch_up": run.detail.is_catch_up,
        }
        run.detail.seq = 1
        self._record(
            run.workflow_id, run.id, _event(1, EventType.RUN_CREATED, run.created_at, data)
        )

    def emit_schedule(self, workflow: WorkflowRuns, event: EventType, data: dict[str, Any]) -> None:
        """Record an event of a schedule."""
        schedule = workflow.schedule
        assert schedule is not None
        seq = schedule.seq + 1
        workflow.schedule = structs.replace(schedule, seq=seq)
        self._record(workflow.workflow_id, NO_RUN, _event(seq, event, self.now, data))
        self.mark(workflow)

    def _record(self, workflow_id: WorkflowId, run_id: RunId, event: Event) -> None:
        self.run_changes.events.setdefault((workflow_id, run_id), []).append(event)

    def violate(self, run: Run, constraint: str, message: str) -> None:
        """Record that a constraint does not hold."""
        run.detail.constraints_violated += 1
        run.detail.violations.append(Violation(constraint, message, self.now))
        del run.detail.violations[:-VIOLATIONS_MAX]
        self.emit(
            run, EventType.CONSTRAINT_VIOLATED, {"constraint": constraint, "message": message}
        )

    def mark(self, workflow: WorkflowRuns) -> None:
        """Have the progress of a schedule stored."""
        schedule = workflow.schedule
        assert schedule is not None
        mark = ScheduleMark(workflow.workflow_id, schedule.slot_at, schedule.seq)
        self.run_changes.schedules[workflow.workflow_id] = mark

    def save(self, run: Run) -> None:
        """Have the run's row written as it is at the end of the turn."""
        self._changed[run.id] = run

    def withdraw(self, run: Run) -> None:
        """Remove a planned run and its row."""
        self.registry.remove(run)
        self._changed.pop(run.id, None)
        self.run_changes.runs.pop(run.id, None)
        if run.id in self.run_changes.inserted:
            self.run_changes.inserted.discard(run.id)
        elif run.is_stored:
            self.run_changes.withdrawn.append(run.id)

    def close(self) -> None:
        """Put the rows of changed runs into the batch."""
        changes = self.run_changes
        for run in self._changed.values():
            if not run.is_stored:
                run.is_stored = True
                # A run that was withdrawn in the same batch still has its row.
                if run.id in changes.withdrawn:
                    changes.withdrawn.remove(run.id)
                else:
                    changes.inserted.add(run.id)
            changes.runs[run.id] = run.row()

    def wake_others(self, workflow_id: WorkflowId) -> None:
        """Let the waiting runs of a workflow check again, at the end of the turn."""
        self.freed[workflow_id] = None

    def set_timer(self, run: Run, due_at: int, kind: RunWait) -> None:
        """Have the run woken later, as its row says."""
        run.detail.due_at = due_at
        run.detail.due_kind = kind
        self.run_changes.timers.append(run.timer(due_at, kind))

    def set_timer_after(self, run: Run, seconds: float, kind: RunWait) -> None:
        """Have the run woken after a delay, and its row written."""
        self.set_timer(run, self.now_of(kind) + round(seconds * MICROSECONDS), kind)
        self.save(run)

    def now_of(self, kind: RunWait) -> int:
        """Return the time by which a timer is due."""
        return self.wall if kind in WALL_WAITS else self.now

    def clear_timer(self, run: Run) -> None:
        """Stop waiting for a timer."""
        run.detail.due_at = run.detail.due_kind = run.detail.recheck_at = None


def _event(seq: int, event: EventType, at: int, data: dict[str, Any]) -> Event:
    encoded = Raw(msgspec.json.encode(data))
    return Event(seq=seq, type=event, node_id=None, index=None, at=at, data=encoded)
