"""When a schedule is due: the slots of cron expressions, intervals and single moments, as UTC seconds.

The rules across changes of the clock are in docs/reference/schedules.md; the tests hold this module to them.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import floor
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from windlass.core.errors import ScheduleInvalid

DAY = 86_400
CRON_LENGTH_MAX = 200
# Changes of a zone's clock that a search walks past before it gives up; a year has at most a handful.
CHANGES_PASSED_MAX = 1_000
SLOTS_MAX = 100_000
ZONES_CACHED_MAX = 1_024
MACROS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# The search ends before the last date that there is, with room for any zone and for what cronsim looks ahead.
_LAST = floor(datetime(9900, 1, 1, tzinfo=UTC).timestamp())
# A local time: the seconds from here are what a clock on a wall shows, in whatever zone.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When runs start by themselves. Exactly one of `cron`, `interval_seconds` and `at` is set."""

    cron: str | None = None
    # Slots are whole multiples of this after `anchor`, before it too.
    interval_seconds: int | None = None
    # One slot, in UTC seconds.
    at: int | None = None
    zone: str = "UTC"
    anchor: int = 0
    # A run starts up to so many seconds after its slot; how many depends on the slot and the workflow only.
    jitter_seconds: float = 0.0
    enabled: bool = True
    # What the jobs of its runs get as input.
    input_data: dict[str, Any] = {}


def next_slot(schedule: Schedule, after: float) -> float | None:
    """The first slot strictly after a moment; None when there is none."""
    start = floor(after) + 1
    if schedule.at is not None:
        return float(schedule.at) if schedule.at >= start else None
    if schedule.interval_seconds is not None:
        return float(start + (schedule.anchor - start) % schedule.interval_seconds)
    if schedule.cron is None or start > _LAST:
        return None
    expression = MACROS.get(schedule.cron, schedule.cron)
    search = _next_named if names_hours(expression) else _next_shown
    found = search(expression, _zone(schedule.zone), start)
    return None if found is None else float(found)


def slots_between(schedule: Schedule, after: float, until: float, limit: int) -> list[float]:
    """The slots after one moment and up to another, both in UTC seconds, the first `limit` of them."""
    slots: list[float] = []
    while len(slots) < min(limit, SLOTS_MAX):
        slot = next_slot(schedule, after)
        if slot is None or slot > until:
            break
        slots.append(slot)
        after = slot
    return slots


def fire_time(schedule: Schedule, slot: float, key: str) -> float:
    """When the run of a slot starts: the slot, and a jitter that is the same whoever computes it."""
    if not schedule.jitter_seconds:
        return slot
    digest = hashlib.sha256(f"{key}:{slot:.0f}".encode()).digest()
    share = int.from_bytes(digest[:6], "big") / (1 << 48)
    return slot + round(schedule.jitter_seconds * share, 3)


def names_hours(expression: str) -> bool:
    """Whether an expression says at which hours it fires, instead of beginning the hours with a star."""
    return not MACROS.get(expression, expression).split()[-4].startswith("*")


def check_cron(expression: str) -> None:
    """Raises ScheduleInvalid, with the reason, for an expression that cannot be read or never fires."""
    text = MACROS.get(expression, expression)
    if len(text) > CRON_LENGTH_MAX:
        raise ScheduleInvalid(f"{len(text)} characters are more than the {CRON_LENGTH_MAX} it may have")
    try:
        found = _next_local(text, 0)
    # The library asserts, or adds a text to a number, where odd forms meet: 1#2/3.
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        raise ScheduleInvalid(str(error).lower() or "it cannot be read") from error
    if found is None:
        raise ScheduleInvalid("it never fires: no date is on all of its days")


def check_zone(name: str) -> None:
    """Raises ScheduleInvalid for a name that is not in the time zone database."""
    _zone(name)


def instant_of(moment: datetime, zone: str) -> int:
    """A moment as UTC seconds; one without an offset is read on the clock of the zone."""
    if moment.tzinfo is not None:
        return floor(moment.timestamp())
    return _instant(_zone(zone), floor((moment - _EPOCH) / timedelta(seconds=1)))


@lru_cache(maxsize=ZONES_CACHED_MAX)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ScheduleInvalid(f"there is no time zone {name!r}") from error


def _next_local(expression: str, local: int) -> int | None:
    """The first time at or after a local one that an expression names, on a clock that nobody puts back or forward."""
    try:
        found = next(CronSim(expression, _EPOCH + timedelta(seconds=local - 1)))
    except StopIteration:
        return None
    return (found - _EPOCH) // timedelta(seconds=1)


def _next_named(expression: str, zone: ZoneInfo, start: int) -> int | None:
    """Each local time fires once: when the clock first shows it, or at the moment at which it jumps over it."""
    local = start + _offset(zone, start)
    change = _change(zone, start - DAY, start)
    if change is not None:
        shown_before = change + _offset(zone, change - 1)
        # Either the clock was put back, and what it shows again has fired already, or it jumps forward at `start`.
        if shown_before > local or change == start:
            local = shown_before
    found = _next_local(expression, local)
    return None if found is None else _instant(zone, found)


def _next_shown(expression: str, zone: ZoneInfo, start: int) -> int | None:
    """Every moment fires at which the clock shows a time of the expression: twice what it shows twice."""
    for _ in range(CHANGES_PASSED_MAX):
        offset = _offset(zone, start)
        change = _change(zone, start, start + DAY)
        local = _next_local(expression, start + offset)
        if local is None or start > _LAST:
            return None
        found = local - offset
        if found < (change or start + DAY):
            return found
        # Far ahead the clock may have been changed; nothing fires until shortly before that local time.
        start = change or max(start + DAY, found - 2 * DAY)
    return None


def _offset(zone: ZoneInfo, moment: int) -> int:
    """How far the clock of a zone is ahead of UTC, in seconds."""
    ahead = datetime.fromtimestamp(moment, zone).utcoffset()
    return 0 if ahead is None else floor(ahead.total_seconds())


def _change(zone: ZoneInfo, since: int, until: int) -> int | None:
    """The moment after `since` and up to `until` at which the clock of a zone is put forward or back."""
    before = _offset(zone, since)
    if _offset(zone, until) == before:
        return None
    while until - since > 1:
        middle = (since + until) // 2
        if _offset(zone, middle) == before:
            since = middle
        else:
            until = middle
    return until


def _instant(zone: ZoneInfo, local: int) -> int:
    """When the clock of a zone first shows a local time, or jumps over it."""
    shown = _EPOCH + timedelta(seconds=local)
    ahead = shown.replace(tzinfo=zone).utcoffset()
    moment = local - (0 if ahead is None else floor(ahead.total_seconds()))
    if moment + _offset(zone, moment) == local:
        return moment
    # In a gap the library reckons with the clock as it was before, which leads to a moment after the jump.
    return _change(zone, moment - DAY, moment) or moment
