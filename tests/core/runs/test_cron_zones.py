"""Slots around the clock changes of every time zone, compared with a check of every minute.

The check implements only the documented policy: an expression with fixed hours fires when the clock first reaches or
passes a time; one with wildcard hours fires whenever the clock shows one.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from msgspec import Struct

from windlass.core.runs.cron import Schedule, slots_between

FIRST = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp())
LAST = int(datetime(2041, 1, 1, tzinfo=UTC).timestamp())
MINUTE, HOUR, DAY = 60, 3_600, 86_400
# No zone changes its clock and changes it back within this many seconds.
STEP = 5 * DAY
BEFORE, AFTER = HOUR, 3 * HOUR
SLOTS_MAX = 10_000

Matches = Callable[[datetime], bool]


class Expression(Struct, frozen=True):
    """A cron expression and the same condition in Python."""

    cron: str
    has_fixed_hours: bool
    matches: Matches


EXPRESSIONS = [
    Expression("30 2 * * *", True, lambda t: (t.hour, t.minute) == (2, 30)),
    Expression("0 2 * * *", True, lambda t: (t.hour, t.minute) == (2, 0)),
    Expression("30 1 * * *", True, lambda t: (t.hour, t.minute) == (1, 30)),
    Expression("0 3 * * *", True, lambda t: (t.hour, t.minute) == (3, 0)),
    Expression("@daily", True, lambda t: (t.hour, t.minute) == (0, 0)),
    Expression("59 23 * * *", True, lambda t: (t.hour, t.minute) == (23, 59)),
    Expression("5 0-4 * * *", True, lambda t: t.hour < 5 and t.minute == 5),
    Expression("*/20 1,2 * * *", True, lambda t: t.hour in (1, 2) and t.minute % 20 == 0),
    Expression("* 2 * * 0", True, lambda t: t.hour == 2 and t.isoweekday() == 7),
    Expression("15 0 1 * *", True, lambda t: (t.day, t.hour, t.minute) == (1, 0, 15)),
    Expression("30 1 * 3,10 SUN#5", True, lambda t: t.month in (3, 10) and t.day > 28 and t.isoweekday() == 7
               and (t.hour, t.minute) == (1, 30)),
    Expression("@hourly", False, lambda t: t.minute == 0),
    Expression("*/30 * * * *", False, lambda t: t.minute % 30 == 0),
    Expression("0 */2 * * *", False, lambda t: t.hour % 2 == 0 and t.minute == 0),
    Expression("10 */3 * * 0,6", False, lambda t: t.hour % 3 == 0 and t.minute == 10 and t.isoweekday() > 5),
]  # fmt: skip


def utc_offset(zone: ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def changes(zone: ZoneInfo) -> Iterator[int]:
    """Yield every instant at which the clock of a zone changes."""
    for begin, end in pairwise(range(FIRST, LAST, STEP)):
        since, until, before = begin, end, utc_offset(zone, begin)
        if utc_offset(zone, until) == before:
            continue
        while until - since > 1:
            middle = (since + until) // 2
            since, until = (
                (middle, until) if utc_offset(zone, middle) == before else (since, middle)
            )
        yield until


@cache
def distinct_zones(every: int) -> list[tuple[str, list[int]]]:
    """Return one zone of each group of equal zones, with its clock changes; of every so many names."""
    distinct: dict[tuple[object, ...], tuple[str, list[int]]] = {}
    for name in sorted(available_timezones())[::every]:
        zone = ZoneInfo(name)
        found = list(changes(zone))
        shown = tuple(
            (instant, utc_offset(zone, instant - 1), utc_offset(zone, instant)) for instant in found
        )
        distinct.setdefault((utc_offset(zone, FIRST), *shown), (name, found))
    return list(distinct.values())


def slots_by_minute(
    zone: ZoneInfo, expressions: list[Expression], since: int, until: int
) -> list[list[int]]:
    """Return the slots of each expression in `[since, until)`, found by checking every minute."""
    fired: list[list[int]] = [[] for _ in expressions]
    minutes = [
        (instant, instant + utc_offset(zone, instant)) for instant in range(since, until, MINUTE)
    ]
    reached = minutes[0][1] - MINUTE
    for instant, local in minutes:
        new = [datetime.fromtimestamp(m, UTC) for m in range(reached + MINUTE, local + 1, MINUTE)]
        now = datetime.fromtimestamp(local, UTC)
        for number, expression in enumerate(expressions):
            due = (
                any(map(expression.matches, new))
                if expression.has_fixed_hours
                else expression.matches(now)
            )
            if due:
                fired[number].append(instant)
        reached = max(reached, local)
    return fired


# `make test` checks a sample of the zones, `make prove` all of them.
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.prove), 36])
def test_slots_around_clock_changes_are_correct(every: int) -> None:
    wrong: list[str] = []
    zones = distinct_zones(every)
    # Twenty-one years with two changes each, in a few dozen distinct zones.
    assert sum(len(found) for _, found in zones) > 1_000 / every
    for name, found in zones:
        zone = ZoneInfo(name)
        for change in found:
            since, until = change - BEFORE, change + AFTER
            for expression, slots in zip(
                EXPRESSIONS, slots_by_minute(zone, EXPRESSIONS, since, until), strict=True
            ):
                schedule = Schedule(cron=expression.cron, zone=name)
                if slots_between(schedule, since - 1, until - 1, SLOTS_MAX) != slots:
                    wrong.append(f"{expression.cron} in {name} around {change}")

    assert wrong == []


@pytest.mark.parametrize(
    "name", ["Europe/Paris", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"]
)
def test_slots_of_two_months_are_correct(name: str) -> None:
    chosen = [
        expression
        for expression in EXPRESSIONS
        if expression.cron in ("30 2 * * *", "0 */2 * * *", "15 0 1 * *")
    ]
    since = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
    until = since + 61 * DAY

    expected = slots_by_minute(ZoneInfo(name), chosen, since, until)

    assert [
        slots_between(Schedule(cron=expression.cron, zone=name), since - 1, until - 1, SLOTS_MAX)
        for expression in chosen
    ] == expected


@pytest.mark.parametrize(
    "name", ["America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo"]
)
def test_the_next_slot_does_not_depend_on_the_start_of_the_search(name: str) -> None:
    change = next(changes(ZoneInfo(name)))
    for expression in EXPRESSIONS:
        schedule = Schedule(cron=expression.cron, zone=name)
        slots = slots_between(schedule, change - DAY, change + 4_000 * DAY, 100)

        seen = {
            slots_between(schedule, after, slots[-1], 1)[0]
            for after in range(change - DAY, int(slots[-1]), 7 * MINUTE)[:300]
        }

        assert seen <= set(slots)
