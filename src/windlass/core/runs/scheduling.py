"""Schedules: which slots are run, which are missed, and the run that is planned next."""

from collections.abc import Set as AbstractSet
from math import floor

from msgspec import Struct, structs

from windlass.core.events import EventType
from windlass.core.ids import RunId, slot_run_id
from windlass.core.instants import MICROSECONDS
from windlass.core.runs import lifecycle
from windlass.core.runs.cron import Schedule, fire_time, next_slot, slots_between
from windlass.core.runs.messages import RunWait
from windlass.core.runs.registry import R, Run, WorkflowRuns
from windlass.core.runs.rows import RunDetail, RunRow, ScheduleRow
from windlass.core.runs.rules import CatchUp, RunRules
from windlass.core.runs.turn import RunTurn

# A slot that is late by less than this was not missed: an engine took over, or was busy.
LATE_SECONDS = 60.0
# Slots that one turn handles; the next planned run is due already, and continues with the others.
TURN_SLOTS_MAX = 100
# Missed slots that are counted one by one; beyond that the count is not exact.
COUNTED_MAX = 1_000
BACKFILL_MAX = 1_000
_STEPS_MAX = 40


class Span(Struct, frozen=True):
    """A range of instants: after `since`, up to `until`."""

    since: int
    until: int


def slots_in(schedule: Schedule, span: Span, limit: int = BACKFILL_MAX) -> list[int]:
    """Return the slots of a schedule in a span as instants, at most `limit`."""
    found = slots_between(schedule, span.since / MICROSECONDS, span.until / MICROSECONDS, limit)
    return [_instant(slot) for slot in found]


# Planning


def plan_run(
    turn: RunTurn, workflow: WorkflowRuns, schedule: Schedule, slot_at: int, *, origin: str
) -> Run:
    """Add a run for a slot, before it is due."""
    assert workflow.schedule is not None
    row = RunRow(
        run_id=slot_run_id(workflow.workflow_id, slot_at),
        workflow_id=workflow.workflow_id,
        version=workflow.schedule.version,
        shard=turn.registry.shard,
        state=R.PRE_RUN,
        previous_state=None,
        scheduled_at=slot_at,
        created_at=turn.now,
        state_at=turn.now,
        completed_at=None,
        job_id=None,
        attempt=0,
        detail=RunDetail(origin=origin, input=dict(schedule.input_data)),
    )
    run = Run(row, is_stored=False)
    turn.registry.add(run)
    return run


def _plan_next(turn: RunTurn, workflow: WorkflowRuns, schedule: Schedule, after: int) -> None:
    slot = next_slot(schedule, after / MICROSECONDS)
    if slot is not None:
        run = plan_run(turn, workflow, schedule, _instant(slot), origin="schedule")
        turn.set_timer(run, _due_at(schedule, run), RunWait.START)
        turn.save(run)


def change(turn: RunTurn, workflow: WorkflowRuns, row: ScheduleRow, rules: RunRules) -> None:
    """Apply a schedule that was deployed, deleted, paused or resumed, or that this owner sees for the first time."""
    before = workflow.schedule
    if before is not None:
        # The memory is ahead of the rows: slots that were handled stay handled.
        row = structs.replace(
            row, slot_at=max(row.slot_at, before.slot_at), seq=max(row.seq, before.seq)
        )
    workflow.schedule = row
    planned = workflow.planned
    schedule = _active_schedule(row, rules)
    if schedule is None:
        if planned is not None:
            turn.withdraw(planned)
            data = {"is_paused": row.is_paused, "planned": planned.scheduled_at}
            turn.emit_schedule(workflow, EventType.SCHEDULE_STOPPED, data)
        return
    if planned is None:
        # Nothing was planned, so nothing was due either: a schedule that is switched on starts now.
        after = row.slot_at
        if before is None or before.version != row.version:
            after = _later_start(row)
        _plan_next(turn, workflow, schedule, after)
    elif planned.scheduled_at in (
        _slot_after(schedule, row.slot_at),
        _slot_after(schedule, _later_start(row)),
    ):
        _update_planned(turn, planned, schedule, row.version)
    else:
        turn.withdraw(planned)
        data = {"version": row.version, "planned": planned.scheduled_at}
        turn.emit_schedule(workflow, EventType.SCHEDULE_CHANGED, data)
        _plan_next(turn, workflow, schedule, _later_start(row))


