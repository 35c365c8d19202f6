"""Schedules: which slots are run, which are missed, and the run that is planned next."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum, unique
from math import ceil

from msgspec import Struct, structs

from windlass.core.events import EventType
from windlass.core.ids import slot_run_id
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import OF_SLOTS
from windlass.core.runs import admission, closing
from windlass.core.runs.cron import Schedule, fire_time, next_slot, slots_between
from windlass.core.runs.messages import RunWait
from windlass.core.runs.registry import R, Run, WorkflowRuns
from windlass.core.runs.rows import RunDetail, RunRow, ScheduleRow
from windlass.core.runs.rules import CatchUp, RunRules
from windlass.core.runs.turn import RunTurn

# A slot that is late by at most this was not missed: an engine took over, or was busy.
LATE_SECONDS = 60.0
# Slots that one turn handles; the next planned run is due already, and continues with the others.
TURN_SLOTS_MAX = 100
# Missed slots that are counted one by one; beyond that the count is not exact.
COUNTED_MAX = 1_000
# Missed slots that an event lists.
LISTED_MAX = 100
BACKFILL_MAX = 1_000
# Made-up slots that wait for room at the same time; further missed slots are handled when some of them have started.
QUEUED_MAX = 1_000
QUEUE_CHECK_SECONDS = 5.0
_STEPS_MAX = 40


class Span(Struct, frozen=True):
    """A range of instants: after `since`, up to `until`."""

    since: int
    until: int


@unique
class LeftOut(StrEnum):
    """Why a backfill starts no run of a slot."""

    # The slot has a run that ended with a job, and was not cancelled.
    HAS_RUN = "has_run"
    IN_PROGRESS = "in_progress"
    # The schedule itself runs it.
    SCHEDULED = "scheduled"


class Backfill(Struct, frozen=True):
    """The slots of a range that get a run, and how many do not, by reason."""

    slots: Sequence[int]
    left_out: Mapping[str, int]


def newest_runs(rows: Iterable[RunRow]) -> dict[int, RunRow]:
    """Return the newest run of each slot; runs of submitted and retried jobs belong to no slot."""
    found: dict[int, RunRow] = {}
    for row in rows:
        known = found.get(row.scheduled_at)
        if row.detail.origin in OF_SLOTS and (
            known is None or known.detail.repetition < row.detail.repetition
        ):
            found[row.scheduled_at] = row
    return found


def left_out(row: RunRow | None, slot_at: int, schedule: ScheduleRow) -> LeftOut | None:
    """Return why a slot, with its newest run, is not backfilled; None if it is."""
    if row is None:
        is_left_to_schedule = slot_at > schedule.slot_at and not schedule.is_paused
        return LeftOut.SCHEDULED if is_left_to_schedule else None
    if row.state is R.PRE_RUN:
        return LeftOut.SCHEDULED
    if row.completed_at is None:
        return LeftOut.IN_PROGRESS
    if not row.had_job or row.state is R.CANCELLED:
        return None
    return LeftOut.HAS_RUN


def backfilled(
    slots: Sequence[int], runs: Mapping[int, RunRow], schedule: ScheduleRow, request_id: str | None
) -> Backfill:
    """Return what a request started, by the rows that it left; without a request, what one would start."""
    started: list[int] = []
    reasons: Counter[str] = Counter()
    for slot_at in slots:
        row = runs.get(slot_at)
        if row is not None and row.detail.request_id == request_id is not None:
            started.append(slot_at)
            continue
        reason = left_out(row, slot_at, schedule)
        if reason is not None:
            reasons[reason.value] += 1
        elif request_id is None:
            started.append(slot_at)
        else:
            # It ended while the request was decided.
            reasons[LeftOut.IN_PROGRESS.value] += 1
    return Backfill(started, dict(reasons))


def slots_in(schedule: Schedule, span: Span, limit: int = BACKFILL_MAX) -> list[int]:
    """Return the slots of a schedule in a span as instants, at most `limit`."""
    found = slots_between(schedule, span.since / MICROSECONDS, span.until / MICROSECONDS, limit)
    return [_instant(slot) for slot in found]


# Planning


def plan_run(
    turn: RunTurn,
    workflow: WorkflowRuns,
    schedule: Schedule,
    slot_at: int,
    *,
    origin: str,
    repetition: int = 1,
) -> Run:
    """Add a run for a slot, before it is due."""
    assert workflow.schedule is not None
    row = RunRow(
        run_id=slot_run_id(workflow.workflow_id, slot_at, repetition),
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
        detail=RunDetail(origin=origin, input=dict(schedule.input_data), repetition=repetition),
    )
    run = Run(row, is_stored=False)
    run.detail.max_retries = turn.registry.rules_of(run).retry.max_retries
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
        run.detail.max_retries = turn.registry.rules_of(run).retry.max_retries
        turn.set_timer(run, due_at, RunWait.START)
        turn.save(run)


def cancel_planned(turn: RunTurn, run: Run, reason: str) -> None:
    """Cancel the planned run: its slot is handled, and the next one is planned."""
    workflow = turn.registry.workflow(run.workflow_id)
    schedule = turn.registry.rules_of(run).schedule
    closing.stop(turn, run, R.CANCELLED, reason)
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
        if len(workflow.waiting()) >= QUEUED_MAX:
            turn.set_timer_after(run, QUEUE_CHECK_SECONDS, RunWait.START)
            return
        _handle_slot(turn, run, schedule, rules)
        _plan_next(turn, workflow, schedule, workflow.schedule.slot_at)
        following = workflow.planned
        if following is None or (following.detail.due_at or 0) > turn.wall:
            return
        run = following


def _handle_slot(turn: RunTurn, run: Run, schedule: Schedule, rules: RunRules) -> None:
    workflow = turn.registry.workflow(run.workflow_id)
    now = turn.wall / MICROSECONDS
    slot = run.scheduled_at / MICROSECONDS
    policy = rules.constraints.catch_up
    window = rules.constraints.catch_up_window_seconds
    late = now - fire_time(schedule, slot, run.workflow_id)
    is_newest = _is_newest(schedule, run, now)
    _advance(turn, workflow, run.scheduled_at)
    if late <= LATE_SECONDS or _is_caught_up(policy, window, late, is_newest=is_newest):
        # A slot that is handled together with later ones is made up for: it queues for room.
        run.detail.is_catch_up = late > LATE_SECONDS or not is_newest
        admission.begin(turn, run)
        return
    reason = f"the slot was missed by {late:.0f} s and is not caught up (catch_up: {policy.value})"
    closing.stop(turn, run, R.CANCELLED, reason)
    _pass_over(turn, run, schedule, rules)


def _is_newest(schedule: Schedule, run: Run, now: float) -> bool:
    """Return whether no later slot is due."""
    following = next_slot(schedule, run.scheduled_at / MICROSECONDS)
    return following is None or fire_time(schedule, following, run.workflow_id) > now


def _is_caught_up(policy: CatchUp, window: float, late: float, *, is_newest: bool) -> bool:
    """Return whether a slot that was missed starts, by the policy for missed slots."""
    if policy is CatchUp.NONE or (policy is CatchUp.LATEST and not is_newest):
        return False
    return late <= window


def _pass_over(turn: RunTurn, run: Run, schedule: Schedule, rules: RunRules) -> None:
    """Pass over the slots after a missed one that are missed as well, and record all of them."""
    workflow = turn.registry.workflow(run.workflow_id)
    now = turn.wall / MICROSECONDS
    policy = rules.constraints.catch_up
    late_max = LATE_SECONDS
    newest: float | None = None
    if policy is CatchUp.ALL:
        late_max = max(LATE_SECONDS, rules.constraints.catch_up_window_seconds)
    elif policy is CatchUp.LATEST:
        newest = _newest_due(schedule, run, now)
    missed, is_complete = _missed_from(schedule, run, now - late_max, newest)
    last_at = _instant(missed[-1])
    if not is_complete:
        # Slots whose jitter may move them past the horizon are handled one by one.
        before = now - late_max - schedule.jitter_seconds
        if newest is not None:
            before = min(before, newest)
        last_at = max(last_at, _instant(ceil(before) - 1))
    _advance(turn, workflow, last_at)
    data = {
        "first": run.scheduled_at,
        "last": last_at,
        "count": len(missed),
        "is_count_complete": is_complete,
        "catch_up": policy.value,
        "slots": [_instant(slot) for slot in missed[:LISTED_MAX]],
    }
    turn.emit_schedule(workflow, EventType.SLOTS_MISSED, data)


def _missed_from(
    schedule: Schedule, run: Run, horizon: float, newest: float | None
) -> tuple[list[float], bool]:
    """Return the slot of a missed run and those after it that were due before an instant, and whether these are all.

    The newest slot that is due is not among them, if it is given.
    """
    slot = run.scheduled_at / MICROSECONDS
    missed = [slot]
    following = slots_between(schedule, slot, horizon, COUNTED_MAX - 1)
    for one in following:
        if one == newest or fire_time(schedule, one, run.workflow_id) >= horizon:
            return missed, True
        missed.append(one)
    return missed, len(missed) < COUNTED_MAX


def _newest_due(schedule: Schedule, run: Run, now: float) -> float:
    """Return the newest slot that is due, searched in growing spans before now."""
    slot = run.scheduled_at / MICROSECONDS
    span = LATE_SECONDS
    for _ in range(_STEPS_MAX):
        start = max(slot, now - span)
        found = slots_between(schedule, start, now, COUNTED_MAX)
        if len(found) == COUNTED_MAX:
            return found[-1]
        due = [one for one in found if fire_time(schedule, one, run.workflow_id) <= now]
        if due:
            return due[-1]
        if start == slot:
            break
        span *= 2
    return slot


# Backfill


def backfill(
    turn: RunTurn,
    workflow: WorkflowRuns,
    rules: RunRules,
    span: Span,
    *,
    request_id: str,
    newest: Mapping[int, RunRow],
) -> None:
    """Run the slots of a span that have no run, or whose run was cancelled or ended without a job, oldest first."""
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
        known = newest.get(slot_at)
        repetition = 1 if known is None else known.detail.repetition + 1
        run_id = slot_run_id(workflow.workflow_id, slot_at, repetition)
        if known is not None and left_out(known, slot_at, row) is not None:
            continue
        # The memory is ahead of the rows.
        if turn.registry.is_known(run_id) or workflow.of_slot(slot_at) is not None:
            continue
        created.append(
            plan_run(turn, workflow, schedule, slot_at, origin="backfill", repetition=repetition)
        )
    for run in created:
        run.detail.is_catch_up = True
        run.detail.request_id = request_id
        admission.begin(turn, run)
    if created and workflow.planned is None:
        _advance(turn, workflow, created[-1].scheduled_at)


def _fire_due(turn: RunTurn, workflow: WorkflowRuns) -> None:
    """Let the schedule handle the slots that are due, so that no other rule runs them."""
    for _ in range(BACKFILL_MAX):
        planned = workflow.planned
        if planned is None or planned.detail.due_at is None or planned.detail.due_at > turn.wall:
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
