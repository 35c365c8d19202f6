"""When a schedule is due: the slots of cron expressions, intervals and single instants, in UTC seconds.

docs/reference/schedules.md has the rules for clock changes, which the tests check.
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
# Clock changes of a zone that a search passes before it stops; a year has at most a few.
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
# The search ends before the last representable date, with room for time zones and for the search of cronsim.
_LAST = floor(datetime(9900, 1, 1, tzinfo=UTC).timestamp())
# Local times are seconds since this naive instant, in any zone.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When runs start. Exactly one of `cron`, `interval_seconds` and `at` is set."""

    cron: str | None = None
    # Slots are at whole multiples of this before and after `anchor`.
    interval_seconds: int | None = None
    # One slot, in UTC seconds.
    at: int | None = None
    zone: str = "UTC"
    anchor: int = 0
    # The maximum delay of a run after its slot; the actual delay depends on the slot and the workflow only.
    jitter_seconds: float = 0.0
    enabled: bool = True
    # The input of the jobs.
    input_data: dict[str, Any] = {}


def next_slot(schedule: Schedule, after: float) -> float | None:
    """Return the first slot strictly after an instant; None when there is none."""
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
    """Return the first `limit` slots after one instant and up to another, in UTC seconds."""
    slots: list[float] = []
    while len(slots) < min(limit, SLOTS_MAX):
        slot = next_slot(schedule, after)
        if slot is None or slot > until:
            break
        slots.append(slot)
        after = slot
    return slots


def fire_time(schedule: Schedule, slot: float, key: str) -> float:
    """Return when the run of a slot starts: the slot plus a jitter that is the same in every process."""
    if not schedule.jitter_seconds:
        return slot
    digest = hashlib.sha256(f"{key}:{slot:.0f}".encode()).digest()
    share = int.from_bytes(digest[:6], "big") / (1 << 48)
    return slot + round(schedule.jitter_seconds * share, 3)


def names_hours(expression: str) -> bool:
    """Return whether the hours of an expression do not start with a star."""
    return not MACROS.get(expression, expression).split()[-4].startswith("*")


def check_cron(expression: str) -> None:
    """Raise ScheduleInvalid, with the reason, for an expression that cannot be parsed or never fires."""
    text = MACROS.get(expression, expression)
    if len(text) > CRON_LENGTH_MAX:
        raise ScheduleInvalid(f"longer than {CRON_LENGTH_MAX} characters: {len(text)}")
    try:
        found = _next_local(text, 0)
    # The library raises AssertionError or TypeError for some expressions, such as 1#2/3.
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        raise ScheduleInvalid(str(error).lower() or "cannot be parsed") from error
    if found is None:
        raise ScheduleInvalid("never fires: no date matches all of its fields")


def check_zone(name: str) -> None:
    """Raise ScheduleInvalid for a name that is not in the time zone database."""
    _zone(name)


def instant_of(time: datetime, zone: str) -> int:
    """Return a time in UTC seconds; a naive one is local to the zone."""
    if time.tzinfo is not None:
        return floor(time.timestamp())
    return _instant(_zone(zone), floor((time - _EPOCH) / timedelta(seconds=1)))


@lru_cache(maxsize=ZONES_CACHED_MAX)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ScheduleInvalid(f"unknown time zone: {name!r}") from error


def _next_local(expression: str, local: int) -> int | None:
    """Return the first match of an expression at or after a local time, without clock changes."""
    try:
        found = next(CronSim(expression, _EPOCH + timedelta(seconds=local - 1)))
    except StopIteration:
        return None
    return (found - _EPOCH) // timedelta(seconds=1)


def _next_named(expression: str, zone: ZoneInfo, start: int) -> int | None:
    """Return the next slot where each local time fires once: when it first occurs, or when the clock skips it."""
    local = start + _offset(zone, start)
    change = _change(zone, start - DAY, start)
    if change is not None:
        shown_before = change + _offset(zone, change - 1)
        # Either the clock was set back, and the repeated times have fired already, or it is set forward at `start`.
        if shown_before > local or change == start:
            local = shown_before
    found = _next_local(expression, local)
    return None if found is None else _instant(zone, found)


def _next_shown(expression: str, zone: ZoneInfo, start: int) -> int | None:
    """Return the next slot where a local time fires each time it occurs: repeated times fire twice."""
    for _ in range(CHANGES_PASSED_MAX):
        offset = _offset(zone, start)
        change = _change(zone, start, start + DAY)
        local = _next_local(expression, start + offset)
        if local is None or start > _LAST:
            return None
        found = local - offset
        if found < (change or start + DAY):
            return found
        # The clock may change before that local time; nothing fires until shortly before it.
        start = change or max(start + DAY, found - 2 * DAY)
    return None


def _offset(zone: ZoneInfo, instant: int) -> int:
    """Return the offset of a zone from UTC at an instant, in seconds."""
    return _seconds(datetime.fromtimestamp(instant, zone).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else floor(offset.total_seconds())


def _change(zone: ZoneInfo, since: int, until: int) -> int | None:
    """Return the instant after `since` and up to `until` at which the offset of a zone changes, if it does."""
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
    """Return the instant at which a local time first occurs, or is skipped."""
    time = _EPOCH + timedelta(seconds=local)
    instant = local - _seconds(time.replace(tzinfo=zone).utcoffset())
    if instant + _offset(zone, instant) == local:
        return instant
    # For a skipped time the library uses the offset before the change, which leads to an instant after it.
    return _change(zone, instant - DAY, instant) or instant
