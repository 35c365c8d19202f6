"""The `schedule` section: cron expressions, intervals, single times, time zones."""

import re
from datetime import datetime
from zoneinfo import available_timezones

from windlass.core.durations import DAY_SECONDS
from windlass.core.errors import ScheduleInvalid
from windlass.core.runs.cron import MACROS, check_cron, check_zone
from windlass.core.templates.json_values import shown
from windlass.spec.definition import ScheduleDefinition
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.sections.fields import (
    Section,
    build,
    duration,
    matching,
    read_boolean,
    read_object,
    read_section,
)

KINDS = ("cron", "every", "at")
KIND_HINT = "write one of cron: '*/15 * * * *', every: 15m, at: 2030-01-31T08:00:00Z"
CRON_HINT = (
    "write five fields, as in '*/15 * * * *': minute, hour, day, month, weekday; "
    "a sixth field before them is seconds"
)
TIME_HINT = "write 2030-01-31T08:00:00Z; without an offset it is a local time of the `timezone`"
TIME_YEARS = range(1970, 9_000)
# Matches no path that leads out of the directory of the time zone database.
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
# Five or six fields.
_CRON = re.compile(r"\s*\S+(?:\s+\S+){4,5}\s*")
_read_cron_fields = matching(_CRON, "cron expression", CRON_HINT)
_read_time = matching(_TIME, "time", TIME_HINT)


def read_cron(findings: Findings, path: Path, value: object) -> str:
    """Read a cron expression of five or six fields, or a macro such as @daily."""
    if str(value).startswith("@"):
        return _read_macro(findings, path, str(value))
    text: str = _read_cron_fields(findings, path, value)
    try:
        check_cron(text)
    except ScheduleInvalid as error:
        findings.reject(path, f"invalid cron expression: {shown(text)}: {error}", CRON_HINT)
    return text


def _read_macro(findings: Findings, path: Path, name: str) -> str:
    if name not in MACROS:
        hint = findings.suggest(name, list(MACROS), f"known macros: {', '.join(MACROS)}")
        findings.reject(path, f"unknown cron macro: {shown(name)}", hint)
    return name


_read_seconds = duration(1)


def read_interval(findings: Findings, path: Path, value: object) -> float:
    """Read a duration of whole seconds."""
    seconds: float = _read_seconds(findings, path, value)
    if not seconds.is_integer():
        hint = "write 1s or longer, without fractions"
        findings.reject(path, f"must be a whole number of seconds: {shown(value)}", hint)
    return seconds


def read_time(findings: Findings, path: Path, value: object) -> str:
    """Read a date and a time of day, with an offset or in local time of the schedule's zone."""
    text = _read_time(findings, path, value)
    if _year_of(text) not in TIME_YEARS:
        findings.reject(path, f"invalid time: {shown(value)}", TIME_HINT)
    return text


def _year_of(time: str) -> int | None:
    try:
        return datetime.fromisoformat(time.upper()).year
    except ValueError:
        return None


def read_timezone(findings: Findings, path: Path, value: object) -> str:
    """Read the name of a zone in the IANA database."""
    name = str(value)
    if not _is_zone(name):
        hint = findings.suggest(
            name, sorted(available_timezones()), "use a name such as Europe/Paris or UTC"
        )
        findings.reject(path, f"unknown time zone: {shown(value)}", hint)
    return name


def _is_zone(name: str) -> bool:
    if not _ZONE.fullmatch(name):
        return False
    try:
        check_zone(name)
    except ScheduleInvalid:
        return False
    return True


SCHEDULE = Section(
    {
        "cron": read_cron,
        "every": read_interval,
        "at": read_time,
        "timezone": read_timezone,
        "anchor": read_time,
        "enabled": read_boolean,
        "jitter": duration(0, DAY_SECONDS),
        "input": read_object,
    },
    synonyms={
        "interval": "every",
        "tz": "timezone",
        "zone": "timezone",
        "expression": "cron",
        "input_data": "input",
    },
)


def read_schedule(findings: Findings, path: Path, value: object) -> ScheduleDefinition:
    """Read when runs start."""
    before = findings.count
    fields = read_section(findings, path, value, SCHEDULE)
    given = read_object(findings, path, value)
    kinds = [kind for kind in KINDS if kind in given]
    # An unknown key may be a misspelling of one of the three, and is reported already.
    if not kinds and findings.count == before:
        findings.add(path, f"missing key: one of {', '.join(KINDS)}", KIND_HINT)
    elif len(kinds) > 1:
        message = f"conflicting keys: {', '.join(kinds)}"
        findings.add((*path, kinds[1]), message, f"remove {kinds[1]}", at_key=True)
    if "anchor" in fields and "every" not in given:
        message = "anchor has no effect without `every`"
        findings.add((*path, "anchor"), message, "remove it, or write every: 15m", at_key=True)
    findings.stop_if_more_than(before)
    return build(ScheduleDefinition, fields)
