"""Runs in memory: those of a shard that have not ended, by workflow, and what its schedules are up to."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, structs

from windlass.core.changes import Changes, Timer
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunChanges, ScheduleMark
from windlass.core.runs.commands import Order
from windlass.core.runs.rows import RunDetail, RunMetrics, RunRow, ScheduleRow, Transition, Violation
from windlass.core.runs.rules import RunRules
from windlass.core.runs.states import RUN_FINAL, RunState, transition

# What a row keeps of these; the events tell of all.
TRANSITIONS_KEPT = 200
VIOLATIONS_KEPT = 100
ENDED_KEPT = 10_000

R = RunState
# A run in one of these counts against the limit of concurrent ones; so does one between its attempts.
BUSY = frozenset({R.CONTAINER_CREATING, R.RUNNING, R.TERMINATING, R.RETRYING})
NO_RULES = RunRules()

_PHASES: Mapping[str, str] = {
    R.PRE_RUN: "pre_run_seconds",
    R.PENDING: "constraint_check_seconds",
    R.CONDITION_PENDING: "constraint_check_seconds",
    R.CONDITION_RUNNING: "constraint_check_seconds",
    R.ACTION_PENDING: "action_seconds",
    R.ACTION_RUNNING: "action_seconds",
    R.CONTAINER_CREATING: "container_creation_seconds",
    R.RUNNING: "execution_seconds",
    R.TERMINATING: "termination_seconds",
    R.RETRYING: "retry_wait_seconds",
}


class Run:
    """One run. Only a turn writes its state, by the table."""

    __slots__ = (
        "attempt", "completed_at", "created_at", "detail", "id", "is_stored", "job_id", "previous_state",
        "scheduled_at", "shard", "state", "state_at", "succeeded", "version", "workflow_id",
    )  # fmt: skip

    def __init__(self, row: RunRow, *, is_stored: bool) -> None:
        self.id = row.run_id
        self.workflow_id = row.workflow_id
        self.version = row.version
        self.shard = row.shard
        self.state = row.state
        self.previous_state = row.previous_state
        self.scheduled_at = row.scheduled_at
        self.created_at = row.created_at
        self.state_at = row.state_at
        self.completed_at = row.completed_at
        self.job_id = row.job_id
        self.attempt = row.attempt
        self.detail = _copied(row.detail)
        self.succeeded = row.succeeded
        # Whether it has a row, which is then written over, or is to get one.
        self.is_stored = is_stored

    def row(self) -> RunRow:
        """The row as it is now; later changes of the run do not reach it."""
        return RunRow(
            self.id, self.workflow_id, self.version, self.shard, self.state, self.previous_state, self.scheduled_at,
            self.created_at, self.state_at, self.completed_at, self.job_id, self.attempt, _copied(self.detail),
            self.succeeded,
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.state in RUN_FINAL

    @property
    def is_busy(self) -> bool:
        """Whether it counts against the limit of concurrent runs."""
        return self.state in BUSY or (self.attempt > 0 and not self.ended)

    @property
    def is_planned(self) -> bool:
        """Whether it is the next run of its schedule, which nobody was told of yet."""
        return self.state is R.PRE_RUN and self.detail.origin == "schedule"

    @property
    def is_waiting(self) -> bool:
        """Whether it stands in line for others to end."""
        return self.state is R.ACTION_RUNNING and self.detail.due_kind == "run_wait"

    @property
    def place(self) -> tuple[int, int, str]:
        """Its place in that line."""
        return (self.state_at, self.scheduled_at, self.id)


def _copied(detail: RunDetail) -> RunDetail:
    return structs.replace(
        detail,
        transitions=list(detail.transitions),
        violations=list(detail.violations),
        calls=dict(detail.calls),
        durations=dict(detail.durations),
        earlier_jobs=list(detail.earlier_jobs),
    )


class WorkflowRuns:
    """The runs of one workflow that have not ended, how the last one ended, and the workflow's schedule."""

    __slots__ = ("last_succeeded", "runs", "schedule", "workflow_id")

    def __init__(self, workflow_id: str, last_succeeded: bool | None = None) -> None:
        self.workflow_id = workflow_id
        self.runs: dict[str, Run] = {}
        # None: there was none.
        self.last_succeeded = last_succeeded
        self.schedule: ScheduleRow | None = None

    @property
    def planned(self) -> Run | None:
        """The next run of the schedule."""
        return next((run for run in self.runs.values() if run.is_planned), None)

    def waiting(self) -> list[Run]:
        """Those that stand in line, the first one first."""
        return sorted((run for run in self.runs.values() if run.is_waiting), key=lambda run: run.place)


