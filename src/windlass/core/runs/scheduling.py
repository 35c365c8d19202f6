"""Schedules: which slots are run, which are missed, and the run that is planned next."""

from math import floor

from msgspec import structs

from windlass.core.instants import MICROSECONDS
from windlass.core.runs import lifecycle
from windlass.core.runs.cron import Schedule, fire_time, next_slot, slots_between
from windlass.core.runs.ids import slot_run_id
from windlass.core.runs.registry import R, Run, RunTurn, WorkflowRuns
from windlass.core.runs.rows import RunDetail, RunRow, ScheduleRow
from windlass.core.runs.rules import CatchUp, RunRules

# A slot that comes up so late was not missed: an engine took over, or was busy.
LATE_SECONDS = 60.0
# Slots that one turn deals with; the next planned run is due already, and goes on with the others.
TURN_SLOTS_MAX = 100
# Missed slots that are counted one by one; of more it is only said that there were as many.
COUNTED_MAX = 1_000
BACKFILL_MAX = 1_000
_STEPS_MAX = 40


def plan_run(turn: RunTurn, shelf: WorkflowRuns, rules: RunRules, slot: float, version: int, origin: str) -> Run:
    """A run for a slot, before its moment."""
    schedule = rules.schedule
    assert schedule is not None
    slot_at = _at(slot)
    run = Run(
        RunRow(
            run_id=slot_run_id(shelf.workflow_id, slot_at), workflow_id=shelf.workflow_id, version=version,
            shard=turn.book.shard, state=R.PRE_RUN, previous_state=None, scheduled_at=slot_at,
            created_at=turn.now, state_at=turn.now, completed_at=None, job_id=None, attempt=0,
            detail=RunDetail(origin=origin, input=dict(schedule.input_data)),
        ),
        is_stored=False,
    )  # fmt: skip
    turn.book.add(run)
    return run


def change(turn: RunTurn, shelf: WorkflowRuns, row: ScheduleRow, rules: RunRules | None) -> None:
    """The schedule was deployed, deleted, paused or resumed, or is seen for the first time by this owner."""
    before = shelf.schedule
    if before is not None:
        # The memory is ahead of the rows: what was dealt with stays so.
        row = structs.replace(row, slot_at=max(row.slot_at, before.slot_at), seq=max(row.seq, before.seq))
    shelf.schedule = row
    schedule = None if rules is None else rules.schedule
    planned = shelf.planned
    is_on = schedule is not None and schedule.enabled and not row.is_paused and not row.is_gone
    if not is_on or schedule is None or rules is None:
        if planned is not None:
            turn.withdraw(planned)
            turn.emit_schedule(shelf, "schedule_stopped", {"is_paused": row.is_paused, "planned": planned.scheduled_at})
        return
    after = row.slot_at
    if planned is not None:
        if planned.scheduled_at in (_after(schedule, after), _after(schedule, max(after, row.changed_at))):
            _take_over(turn, planned, rules, row.version)
            return
        turn.withdraw(planned)
        turn.emit_schedule(shelf, "schedule_changed", {"version": row.version, "planned": planned.scheduled_at})
        after = max(after, row.changed_at)
    elif before is None or before.version != row.version:
        # Nothing was planned, so nothing was due either: a schedule that is switched on begins now.
        after = max(after, row.changed_at)
    _plan_next(turn, shelf, rules, after)


def _take_over(turn: RunTurn, run: Run, rules: RunRules, version: int) -> None:
    """A run whose moment has not come follows the newest version."""
    schedule = rules.schedule
    assert schedule is not None
    due_at = _due_at(schedule, run)
    given = dict(schedule.input_data)
    if (run.version, run.detail.due_at, run.detail.input) != (version, due_at, given):
        run.version, run.detail.input = version, given
        turn.set_timer(run, due_at, "run_start")
        turn.save(run)


def _plan_next(turn: RunTurn, shelf: WorkflowRuns, rules: RunRules, after: int) -> None:
    schedule, row = rules.schedule, shelf.schedule
    assert schedule is not None
    assert row is not None
    slot = next_slot(schedule, after / MICROSECONDS)
    if slot is None:
        return
    run = plan_run(turn, shelf, rules, slot, row.version, "schedule")
    turn.set_timer(run, _due_at(schedule, run), "run_start")
    turn.save(run)


def fire(turn: RunTurn, run: Run) -> None:
    """The moment of the planned run has come: run it or say why not, and plan the next one."""
    shelf = turn.book.shelf(run.workflow_id)
    rules = turn.book.rules_of(run)
    schedule = rules.schedule
    if shelf.schedule is None or schedule is None:
        return
    for _ in range(TURN_SLOTS_MAX):
        _deal_with(turn, shelf, run, rules, schedule)
        _plan_next(turn, shelf, rules, shelf.schedule.slot_at)
        following = shelf.planned
        if following is None or (following.detail.due_at or 0) > turn.now:
            return
        run = following


