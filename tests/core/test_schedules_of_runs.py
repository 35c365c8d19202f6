"""Schedules: which slots are run, which are missed, and which run is planned next."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.core.run_story import EVERY_MINUTE, MINUTE, T0, Story, action, rules
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.commands import MakeJob
from windlass.core.runs.cron import Schedule
from windlass.core.runs.decide import ScheduleContext
from windlass.core.runs.messages import RunRequested, ScheduleChanged
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.rules import CatchUp


def run_id(minutes: int) -> str:
    moment = datetime.fromtimestamp((T0 + minutes * MINUTE) / MICROSECONDS, UTC)
    return f"flow:{moment:%Y-%m-%dT%H:%M:%SZ}"


def scheduled(**constraints: Any) -> Story:
    story = Story(rules(schedule=EVERY_MINUTE, **constraints))
    story.deploy()
    return story


def slots_run(story: Story) -> list[int]:
    """Return the slots whose jobs were created, in order, as minutes after the start."""
    made = [command.scheduled_at for command in story.commands if isinstance(command, MakeJob)]
    return [(at - T0) // MINUTE for at in made]


def test_the_next_run_of_a_schedule_is_planned_without_an_event() -> None:
    story = scheduled()

    assert story.states() == ["pre_run"]
    assert list(story.rows) == [run_id(1)]
    assert story.events == []


def test_a_slot_fires_once_at_its_time_with_the_input_of_the_schedule() -> None:
    story = scheduled()
    story.pass_time(59)
    before = story.count(MakeJob)

    story.pass_time(1)

    [command] = story.commands
    assert before == 0
    assert isinstance(command, MakeJob)
    assert (command.run_id, command.scheduled_at, command.input) == (run_id(1), T0 + MINUTE, {"x": 1})
    assert story.states() == ["container_creating", "pre_run"]


def test_every_slot_of_an_hour_fires_once_and_in_order() -> None:
    story = scheduled()

    story.pass_time(3600)

    assert slots_run(story) == list(range(1, 61))


def test_jitter_moves_the_start_and_not_the_slot() -> None:
    story = Story(rules(schedule=Schedule(cron="* * * * *", jitter_seconds=30.0)))
    story.deploy()
    [timer] = story.timers

    story.pass_time(120)

    assert T0 + MINUTE < timer.due_at <= T0 + MINUTE + 30 * MICROSECONDS
    assert slots_run(story)[0] == 1


def down_for_ten_slots(**constraints: Any) -> Story:
    """Return a schedule that no engine served for ten slots and a half."""
    story = scheduled(**constraints)
    story.now += 10 * MINUTE + MINUTE // 2
    story.pass_time(0)
    return story


def missed(story: Story) -> int:
    return story.events.count(("", "slots_missed"))


def test_all_missed_slots_are_caught_up_in_order() -> None:
    story = down_for_ten_slots(catch_up=CatchUp.ALL)

    assert slots_run(story) == list(range(1, 11))
    assert missed(story) == 0


def test_only_slots_inside_the_window_are_caught_up() -> None:
    story = down_for_ten_slots(catch_up=CatchUp.ALL, catch_up_window_seconds=240.0)

    assert slots_run(story) == [7, 8, 9, 10]
    assert story.state(run_id(1)) == "cancelled"
    assert missed(story) == 1


def test_only_the_latest_of_the_missed_slots_is_caught_up() -> None:
    story = down_for_ten_slots(catch_up=CatchUp.LATEST)

    assert slots_run(story) == [10]
    assert (story.state(run_id(1)), missed(story)) == ("cancelled", 1)


def test_the_latest_slot_is_not_caught_up_outside_the_window() -> None:
    story = Story(
        rules(schedule=Schedule(interval_seconds=3600), catch_up=CatchUp.LATEST, catch_up_window_seconds=600.0)
    )
    story.deploy()
    story.now = (story.now // (3600 * MICROSECONDS) + 11) * 3600 * MICROSECONDS - 60 * MICROSECONDS

    story.pass_time(0)

    assert story.count(MakeJob) == 0
    assert story.states()[-1] == "pre_run"


def test_without_catch_up_missed_slots_are_not_run_and_the_next_one_is() -> None:
    story = Story(rules(schedule=Schedule(interval_seconds=600)))
    story.deploy()
    story.now = (story.now // (600 * MICROSECONDS) + 11) * 600 * MICROSECONDS - 120 * MICROSECONDS
    story.pass_time(0)
    before = story.count(MakeJob)

    story.pass_time(120)

    assert (before, story.count(MakeJob)) == (0, 1)


def test_a_slot_that_is_a_little_late_is_not_missed() -> None:
    story = scheduled()
    story.now += MINUTE + 30 * MICROSECONDS

    story.pass_time(0)

    assert slots_run(story) == [1]
    assert not story.rows[run_id(1)].detail.is_catch_up


def test_every_slot_is_run_or_its_reason_is_recorded() -> None:
    story = down_for_ten_slots()

    ran, cancelled = slots_run(story), [row for row in story.rows.values() if row.state == "cancelled"]
    assert ran == [10]
    assert [row.run_id for row in cancelled] == [run_id(1)]
    assert "missed" in (cancelled[0].detail.reason or "")
    assert missed(story) == 1


def test_many_missed_slots_are_handled_in_bounded_turns() -> None:
    story = scheduled(catch_up=CatchUp.ALL)
    story.now += 1_000 * MINUTE

    story.pass_time(0)

    assert slots_run(story) == list(range(1, 1_001))


def test_catch_up_respects_the_limit_and_the_order() -> None:
    story = down_for_ten_slots(catch_up=CatchUp.ALL, max_concurrent_runs=1)
    assert slots_run(story) == [1]

    waiting = Story(rules(schedule=EVERY_MINUTE, catch_up=CatchUp.ALL, max_concurrent_runs=1, violation=action("wait")))
    waiting.deploy()
    waiting.now += 10 * MINUTE + 1
    waiting.pass_time(0)
    for minute in range(1, 11):
        waiting.start(run_id(minute))
        waiting.end(run_id(minute))

    assert slots_run(waiting) == list(range(1, 11))


def test_a_paused_schedule_plans_nothing() -> None:
    story = scheduled()

    story.deploy(paused=True)
    story.pass_time(600)

    assert story.rows == {}
    assert story.count(MakeJob) == 0


def test_a_resumed_schedule_skips_the_slots_of_the_pause() -> None:
    story = scheduled()
    story.deploy(paused=True)
    story.pass_time(600)

    story.deploy(slot_at=story.now)
    story.pass_time(60)

    assert slots_run(story) == [11]


def test_a_deleted_schedule_plans_nothing() -> None:
    story = scheduled()

    story.deploy(gone=True)

    assert story.rows == {}


def test_a_new_version_applies_to_the_planned_run() -> None:
    story = scheduled()
    story.registry.rules["flow", 2] = rules(schedule=Schedule(cron="* * * * *", input_data={"x": 2}))

    story.deploy(2)
    story.pass_time(60)

    [command] = [command for command in story.commands if isinstance(command, MakeJob)]
    assert (command.version, command.input, command.run_id) == (2, {"x": 2}, run_id(1))


def test_a_new_version_does_not_apply_to_a_run_that_has_started() -> None:
    story = scheduled()
    story.pass_time(60)
    story.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE)

    story.deploy(2)

    assert [row.version for row in sorted(story.rows.values(), key=lambda row: row.scheduled_at)] == [1, 2]


def test_another_expression_plans_another_slot_and_changing_back_plans_the_first_again() -> None:
    story = scheduled()
    story.registry.rules["flow", 2] = rules(schedule=Schedule(interval_seconds=30))
    story.registry.rules["flow", 3] = rules(schedule=EVERY_MINUTE)
    story.deploy(2)
    between = [row.scheduled_at - T0 for row in story.rows.values()]

    story.deploy(3)

    assert between == [30 * MICROSECONDS]
    assert list(story.rows) == [run_id(1)]


def test_a_schedule_that_changes_to_an_earlier_slot_fires_it() -> None:
    story = Story(rules(schedule=Schedule(cron="0 * * * *")))
    story.deploy()
    story.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE)

    story.deploy(2)
    story.pass_time(60)

    assert slots_run(story) == [1]


def test_a_changed_schedule_catches_up_nothing_before_the_change() -> None:
    story = Story(rules(schedule=Schedule(cron="0 * * * *"), catch_up=CatchUp.ALL))
    story.deploy()
    story.pass_time(600)
    story.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE, catch_up=CatchUp.ALL)

    story.deploy(2)
    story.pass_time(60)

    assert slots_run(story) == [11]


def test_a_schedule_that_is_enabled_starts_then() -> None:
    story = Story(rules(schedule=Schedule(cron="* * * * *", enabled=False), catch_up=CatchUp.ALL))
    story.deploy()
    story.pass_time(600)
    story.registry.rules["flow", 2] = rules(schedule=EVERY_MINUTE, catch_up=CatchUp.ALL)

    story.deploy(2)
    story.pass_time(60)

    assert slots_run(story) == [11]


def test_after_a_planned_run_is_cancelled_the_next_slot_is_planned() -> None:
    story = scheduled()

    story.cancel(run_id(1))
    story.pass_time(120)

    assert story.state(run_id(1)) == "cancelled"
    assert slots_run(story) == [2]


def test_a_schedule_for_one_instant_fires_once() -> None:
    story = Story(rules(schedule=Schedule(at=T0 // MICROSECONDS + 90)))
    story.deploy()

    story.pass_time(3600)

    assert story.count(MakeJob) == 1
    assert story.states() == ["container_creating"]


def test_a_backfill_runs_the_slots_of_a_range_that_have_no_run_yet_in_order() -> None:
    story = scheduled()
    row = ScheduleRow("flow", 1, is_paused=False, slot_at=T0, created_at=T0, changed_at=T0)
    given = ScheduleContext(row, story.registry.rules["flow", 1], frozenset({run_id(-3)}))

    story.decide(RunRequested("flow", "r1", "backfill", since=T0 - 6 * MINUTE, until=T0 - MINUTE), given)

    assert slots_run(story) == [-5, -4, -2, -1]
    assert all(story.rows[run_id(minute)].detail.is_catch_up for minute in (-5, -4, -2, -1))


def test_a_backfill_runs_after_the_catch_up_of_the_schedule() -> None:
    story = scheduled()
    story.now += 10 * MINUTE + 1
    given = ScheduleContext(story.registry.workflow("flow").schedule, story.registry.rules["flow", 1])

    story.decide(RunRequested("flow", "r1", "backfill", since=T0 + 3 * MINUTE, until=T0 + 10 * MINUTE), given)
    story.pass_time(120)

    assert slots_run(story) == [10, 4, 5, 6, 7, 8, 9, 11, 12]


def test_a_backfill_leaves_slots_after_the_planned_run_to_the_schedule() -> None:
    story = Story(rules(schedule=Schedule(cron="* * * * *", jitter_seconds=3_000.0), catch_up=CatchUp.ALL))
    story.deploy()
    story.now += 5 * MINUTE
    due = [timer.due_at for timer in story.timers]
    given = ScheduleContext(story.registry.workflow("flow").schedule, story.registry.rules["flow", 1])

    story.decide(RunRequested("flow", "r1", "backfill", since=T0 - 2 * MINUTE, until=T0 + 5 * MINUTE), given)

    assert due[0] > story.now
    assert slots_run(story) == [-1, 0]


def test_a_repeated_notification_changes_nothing() -> None:
    story = scheduled()
    before = dict(story.rows)

    story.deploy(changed_at=T0)

    assert story.rows == before


def test_an_older_row_does_not_move_the_schedule_back() -> None:
    story = scheduled()
    story.pass_time(180)
    row = ScheduleRow("flow", 1, is_paused=False, slot_at=T0, created_at=T0, changed_at=T0)

    story.decide(ScheduleChanged("flow"), ScheduleContext(row, story.registry.rules["flow", 1]))
    story.pass_time(60)

    assert slots_run(story) == [1, 2, 3, 4]


@pytest.mark.parametrize("policy", list(CatchUp))
def test_after_a_gap_the_schedule_continues_as_before(policy: CatchUp) -> None:
    story = down_for_ten_slots(catch_up=policy)
    count = len(slots_run(story))

    story.pass_time(180)

    assert slots_run(story)[count:] == [11, 12, 13]