def _active_schedule(row: ScheduleRow, rules: RunRules) -> Schedule | None:
    schedule = rules.schedule
    if schedule is None or not schedule.enabled or row.is_paused or row.is_gone:
        return None
    return schedule


def _later_start(row: ScheduleRow) -> int:
    return max(row.slot_at, row.changed_at)


def _update_planned(turn: RunTurn, run: Run, schedule: Schedule, version: int) -> None:
    """Let a run that is not due yet follow the newest version."""
    due_at = _due_at(schedule, run)
    data = dict(schedule.input_data)
    if (run.version, run.detail.due_at, run.detail.input) != (version, due_at, data):
        run.version = version
        run.detail.input = data
        turn.set_timer(run, due_at, RunWait.START)
        turn.save(run)


def cancel_planned(turn: RunTurn, run: Run, reason: str) -> None:
    """Cancel the planned run: its slot is handled, and the next one is planned."""
    workflow = turn.registry.workflow(run.workflow_id)
    schedule = turn.registry.rules_of(run).schedule
    lifecycle.stop(turn, run, R.CANCELLED, reason)
    if workflow.schedule is not None and schedule is not None:
        _advance(turn, workflow, run.scheduled_at)
        _plan_next(turn, workflow, schedule, run.scheduled_at)


# Due slots


def fire(turn: RunTurn, run: Run) -> None:
    """Start the planned run or record why not, and plan the next one."""
    workflow = turn.registry.workflow(run.workflow_id)
    rules = turn.registry.rules_of(run)
    schedule = rules.schedule
    if workflow.schedule is None or schedule is None:
        return
    for _ in range(TURN_SLOTS_MAX):
        _handle_slot(turn, run, schedule, rules)
        _plan_next(turn, workflow, schedule, workflow.schedule.slot_at)
        following = workflow.planned
        if following is None or (following.detail.due_at or 0) > turn.now:
            return
        run = following


def _handle_slot(turn: RunTurn, run: Run, schedule: Schedule, rules: RunRules) -> None:
    workflow = turn.registry.workflow(run.workflow_id)
    now = turn.now / MICROSECONDS
    slot = run.scheduled_at / MICROSECONDS
    policy = rules.constraints.catch_up
    window = rules.constraints.catch_up_window_seconds
    late = now - fire_time(schedule, slot, run.workflow_id)
    is_newest = _is_newest(schedule, run, now)
    _advance(turn, workflow, run.scheduled_at)
    if _is_started(policy, window, late, is_newest=is_newest):
        run.detail.is_catch_up = late > LATE_SECONDS or not is_newest
        lifecycle.begin(turn, run)
        return
    reason = f"the slot was missed by {late:.0f} s and is not caught up (catch_up: {policy.value})"
    lifecycle.stop(turn, run, R.CANCELLED, reason)
    until = now - window if policy is CatchUp.ALL else _before_newest(schedule, run, now)
    _miss_until(turn, run, rules, until)


def _is_newest(schedule: Schedule, run: Run, now: float) -> bool:
    """Return whether no later slot is due."""
    following = next_slot(schedule, run.scheduled_at / MICROSECONDS)
    return following is None or fire_time(schedule, following, run.workflow_id) > now