class RunRegistry:
    """All runs of a shard, as the rules need them."""

    __slots__ = ("_ended", "by_job", "creating", "rules", "shard", "shelves")

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.shelves: dict[str, WorkflowRuns] = {}
        # By the id of the run's job, and of those that make its calls.
        self.by_job: dict[str, Run] = {}
        # Jobs of which no task has started yet, and the number of their last event when they were let go.
        self.creating: dict[str, int] = {}
        # What the versions say that are in use; the shell puts in what a message needs.
        self.rules: dict[tuple[str, int], RunRules] = {}
        # Runs that ended lately: the rows may not tell of them yet.
        self._ended: dict[str, None] = {}

    def shelf(self, workflow_id: str) -> WorkflowRuns:
        """The runs of a workflow."""
        shelf = self.shelves.get(workflow_id)
        if shelf is None:
            shelf = self.shelves[workflow_id] = WorkflowRuns(workflow_id)
        return shelf

    def find(self, run_id: str) -> Run | None:
        """A run that has not ended."""
        shelf = self.shelves.get(run_id.partition(":")[0])
        return None if shelf is None else shelf.runs.get(run_id)

    def is_known(self, run_id: str) -> bool:
        """Whether there is such a run, or was a moment ago."""
        return run_id in self._ended or self.find(run_id) is not None

    def close(self, run: Run) -> None:
        """Let go of a run that has ended."""
        self.shelf(run.workflow_id).runs.pop(run.id, None)
        for job_id in (*run.detail.calls, *((run.job_id,) if run.job_id is not None else ())):
            self.by_job.pop(job_id, None)
            self.creating.pop(job_id, None)
        self._ended[run.id] = None
        while len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def rules_of(self, run: Run) -> RunRules:
        """What the run's version says; nothing, where that version says nothing of runs."""
        return self.rules.get((run.workflow_id, run.version), NO_RULES)

    def add(self, run: Run) -> None:
        """Take a run in that has not ended."""
        self.shelf(run.workflow_id).runs[run.id] = run
        if run.job_id is not None:
            self.by_job[run.job_id] = run
        for job_id in run.detail.calls:
            self.by_job[job_id] = run

    def restore(self, rows: Iterable[RunRow]) -> None:
        """Take in what the rows tell."""
        for row in rows:
            self.add(Run(row, is_stored=True))

    def timers(self) -> list[Timer]:
        """The waits that the rows tell of."""
        return [timer for shelf in self.shelves.values() for run in shelf.runs.values() for timer in self._waits(run)]

    def _waits(self, run: Run) -> list[Timer]:
        detail = run.detail
        found: list[Timer] = []
        if detail.due_at is not None and detail.due_kind is not None:
            found.append(Timer(detail.due_at, run.id, detail.due_kind))
        if detail.started_at is not None:
            found += [Timer(at, run.id, kind) for kind, at in bounds(self.rules_of(run), detail.started_at)]
        return found


def bounds(rules: RunRules, started_at: int) -> list[tuple[str, int]]:
    """When a run that started then becomes slow, and when it is stopped."""
    limits = (
        ("run_slow", rules.constraints.max_expected_run_seconds),
        ("run_limit", rules.constraints.max_allowed_run_seconds),
    )
    return [(kind, started_at + round(limit * MICROSECONDS)) for kind, limit in limits if limit is not None]


