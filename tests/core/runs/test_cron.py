"""Slots of cron expressions, intervals and single instants; jitter; invalid expressions."""

from datetime import UTC, datetime
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import ScheduleInvalid
from windlass.core.runs.cron import (
    Schedule,
    check_cron,
    check_zone,
    fire_time,
    instant_of,
    next_slot,
    slots_between,
)

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()


def cron_slots(cron: str, zone: str, after: str, count: int) -> list[str]:
    """Return the next slots after a UTC time, as UTC times."""
    since = datetime.fromisoformat(after).replace(tzinfo=UTC).timestamp()
    slots = slots_between(Schedule(cron=cron, zone=zone), since, since + 4e9, count)
    return [datetime.fromtimestamp(slot, UTC).isoformat()[:19] for slot in slots]


EXAMPLES = {
    "each quarter of an hour": (
        "*/15 * * * *",
        "UTC",
        "2026-05-04T12:07",
        ["12:15:00", "12:30:00", "12:45:00"],
    ),
    "with seconds": (
        "*/20 * * * * *",
        "UTC",
        "2026-05-04T12:07:30",
        ["12:07:40", "12:08:00", "12:08:20"],
    ),
    "in a zone": ("0 9 * * *", "Asia/Kolkata", "2026-05-04T00:00", ["03:30:00"]),
    "a skipped local time": ("30 2 * * *", "America/New_York", "2026-03-08T00:00", ["07:00:00"]),
    "a repeated local time": ("30 1 * * *", "America/New_York", "2026-11-01T00:00", ["05:30:00"]),
    "several skipped local times": (
        "*/10 2 * * 0",
        "Europe/Paris",
        "2026-03-29T00:00",
        ["01:00:00"],
    ),
    "a skipped midnight": ("@daily", "Africa/Cairo", "2026-04-23T12:00", ["22:00:00"]),
    "a repeated half hour": ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", ["14:45:00"]),
}


@pytest.mark.parametrize(("cron", "zone", "after", "times"), EXAMPLES.values(), ids=EXAMPLES)
def test_slots_of_cron_expressions(cron: str, zone: str, after: str, times: list[str]) -> None:
    assert [slot[11:] for slot in cron_slots(cron, zone, after, len(times))] == times


def test_a_fixed_hour_fires_once_on_the_day_it_is_repeated() -> None:
    assert cron_slots("30 1 * * *", "America/New_York", "2026-11-01T00:00", 2) == [
        "2026-11-01T05:30:00",
        "2026-11-02T06:30:00",
    ]


def test_a_fixed_hour_does_not_fire_at_its_repetition() -> None:
    # 06:15 UTC is the second 01:15 of that night in New York.
    assert cron_slots("30 1 * * *", "America/New_York", "2026-11-01T06:15", 1) == [
        "2026-11-02T06:30:00"
    ]


def test_a_skipped_time_fires_at_the_clock_change() -> None:
    assert cron_slots("30 2 * * *", "America/New_York", "2026-03-08T06:59:59", 1) == [
        "2026-03-08T07:00:00"
    ]


def test_a_skipped_time_does_not_fire_again_after_the_clock_change() -> None:
    assert cron_slots("30 2 * * *", "America/New_York", "2026-03-08T07:00:00", 1) == [
        "2026-03-09T06:30:00"
    ]


def test_a_wildcard_hour_fires_in_elapsed_time() -> None:
    assert cron_slots("*/30 * * * *", "America/New_York", "2026-11-01T04:59", 5) == [
        "2026-11-01T05:00:00",
        "2026-11-01T05:30:00",
        "2026-11-01T06:00:00",
        "2026-11-01T06:30:00",
        "2026-11-01T07:00:00",
    ]


def test_a_skipped_wildcard_hour_does_not_fire() -> None:
    assert cron_slots("0 */2 * * *", "America/New_York", "2026-03-08T04:30", 2) == [
        "2026-03-08T05:00:00",
        "2026-03-08T08:00:00",
    ]


def test_a_day_that_a_zone_skipped_fires_at_the_change() -> None:
    # Samoa had no 30 December 2011.
    assert cron_slots("0 9 * * *", "Pacific/Apia", "2011-12-29T20:00", 2) == [
        "2011-12-30T10:00:00",
        "2011-12-30T19:00:00",
    ]