def _deal_with(turn: RunTurn, shelf: WorkflowRuns, run: Run, rules: RunRules, schedule: Schedule) -> None:
    now = turn.now / MICROSECONDS
    slot = run.scheduled_at / MICROSECONDS
    policy = rules.constraints.catch_up
    window = rules.constraints.catch_up_window_seconds
    late = now - fire_time(schedule, slot, run.workflow_id)
    following = next_slot(schedule, slot)
    is_newest = following is None or fire_time(schedule, following, run.workflow_id) > now
    _pass(turn, shelf, run.scheduled_at)
    if policy is CatchUp.ALL:
        may_run = late <= max(window, LATE_SECONDS)
    else:
        may_run = is_newest and late <= (max(window, LATE_SECONDS) if policy is CatchUp.LATEST else LATE_SECONDS)
    if may_run:
        run.detail.is_catch_up = late > LATE_SECONDS or not is_newest
        lifecycle.begin(turn, run)
        return
    reason = f"the slot was missed by {late:.0f} s and is not made up for (catch_up: {policy.value})"
    lifecycle.stop(turn, run, R.CANCELLED, reason)
    jump = now - window if policy is CatchUp.ALL else _newest(schedule, run, now)
    _miss_until(turn, shelf, schedule, slot, jump, policy)


def _newest(schedule: Schedule, run: Run, now: float) -> float:
    """The moment before the newest slot that is due: looked for in longer and longer stretches before now."""
    slot = run.scheduled_at / MICROSECONDS
    stretch = LATE_SECONDS
    for _ in range(_STEPS_MAX):
        start = max(slot, now - stretch)
        found = slots_between(schedule, start, now, COUNTED_MAX)
        due = [one for one in found if fire_time(schedule, one, run.workflow_id) <= now]
        if len(found) == COUNTED_MAX:
            return found[-1] - 1
        if due:
            return due[-1] - 1
        if start == slot:
            break
        stretch *= 2
    return slot


def _miss_until(
    turn: RunTurn, shelf: WorkflowRuns, schedule: Schedule, slot: float, until: float, policy: CatchUp
) -> None:
    """Pass over the slots after one and up to a moment, and say so."""
    missed = slots_between(schedule, slot, until, COUNTED_MAX)
    if not missed:
        return
    _pass(turn, shelf, _at(floor(until)))
    data = {
        "first": _at(missed[0]),
        "last": _at(missed[-1]) if len(missed) < COUNTED_MAX else _at(floor(until)),
        "count": len(missed),
        "is_count_complete": len(missed) < COUNTED_MAX,
        "catch_up": policy.value,
    }
    turn.emit_schedule(shelf, "slots_missed", data)


def backfill(turn: RunTurn, shelf: WorkflowRuns, rules: RunRules, since: int, until: int, known: set[str]) -> None:
    """Run the slots of a stretch that have no run yet, oldest first."""
    schedule, row = rules.schedule, shelf.schedule
    if schedule is None or row is None:
        return
    _catch_up_first(turn, shelf)
    planned = shelf.planned
    made: list[Run] = []
    for slot in slots_between(schedule, since / MICROSECONDS, until / MICROSECONDS, BACKFILL_MAX):
        run_id = slot_run_id(shelf.workflow_id, _at(slot))
        # What comes after the planned run is the schedule's own to run.
        if planned is not None and _at(slot) >= planned.scheduled_at:
            break
        if run_id not in known and not turn.book.is_known(run_id):
            made.append(plan_run(turn, shelf, rules, slot, row.version, "backfill"))
    for run in made:
        run.detail.is_catch_up = True
        lifecycle.begin(turn, run)
    if made and made[-1].scheduled_at > row.slot_at and shelf.planned is None:
        _pass(turn, shelf, made[-1].scheduled_at)


def _catch_up_first(turn: RunTurn, shelf: WorkflowRuns) -> None:
    """Let the schedule deal with what is due, so that nothing it is still to run is run for another reason."""
    for _ in range(BACKFILL_MAX):
        planned = shelf.planned
        if planned is None or planned.detail.due_at is None or planned.detail.due_at > turn.now:
            return
        fire(turn, planned)


def dismiss(turn: RunTurn, run: Run, reason: str) -> None:
    """Somebody cancels the planned run: its slot is done with, and the next one is planned."""
    shelf = turn.book.shelf(run.workflow_id)
    rules = turn.book.rules_of(run)
    lifecycle.stop(turn, run, R.CANCELLED, reason)
    if shelf.schedule is not None and rules.schedule is not None:
        _pass(turn, shelf, run.scheduled_at)
        _plan_next(turn, shelf, rules, run.scheduled_at)


def _pass(turn: RunTurn, shelf: WorkflowRuns, slot_at: int) -> None:
    row = shelf.schedule
    assert row is not None
    if slot_at > row.slot_at:
        shelf.schedule = structs.replace(row, slot_at=slot_at)
        turn.mark(shelf)


def _after(schedule: Schedule, at: int) -> int | None:
    slot = next_slot(schedule, at / MICROSECONDS)
    return None if slot is None else _at(slot)


def _due_at(schedule: Schedule, run: Run) -> int:
    return round(fire_time(schedule, run.scheduled_at / MICROSECONDS, run.workflow_id) * MICROSECONDS)


def _at(slot: float) -> int:
    return round(slot * MICROSECONDS)