class RunTurn:
    """One message's worth of moves, written into the batch's changes; what jobs are to do is collected as orders."""

    __slots__ = ("_changed", "book", "changes", "now", "orders", "stored")

    def __init__(self, book: RunRegistry, changes: Changes, now: int) -> None:
        self.book = book
        self.changes = changes
        self.now = now
        self.orders: list[Order] = []
        self.stored: RunChanges = changes.of_runs()
        self._changed: dict[str, Run] = {}

    def move(self, run: Run, target: RunState, reason: str | None = None) -> None:
        """Change a run's state, as far as the table allows, and have that told and stored."""
        before = run.state
        run.state = transition(before, target)
        run.previous_state = before
        detail = run.detail
        spent = max(0, self.now - run.state_at) / MICROSECONDS
        detail.durations[before] = detail.durations.get(before, 0.0) + spent
        run.state_at = self.now
        detail.transition_count += 1
        detail.transitions.append(Transition(target, self.now))
        del detail.transitions[:-TRANSITIONS_KEPT]
        data: dict[str, Any] = {"state": target, "previous_state": before, "attempt": run.attempt}
        if reason is not None:
            data["reason"] = reason
        self.emit(run, "run_state_changed", data)

    def emit(self, run: Run, kind: str, data: dict[str, Any]) -> None:
        """Record an event of a run, under its id; and have its row written."""
        if not run.detail.seq:
            run.detail.seq = 1
            told = {"workflow_id": run.workflow_id, "version": run.version, "origin": run.detail.origin,
                    "scheduled_at": run.scheduled_at, "is_catch_up": run.detail.is_catch_up}  # fmt: skip
            self._record(run.id, Event(1, "run_created", None, None, run.created_at, encoded(told)))
        run.detail.seq += 1
        self._record(run.id, Event(run.detail.seq, kind, None, None, self.now, encoded(data)))
        self.save(run)

    def emit_schedule(self, shelf: WorkflowRuns, kind: str, data: dict[str, Any]) -> None:
        """Record an event of a schedule."""
        schedule = shelf.schedule
        assert schedule is not None
        shelf.schedule = structs.replace(schedule, seq=schedule.seq + 1)
        self._record(f"{shelf.workflow_id}:", Event(schedule.seq + 1, kind, None, None, self.now, encoded(data)))
        self.mark(shelf)

    def _record(self, key: str, event: Event) -> None:
        self.changes.events.setdefault(key, []).append(event)

    def mark(self, shelf: WorkflowRuns) -> None:
        """Have it stored how far a schedule is."""
        schedule = shelf.schedule
        assert schedule is not None
        self.stored.schedules[shelf.workflow_id] = ScheduleMark(shelf.workflow_id, schedule.slot_at, schedule.seq)

    def save(self, run: Run) -> None:
        """Have the run's row written as it is at the end of the turn."""
        self._changed[run.id] = run

    def withdraw(self, run: Run) -> None:
        """Take back a run that was only planned: no trace of it stays."""
        del self.book.shelf(run.workflow_id).runs[run.id]
        self._changed.pop(run.id, None)
        self.stored.runs.pop(run.id, None)
        if run.id in self.stored.fresh:
            self.stored.fresh.discard(run.id)
        elif run.is_stored:
            self.stored.withdrawn.append(run.id)

    def close(self) -> None:
        """Put the rows of what was changed into the batch."""
        for run in self._changed.values():
            if not run.is_stored:
                run.is_stored = True
                # One that was taken back in the same batch still has its row.
                if run.id in self.stored.withdrawn:
                    self.stored.withdrawn.remove(run.id)
                else:
                    self.stored.fresh.add(run.id)
            self.stored.runs[run.id] = run.row()

    def set_timer(self, run: Run, due_at: int, kind: str) -> None:
        """Have the run woken later, by what its row says."""
        run.detail.due_at, run.detail.due_kind = due_at, kind
        self.changes.timers.append(Timer(due_at, run.id, kind))

    def rest(self, run: Run) -> None:
        """Nothing is waited for any more."""
        run.detail.due_at = run.detail.due_kind = None

    def violated(self, run: Run, constraint: str, message: str) -> None:
        """Record that a constraint did not hold."""
        run.detail.violations.append(Violation(constraint, message, self.now))
        del run.detail.violations[:-VIOLATIONS_KEPT]
        self.emit(run, "constraint_violated", {"constraint": constraint, "message": message})


def encoded(value: dict[str, Any]) -> Raw:
    """JSON of an event's data."""
    return Raw(msgspec.json.encode(value))


def metrics_of(run: Run, rules: RunRules) -> RunMetrics:
    """What a run's life was like, so far."""
    detail = run.detail
    phases: dict[str, float] = {}
    for state, seconds in detail.durations.items():
        phases[_PHASES[state]] = round(phases.get(_PHASES[state], 0.0) + seconds, 6)
    before = detail.metrics or RunMetrics()
    return RunMetrics(
        **phases,
        total_seconds=max(0, run.state_at - run.created_at) / MICROSECONDS,
        state_transitions=detail.transition_count,
        entered={one.state: one.at for one in detail.transitions},
        constraints_checked=detail.constraints_checked,
        constraints_violated=len(detail.violations),
        actions_executed=detail.actions_executed,
        actions_failed=detail.actions_failed,
        retry_attempt=run.attempt,
        max_retries=0 if rules.retry is None else rules.retry.max_retries,
        api_calls=before.api_calls,
        pod_start_seconds=before.pod_start_seconds,
        exit_code=before.exit_code,
        heartbeats=detail.heartbeats,
        final_state=run.state.value if run.ended else None,
        success=run.state is R.COMPLETED and not detail.is_skipped,
        error=detail.reason,
    )