def _is_started(policy: CatchUp, window: float, late: float, *, is_newest: bool) -> bool:
    """Return whether a slot that is due starts, by the policy for missed slots."""
    if policy is CatchUp.NONE:
        return is_newest and late <= LATE_SECONDS
    if policy is CatchUp.LATEST and not is_newest:
        return False
    return late <= max(window, LATE_SECONDS)


def _before_newest(schedule: Schedule, run: Run, now: float) -> float:
    """Return the instant before the newest slot that is due, searched in growing spans before now."""
    slot = run.scheduled_at / MICROSECONDS
    span = LATE_SECONDS
    for _ in range(_STEPS_MAX):
        start = max(slot, now - span)
        found = slots_between(schedule, start, now, COUNTED_MAX)
        if len(found) == COUNTED_MAX:
            return found[-1] - 1
        due = [one for one in found if fire_time(schedule, one, run.workflow_id) <= now]
        if due:
            return due[-1] - 1
        if start == slot:
            break
        span *= 2
    return slot


def _miss_until(turn: RunTurn, run: Run, rules: RunRules, until: float) -> None:
    """Pass over the slots after that of a run and up to an instant in seconds, and record it."""
    assert rules.schedule is not None
    workflow = turn.registry.workflow(run.workflow_id)
    missed = slots_between(rules.schedule, run.scheduled_at / MICROSECONDS, until, COUNTED_MAX)
    if not missed:
        return
    last_at = _instant(floor(until))
    _advance(turn, workflow, last_at)
    is_complete = len(missed) < COUNTED_MAX
    if is_complete:
        last_at = _instant(missed[-1])
    data = {
        "first": _instant(missed[0]),
        "last": last_at,
        "count": len(missed),
        "is_count_complete": is_complete,
        "catch_up": rules.constraints.catch_up.value,
    }
    turn.emit_schedule(workflow, EventType.SLOTS_MISSED, data)


# Backfill


def backfill(
    turn: RunTurn,
    workflow: WorkflowRuns,
    rules: RunRules,
    span: Span,
    *,
    existing: AbstractSet[RunId],
) -> None:
    """Run the slots of a span that have no run yet, oldest first."""
    schedule, row = rules.schedule, workflow.schedule
    if schedule is None or row is None:
        return
    _fire_due(turn, workflow)
    planned = workflow.planned
    created: list[Run] = []
    for slot_at in slots_in(schedule, span):
        # The schedule itself runs the planned slot and those after it.
        if planned is not None and slot_at >= planned.scheduled_at:
            break
        run_id = slot_run_id(workflow.workflow_id, slot_at)
        if run_id not in existing and not turn.registry.is_known(run_id):
            created.append(plan_run(turn, workflow, schedule, slot_at, origin="backfill"))
    for run in created:
        run.detail.is_catch_up = True
        lifecycle.begin(turn, run)
    if created and workflow.planned is None:
        _advance(turn, workflow, created[-1].scheduled_at)


def _fire_due(turn: RunTurn, workflow: WorkflowRuns) -> None:
    """Let the schedule handle the slots that are due, so that no other rule runs them."""
    for _ in range(BACKFILL_MAX):
        planned = workflow.planned
        if planned is None or planned.detail.due_at is None or planned.detail.due_at > turn.now:
            return
        fire(turn, planned)


def _advance(turn: RunTurn, workflow: WorkflowRuns, slot_at: int) -> None:
    """Record that the slots up to an instant were handled."""
    row = workflow.schedule
    assert row is not None
    if slot_at > row.slot_at:
        workflow.schedule = structs.replace(row, slot_at=slot_at)
        turn.mark(workflow)


def _slot_after(schedule: Schedule, at: int) -> int | None:
    slot = next_slot(schedule, at / MICROSECONDS)
    return None if slot is None else _instant(slot)


def _due_at(schedule: Schedule, run: Run) -> int:
    return _instant(fire_time(schedule, run.scheduled_at / MICROSECONDS, run.workflow_id))


def _instant(slot: float) -> int:
    return round(slot * MICROSECONDS)