def test_a_rare_date_is_found() -> None:
    assert cron_slots("0 0 29 2 */7", "Europe/Paris", "2026-01-01T00:00", 1) == [
        "2032-02-28T23:00:00"
    ]


def test_the_next_slot_is_strictly_after_the_given_instant() -> None:
    schedule = Schedule(cron="0 * * * *")

    assert [
        next_slot(schedule, NOON - 0.001),
        next_slot(schedule, NOON),
        next_slot(schedule, NOON + 0.5),
    ] == [
        NOON,
        NOON + 3600,
        NOON + 3600,
    ]


def test_an_interval_counts_from_its_anchor() -> None:
    schedule = Schedule(interval_seconds=900, anchor=int(NOON) + 60)

    assert slots_between(schedule, NOON, NOON + 3600, 10) == [
        NOON + at for at in (60, 960, 1860, 2760)
    ]


def test_an_interval_has_slots_before_its_anchor() -> None:
    assert next_slot(Schedule(interval_seconds=900, anchor=int(NOON) + 9060), NOON) == NOON + 60


def test_a_single_instant_is_one_slot() -> None:
    schedule = Schedule(at=int(NOON))

    assert (next_slot(schedule, NOON - 1), next_slot(schedule, NOON)) == (NOON, None)


def test_the_number_of_slots_is_limited() -> None:
    assert len(slots_between(Schedule(cron="* * * * * *"), NOON, NOON + 1e6, 7)) == 7


def test_slots_include_the_end_of_the_range() -> None:
    assert slots_between(Schedule(interval_seconds=60), NOON, NOON + 60, 5) == [NOON + 60]


@given(st.floats(0, 4e9), st.sampled_from(["*/15 * * * *", "0 3 * * 1", "30 2 1 * *", "*/7 * * * * *"]),
       st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu"]))  # fmt: skip
def test_slots_are_complete_and_in_order(after: float, cron: str, zone: str) -> None:
    schedule = Schedule(cron=cron, zone=zone)

    slots = slots_between(schedule, after, after + 4e9, 4)
    last = slots[-1]

    assert slots == sorted(set(slots))
    assert slots[0] > after
    assert slots_between(schedule, slots[0], last, 10) == slots[1:]


@given(st.integers(0, 4_000_000_000), st.text(max_size=5), st.floats(0.1, 3600))
def test_jitter_is_within_its_limit_and_deterministic(slot: int, key: str, jitter: float) -> None:
    schedule = Schedule(interval_seconds=60, jitter_seconds=jitter)

    times = {fire_time(schedule, float(slot), key) for _ in range(3)}

    assert len(times) == 1
    assert slot <= times.pop() <= slot + jitter + 0.001


def test_jitter_distributes_the_workflows_of_one_slot() -> None:
    schedule = Schedule(interval_seconds=60, jitter_seconds=10.0)

    late = [fire_time(schedule, NOON, f"w{number}") - NOON for number in range(200)]

    assert min(late) < 1.0
    assert max(late) > 9.0


def test_without_jitter_a_run_starts_at_its_slot() -> None:
    assert fire_time(Schedule(interval_seconds=60), NOON, "w") == NOON


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 */31 2 MON#5", "0 1 30 2 *", "0 0 1#2/3 * *"]
)
def test_an_expression_that_never_fires_is_refused_within_a_second(expression: str) -> None:
    began = perf_counter()

    with pytest.raises(ScheduleInvalid):
        check_cron(expression)

    assert perf_counter() - began < 1.0


def test_a_rare_date_in_a_zone_is_found_within_a_second() -> None:
    began = perf_counter()

    slot = next_slot(Schedule(cron="0 1 30 3 *", zone="Europe/Lisbon"), NOON)

    assert slot == datetime(2027, 3, 30, 0, tzinfo=UTC).timestamp()
    assert perf_counter() - began < 1.0


@pytest.mark.parametrize("zone", ["Europe/Pariss", "../etc/passwd", "", "/etc/passwd", "Europe"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ScheduleInvalid):
        check_zone(zone)


def test_a_skipped_local_time_is_the_instant_of_the_clock_change() -> None:
    skipped = instant_of(datetime(2026, 3, 8, 2, 30), "America/New_York")  # noqa: DTZ001

    assert skipped == datetime(2026, 3, 8, 7, tzinfo=UTC).timestamp()
