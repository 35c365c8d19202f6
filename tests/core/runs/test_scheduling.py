"""Schedules: which slots are run, which are missed, and which run is planned next."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from tests.core.runs.run_harness import EVERY_MINUTE, MINUTE, T0, RunHarness, action, rules
from windlass.core.instants import MICROSECONDS
from windlass.core.runs import scheduling
from windlass.core.runs.commands import MakeJob
from windlass.core.runs.cron import Schedule, fire_time
from windlass.core.runs.decide import ScheduleContext
from windlass.core.runs.messages import RunDue, RunRequested, RunWait, ScheduleChanged
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.rules import CatchUp, RunRetry
from windlass.core.runs.scheduling import Span, backfilled, newest_runs, slots_in
from windlass.core.runs.states import RunState


def run_id(minutes: int) -> str:
    moment = datetime.fromtimestamp((T0 + minutes * MINUTE) / MICROSECONDS, UTC)
    return f"flow:{moment:%Y-%m-%dT%H:%M:%SZ}"


def scheduled(**constraints: Any) -> RunHarness:
    harness = RunHarness(rules(schedule=EVERY_MINUTE, **constraints))
    harness.deploy()
    return harness


def slots_run(harness: RunHarness) -> list[int]:
    """Return the slots whose jobs were created, in order, as minutes after the start."""
    made = [command.scheduled_at for command in harness.commands if isinstance(command, MakeJob)]
    return [(at - T0) // MINUTE for at in made]


def hours_from_start(hours: int) -> int:
    """Return the slot of a schedule that is due every hour, the given number of hours after the first one."""
    [first] = slots_in(Schedule(cron="0 * * * *"), Span(T0, T0 + 60 * MINUTE))
    return first + hours * 60 * MINUTE


def test_the_next_run_of_a_schedule_is_planned_without_an_event() -> None:
    harness = scheduled()

    assert harness.states() == ["pre_run"]
    assert list(harness.rows) == [run_id(1)]
    assert harness.events == []


def test_a_slot_fires_once_at_its_time_with_the_input_of_the_schedule() -> None:
    harness = scheduled()
    harness.pass_time(59)
    before = harness.count(MakeJob)

    harness.pass_time(1)

    [command] = harness.commands
    assert before == 0
    assert isinstance(command, MakeJob)
    assert (command.run_id, command.scheduled_at, command.input) == (
        run_id(1),
        T0 + MINUTE,
        {"x": 1},
    )
    assert harness.states() == ["container_creating", "pre_run"]


def test_every_slot_of_an_hour_fires_once_and_in_order() -> None:
    harness = scheduled()

    harness.pass_time(3600)

    assert slots_run(harness) == list(range(1, 61))


def test_jitter_moves_the_start_and_not_the_slot() -> None:
    harness = RunHarness(rules(schedule=Schedule(cron="* * * * *", jitter_seconds=30.0)))
    harness.deploy()
    [timer] = harness.timers

    harness.pass_time(120)

    assert T0 + MINUTE < timer.due_at <= T0 + MINUTE + 30 * MICROSECONDS
    assert slots_run(harness)[0] == 1


def down_for_ten_slots(**constraints: Any) -> RunHarness:
    """Return a schedule that no engine served for ten slots and a half."""
    harness = scheduled(**constraints)
    harness.now += 10 * MINUTE + MINUTE // 2
    harness.pass_time(0)
    return harness


def missed(harness: RunHarness) -> int:
    return harness.events.count(("", "slots_missed"))


def test_all_missed_slots_are_caught_up_in_order() -> None:
    harness = down_for_ten_slots(catch_up=CatchUp.ALL)

    assert slots_run(harness) == list(range(1, 11))
    assert missed(harness) == 0


def test_only_slots_inside_the_window_are_caught_up() -> None:
    harness = down_for_ten_slots(catch_up=CatchUp.ALL, catch_up_window_seconds=240.0)

    assert slots_run(harness) == [7, 8, 9, 10]
    assert harness.state(run_id(1)) == "cancelled"
    assert missed(harness) == 1


def test_only_the_latest_of_the_missed_slots_is_caught_up() -> None:
    harness = down_for_ten_slots(catch_up=CatchUp.LATEST)

    assert slots_run(harness) == [10]
    assert (harness.state(run_id(1)), missed(harness)) == ("cancelled", 1)


def test_the_latest_slot_is_not_caught_up_outside_the_window() -> None:
    harness = RunHarness(
        rules(
            schedule=Schedule(interval_seconds=3600),
            catch_up=CatchUp.LATEST,
            catch_up_window_seconds=600.0,
        )
    )
    harness.deploy()
    harness.now = (
        harness.now // (3600 * MICROSECONDS) + 11
    ) * 3600 * MICROSECONDS - 60 * MICROSECONDS

    harness.pass_time(0)

    assert harness.count(MakeJob) == 0
    assert harness.states()[-1] == "pre_run"


def test_without_catch_up_missed_slots_are_not_run_and_the_next_one_is() -> None:
    harness = RunHarness(rules(schedule=Schedule(interval_seconds=600)))
    harness.deploy()
    harness.now = (
        harness.now // (600 * MICROSECONDS) + 11
    ) * 600 * MICROSECONDS - 120 * MICROSECONDS
    harness.pass_time(0)
    before = harness.count(MakeJob)

    harness.pass_time(120)

    assert (before, harness.count(MakeJob)) == (0, 1)


EVERY_10_SECONDS = Schedule(interval_seconds=10)


def late_by(seconds: float, schedule: Schedule, **constraints: Any) -> RunHarness:
    """Return a schedule that no engine served for some seconds after its deployment."""
    harness = RunHarness(rules(schedule=schedule, **constraints))
    harness.deploy()
    harness.now += round(seconds * MICROSECONDS)
    harness.pass_time(0)
    return harness


def seconds_run(harness: RunHarness) -> list[int]:
    """Return the slots whose jobs were created, in order, as seconds after the start."""
    made = [command.scheduled_at for command in harness.commands if isinstance(command, MakeJob)]
    return [(at - T0) // MICROSECONDS for at in made]


@pytest.mark.parametrize("policy", list(CatchUp))
def test_several_slots_that_are_up_to_a_minute_late_are_not_missed(policy: CatchUp) -> None:
    harness = late_by(36, EVERY_10_SECONDS, catch_up=policy)

    assert seconds_run(harness) == [10, 20, 30]
    assert missed(harness) == 0


@pytest.mark.parametrize("policy", [CatchUp.NONE, CatchUp.LATEST])
def test_slots_that_are_more_than_a_minute_late_are_missed_one_by_one(policy: CatchUp) -> None:
    harness = late_by(95, EVERY_10_SECONDS, catch_up=policy)

    assert seconds_run(harness) == [40, 50, 60, 70, 80, 90]
    [data] = harness.events_of("", "slots_missed")
    assert [(at - T0) // MICROSECONDS for at in data["slots"]] == [10, 20, 30]


def test_slots_that_are_late_together_queue_for_room_in_their_order() -> None:
    harness = late_by(36, EVERY_10_SECONDS, max_concurrent_runs=1)
    for _ in range(3):
        finish_running(harness)

    assert seconds_run(harness) == [10, 20, 30]
    assert not any(row.detail.is_skipped for row in harness.rows.values())


def test_jitter_counts_when_a_slot_is_late() -> None:
    schedule = Schedule(interval_seconds=10, jitter_seconds=40.0)
    harness = late_by(120, schedule)

    due = {
        slot: fire_time(schedule, slot + T0 / MICROSECONDS, "flow") - T0 / MICROSECONDS
        for slot in range(10, 121, 10)
    }
    expected = [slot for slot, at in due.items() if 60 <= at <= 120]
    recorded = [
        (at - T0) // MICROSECONDS
        for data in harness.events_of("", "slots_missed")
        for at in data["slots"]
    ]
    assert set(seconds_run(harness)) <= set(expected)
    handled = sorted([*recorded, *seconds_run(harness)])
    assert handled == list(range(10, handled[-1] + 1, 10))


def test_a_single_missed_slot_is_recorded() -> None:
    harness = late_by(90, Schedule(at=T0 // MICROSECONDS + 10))

    [data] = harness.events_of("", "slots_missed")
    assert (data["count"], data["first"], data["last"]) == (
        1,
        T0 + 10 * MICROSECONDS,
        T0 + 10 * MICROSECONDS,
    )


@pytest.mark.parametrize("policy", [CatchUp.NONE, CatchUp.LATEST])
def test_missed_slots_beyond_the_count_are_passed_over(policy: CatchUp) -> None:
    harness = late_by(3 * 3_600, EVERY_10_SECONDS, catch_up=policy)

    [data] = harness.events_of("", "slots_missed")
    assert (data["count"], data["is_count_complete"]) == (1_000, False)
    assert seconds_run(harness) == [3 * 3_600 - back for back in (60, 50, 40, 30, 20, 10, 0)]


def test_the_planned_run_shows_how_often_it_is_retried() -> None:
    harness = RunHarness(rules(schedule=EVERY_MINUTE, retry=RunRetry(max_retries=3)))
    harness.deploy()
    planned = harness.rows[run_id(1)].detail.max_retries
    harness.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE, retry=RunRetry(max_retries=5))

    harness.deploy(2)

    assert (planned, harness.rows[run_id(1)].detail.max_retries) == (3, 5)


def test_a_slot_that_is_a_little_late_is_not_missed() -> None:
    harness = scheduled()
    harness.now += MINUTE + 30 * MICROSECONDS

    harness.pass_time(0)

    assert slots_run(harness) == [1]
    assert not harness.rows[run_id(1)].detail.is_catch_up


def test_every_slot_is_run_or_its_reason_is_recorded() -> None:
    harness = down_for_ten_slots()

    ran, cancelled = (
        slots_run(harness),
        [row for row in harness.rows.values() if row.state == "cancelled"],
    )
    assert ran == [10]
    assert [row.run_id for row in cancelled] == [run_id(1)]
    assert "missed" in (cancelled[0].detail.reason or "")
    assert missed(harness) == 1


def test_many_missed_slots_are_handled_in_bounded_turns() -> None:
    harness = scheduled(catch_up=CatchUp.ALL)
    harness.now += 1_000 * MINUTE

    harness.pass_time(0)

    assert slots_run(harness) == list(range(1, 1_001))


def test_catch_up_respects_the_limit_and_the_order() -> None:
    harness = down_for_ten_slots(catch_up=CatchUp.ALL, max_concurrent_runs=1)
    assert slots_run(harness) == [1]

    waiting = RunHarness(
        rules(
            schedule=EVERY_MINUTE,
            catch_up=CatchUp.ALL,
            max_concurrent_runs=1,
            violation=action("wait"),
        )
    )
    waiting.deploy()
    waiting.now += 10 * MINUTE + 1
    waiting.pass_time(0)
    for minute in range(1, 11):
        waiting.start(run_id(minute))
        waiting.end(run_id(minute))

    assert slots_run(waiting) == list(range(1, 11))


def test_a_paused_schedule_plans_nothing() -> None:
    harness = scheduled()

    harness.deploy(paused=True)
    harness.pass_time(600)

    assert harness.rows == {}
    assert harness.count(MakeJob) == 0


def test_a_resumed_schedule_skips_the_slots_of_the_pause() -> None:
    harness = scheduled()
    harness.deploy(paused=True)
    harness.pass_time(600)

    harness.deploy(slot_at=harness.now)
    harness.pass_time(60)

    assert slots_run(harness) == [11]


def test_a_deleted_schedule_plans_nothing() -> None:
    harness = scheduled()

    harness.deploy(gone=True)

    assert harness.rows == {}


def test_a_new_version_applies_to_the_planned_run() -> None:
    harness = scheduled()
    harness.registry.rules["flow", 2] = rules(
        schedule=Schedule(cron="* * * * *", input_data={"x": 2})
    )

    harness.deploy(2)
    harness.pass_time(60)

    [command] = [command for command in harness.commands if isinstance(command, MakeJob)]
    assert (command.version, command.input, command.run_id) == (2, {"x": 2}, run_id(1))


def test_a_new_version_does_not_apply_to_a_run_that_has_started() -> None:
    harness = scheduled()
    harness.pass_time(60)
    harness.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE)

    harness.deploy(2)

    assert [
        row.version for row in sorted(harness.rows.values(), key=lambda row: row.scheduled_at)
    ] == [1, 2]


def test_another_expression_plans_another_slot_and_changing_back_plans_the_first_again() -> None:
    harness = scheduled()
    harness.registry.rules["flow", 2] = rules(schedule=Schedule(interval_seconds=30))
    harness.registry.rules["flow", 3] = rules(schedule=EVERY_MINUTE)
    harness.deploy(2)
    between = [row.scheduled_at - T0 for row in harness.rows.values()]

    harness.deploy(3)

    assert between == [30 * MICROSECONDS]
    assert list(harness.rows) == [run_id(1)]


def test_a_schedule_that_changes_to_an_earlier_slot_fires_it() -> None:
    harness = RunHarness(rules(schedule=Schedule(cron="0 * * * *")))
    harness.deploy()
    harness.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE)

    harness.deploy(2)
    harness.pass_time(60)

    assert slots_run(harness) == [1]


def test_a_changed_schedule_catches_up_nothing_before_the_change() -> None:
    harness = RunHarness(rules(schedule=Schedule(cron="0 * * * *"), catch_up=CatchUp.ALL))
    harness.deploy()
    harness.pass_time(600)
    harness.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE, catch_up=CatchUp.ALL)

    harness.deploy(2)
    harness.pass_time(60)

    assert slots_run(harness) == [11]


def test_a_schedule_that_is_enabled_starts_then() -> None:
    harness = RunHarness(
        rules(schedule=Schedule(cron="* * * * *", enabled=False), catch_up=CatchUp.ALL)
    )
    harness.deploy()
    harness.pass_time(600)
    harness.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE, catch_up=CatchUp.ALL)

    harness.deploy(2)
    harness.pass_time(60)

    assert slots_run(harness) == [11]


def test_after_a_planned_run_is_cancelled_the_next_slot_is_planned() -> None:
    harness = scheduled()

    harness.cancel(run_id(1))
    harness.pass_time(120)

    assert harness.state(run_id(1)) == "cancelled"
    assert slots_run(harness) == [2]


def test_a_schedule_for_one_instant_fires_once() -> None:
    harness = RunHarness(rules(schedule=Schedule(at=T0 // MICROSECONDS + 90)))
    harness.deploy()

    harness.pass_time(3600)

    assert harness.count(MakeJob) == 1
    assert harness.states() == ["container_creating"]


def test_a_backfill_runs_the_slots_of_a_range_that_have_no_run_yet_in_order() -> None:
    harness = scheduled()
    row = ScheduleRow("flow", 1, is_paused=False, slot_at=T0, created_at=T0, changed_at=T0)
    taken = structs.replace(
        harness.rows[run_id(1)],
        scheduled_at=T0 - 3 * MINUTE,
        state=RunState.FAILED,
        job_id="job",
        completed_at=T0,
    )
    given = ScheduleContext(row, harness.registry.rules["flow", 1], newest_runs([taken]))

    harness.decide(
        RunRequested("flow", "r1", "backfill", since=T0 - 6 * MINUTE, until=T0 - MINUTE), given
    )

    assert slots_run(harness) == [-5, -4, -2, -1]
    assert all(harness.rows[run_id(minute)].detail.is_catch_up for minute in (-5, -4, -2, -1))


def test_a_backfill_runs_after_the_catch_up_of_the_schedule() -> None:
    harness = scheduled()
    harness.now += 10 * MINUTE + 1
    given = ScheduleContext(
        harness.registry.workflow("flow").schedule, harness.registry.rules["flow", 1]
    )

    harness.decide(
        RunRequested("flow", "r1", "backfill", since=T0 + 3 * MINUTE, until=T0 + 10 * MINUTE), given
    )
    harness.pass_time(120)

    assert slots_run(harness) == [10, 4, 5, 6, 7, 8, 9, 11, 12]


def test_a_backfill_leaves_slots_after_the_planned_run_to_the_schedule() -> None:
    harness = RunHarness(
        rules(schedule=Schedule(cron="* * * * *", jitter_seconds=3_000.0), catch_up=CatchUp.ALL)
    )
    harness.deploy()
    harness.now += 5 * MINUTE
    due = [timer.due_at for timer in harness.timers]
    given = ScheduleContext(
        harness.registry.workflow("flow").schedule, harness.registry.rules["flow", 1]
    )

    harness.decide(
        RunRequested("flow", "r1", "backfill", since=T0 - 2 * MINUTE, until=T0 + 5 * MINUTE), given
    )

    assert due[0] > harness.now
    assert slots_run(harness) == [-1, 0]


def test_a_repeated_notification_changes_nothing() -> None:
    harness = scheduled()
    before = dict(harness.rows)

    harness.deploy(changed_at=T0)

    assert harness.rows == before


def test_an_older_row_does_not_move_the_schedule_back() -> None:
    harness = scheduled()
    harness.pass_time(180)
    row = ScheduleRow("flow", 1, is_paused=False, slot_at=T0, created_at=T0, changed_at=T0)

    harness.decide(ScheduleChanged("flow"), ScheduleContext(row, harness.registry.rules["flow", 1]))
    harness.pass_time(60)

    assert slots_run(harness) == [1, 2, 3, 4]


@pytest.mark.parametrize("policy", list(CatchUp))
def test_after_a_gap_the_schedule_continues_as_before(policy: CatchUp) -> None:
    harness = down_for_ten_slots(catch_up=policy)
    count = len(slots_run(harness))

    harness.pass_time(180)

    assert slots_run(harness)[count:] == [11, 12, 13]


def finish_running(harness: RunHarness) -> None:
    """Let every job that was launched start and end."""
    for row in list(harness.rows.values()):
        if row.state is RunState.CONTAINER_CREATING:
            harness.start(row.run_id)
            harness.end(row.run_id)


@pytest.mark.parametrize("kind", ["skip", "kill_old", "wait", "retry_later", "webhook"])
def test_missed_slots_queue_for_room_and_all_run_in_order(kind: str) -> None:
    harness = down_for_ten_slots(
        catch_up=CatchUp.ALL, max_concurrent_runs=1, violation=action(kind)
    )
    queued = harness.states().count("action_running")
    for _ in range(10):
        harness.pass_time(1)
        harness.reload()
        finish_running(harness)

    assert queued == 9
    assert slots_run(harness) == list(range(1, 11))
    assert not any(row.detail.violations for row in harness.rows.values())


def test_made_up_slots_wait_without_a_timeout() -> None:
    harness = down_for_ten_slots(catch_up=CatchUp.ALL, max_concurrent_runs=1)
    harness.start(run_id(1))

    harness.registry.workflow("flow").schedule = None
    harness.pass_time(30 * 86_400)

    assert harness.states().count("action_running") == 9


def test_the_next_slot_queues_behind_made_up_slots_and_later_ones_do_not() -> None:
    harness = down_for_ten_slots(catch_up=CatchUp.ALL, max_concurrent_runs=1)
    harness.pass_time(30)
    while harness.run(run_id(11)).is_waiting:
        finish_running(harness)
    harness.pass_time(60)

    assert slots_run(harness) == list(range(1, 12))
    assert harness.rows[run_id(12)].detail.is_skipped


def test_a_made_up_slot_after_a_failed_one_is_skipped_with_the_reason() -> None:
    harness = scheduled(max_concurrent_runs=1, require_previous_success=True)
    harness.backfill(T0 - 4 * MINUTE, T0 - MINUTE)
    harness.start(run_id(-3))

    harness.end(run_id(-3), "failed")

    assert slots_run(harness) == [-3]
    for minute in (-2, -1):
        detail = harness.rows[run_id(minute)].detail
        assert (detail.is_skipped, detail.reason) == (True, "the previous run did not succeed")


def test_a_backfill_repeats_skipped_and_cancelled_slots_once() -> None:
    harness = scheduled(max_concurrent_runs=1)
    harness.backfill(T0 - 4 * MINUTE, T0 - MINUTE, "r1")
    harness.cancel(run_id(-2))
    harness.start(run_id(-3))
    harness.end(run_id(-3))
    harness.backfill(T0 - 4 * MINUTE, T0 - MINUTE, "r2")
    harness.backfill(T0 - 4 * MINUTE, T0 - MINUTE, "r3")

    repeated = f"{run_id(-2)}.2"
    assert harness.rows[repeated].detail.request_id == "r2"
    assert [row.run_id for row in harness.rows.values() if row.scheduled_at == T0 - 2 * MINUTE] == [
        run_id(-2),
        repeated,
    ]
    schedule = harness.registry.workflow("flow").schedule
    assert schedule is not None
    slots = [*slots_in(EVERY_MINUTE, Span(T0 - 4 * MINUTE, T0 - MINUTE)), T0 + MINUTE]
    answer = backfilled(slots, newest_runs(harness.rows.values()), schedule, "r2")
    assert answer.slots == [T0 - 2 * MINUTE]
    assert answer.left_out == {"has_run": 1, "in_progress": 1, "scheduled": 1}


def test_a_backfill_repeats_a_slot_that_failed_before_its_job() -> None:
    wait = action("wait", timeout_seconds=20.0)
    harness = scheduled(max_concurrent_runs=1, require_previous_success=True, violation=wait)
    harness.backfill(T0 - 3 * MINUTE, T0 - MINUTE, "r1")
    harness.start(run_id(-2))
    harness.end(run_id(-2), "failed")
    harness.pass_time(25)
    failed = harness.rows[run_id(-1)]
    assert (failed.state, failed.job_id) == ("failed", None)

    harness.backfill(T0 - 3 * MINUTE, T0 - MINUTE, "r2")

    assert [row.run_id for row in harness.rows.values() if row.detail.request_id == "r2"] == [
        f"{run_id(-1)}.2"
    ]


def test_a_missed_range_lists_its_slots_with_the_planned_one() -> None:
    harness = down_for_ten_slots()

    [data] = harness.events_of("", "slots_missed")

    assert [(at - T0) // MINUTE for at in data["slots"]] == list(range(1, 10))
    assert (data["count"], data["first"]) == (9, T0 + MINUTE)


def test_missed_slots_stay_with_the_schedule_while_too_many_are_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduling, "QUEUED_MAX", 3)
    harness = RunHarness(rules(schedule=EVERY_MINUTE, catch_up=CatchUp.ALL, max_concurrent_runs=1))
    harness.deploy()
    harness.now += 10 * MINUTE
    harness.pass_time(0)
    queued = len(harness.registry.workflow("flow").waiting())

    harness.start(run_id(1))
    harness.end(run_id(1))
    harness.pass_time(scheduling.QUEUE_CHECK_SECONDS)

    assert queued == 3
    assert len(harness.registry.workflow("flow").waiting()) == 3
    assert slots_run(harness) == [1, 2]


def test_the_newest_slot_is_caught_up_after_more_missed_slots_than_are_counted() -> None:
    every_hour = Schedule(cron="0 * * * *")
    harness = RunHarness(rules(schedule=every_hour, catch_up=CatchUp.LATEST))
    harness.deploy()
    hours = scheduling.COUNTED_MAX + 50
    newest = hours_from_start(hours)
    harness.now = newest + 30 * MINUTE

    harness.pass_time(0)

    made = [command.scheduled_at for command in harness.commands if isinstance(command, MakeJob)]
    assert made == [newest]


def test_no_slot_whose_jitter_ends_in_the_window_is_passed_over() -> None:
    every_minute = Schedule(cron="* * * * *", jitter_seconds=1_200.0)
    harness = RunHarness(
        rules(schedule=every_minute, catch_up=CatchUp.ALL, catch_up_window_seconds=3_600.0)
    )
    harness.deploy()
    minutes = scheduling.COUNTED_MAX + 200
    harness.now = T0 + minutes * MINUTE
    seconds = harness.now / MICROSECONDS
    slots = [T0 + minute * MINUTE for minute in range(1, minutes)]
    late = {at: seconds - fire_time(every_minute, at / MICROSECONDS, "flow") for at in slots}

    # A slot waits for those before it.
    harness.pass_time(every_minute.jitter_seconds)

    started = {command.scheduled_at for command in harness.commands if isinstance(command, MakeJob)}
    assert {at for at in slots if 0 <= late[at] <= 3_600} <= started
    assert started.isdisjoint(at for at in slots if late[at] > 3_600)


def test_slot_fires_by_the_wall_clock_and_is_recorded_by_the_time_that_never_steps() -> None:
    harness = scheduled(catch_up=CatchUp.ALL)
    due = RunDue("flow", run_id(1), RunWait.START)
    harness.decide(due)
    before = slots_run(harness)
    harness.ahead = MINUTE

    harness.decide(due)

    assert (before, slots_run(harness)) == ([], [1])
    assert harness.rows[run_id(1)].state_at == T0
    assert harness.timers[-1].due_at == T0 + 2 * MINUTE


def test_start_that_a_caller_named_follows_the_wall_clock_and_one_at_once_does_not() -> None:
    harness = RunHarness(rules())
    harness.ahead = -60 * MINUTE
    harness.submit()
    at_once = harness.states()

    harness.submit(scheduled_at=T0)

    assert at_once == ["container_creating"]
    assert harness.states() == ["container_creating", "pre_run"]


def test_bounds_of_a_run_do_not_follow_the_wall_clock() -> None:
    harness = RunHarness(rules(max_allowed_run_seconds=600.0))
    job_id = harness.submit()
    harness.start(job_id)
    [bound] = [timer for timer in harness.timers if timer.kind is RunWait.LIMIT]
    harness.ahead = 60 * MINUTE

    harness.decide(bound.message())

    assert harness.states() == ["running"]
