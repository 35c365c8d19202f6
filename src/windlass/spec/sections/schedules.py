"""The `schedule` section: cron expressions, intervals, single times, time zones."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

from windlass.core.errors import ScheduleInvalid
from windlass.core.runs.cron import MACROS, check_cron, check_zone
from windlass.core.templates.json_values import kind_of, shown
from windlass.spec.definition import ScheduleDefinition
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_object
from windlass.spec.sections.fields import DAY_SECONDS, Section, build, duration, read_boolean, read_section

KINDS = ("cron", "every", "at")
CRON_FIELDS = (5, 6)
KIND_HINT = "write one of cron: '*/15 * * * *', every: 15m, at: 2030-01-31T08:00:00Z"
CRON_HINT = (
    "write five fields, as in '*/15 * * * *': minute, hour, day, month, weekday; a sixth field before them is seconds"
)
TIME_HINT = "write 2030-01-31T08:00:00Z; without an offset it is a local time of the `timezone`"
TIME_YEARS = range(1970, 9_000)
# Matches no path that leads out of the directory of the time zone database.
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?")


def read_cron(findings: Findings, path: Path, value: object) -> str | None:
    """Read a cron expression of five or six fields, or a macro such as @daily."""
    if isinstance(value, str) and value.startswith("@"):
        if value in MACROS:
            return value
        hint = findings.suggest(value, list(MACROS), f"known macros: {', '.join(MACROS)}")
        findings.add(path, f"unknown cron macro: {shown(value)}", hint)
        return None
    if not isinstance(value, str) or len(value.split()) not in CRON_FIELDS:
        findings.add(path, f"invalid cron expression: {shown(value)}", CRON_HINT)
        return None
    try:
        check_cron(value)
    except ScheduleInvalid as error:
        findings.add(path, f"invalid cron expression: {shown(value)}: {error}", CRON_HINT)
        return None
    return value


def read_interval(findings: Findings, path: Path, value: object) -> float | None:
    """Read a duration of whole seconds."""
    seconds = duration(1)(findings, path, value)
    if seconds is not None and seconds != int(seconds):
        findings.add(
            path, f"must be a whole number of seconds: {shown(value)}", "write 1s or longer, without fractions"
        )
        return None
    return seconds


def read_time(findings: Findings, path: Path, value: object) -> str | None:
    """Read a date and a time of day, with an offset or in local time of the schedule's zone."""
    if isinstance(value, str) and _TIME.fullmatch(value) and _year_of(value) in TIME_YEARS:
        return value
    findings.add(path, f"invalid time: {shown(value)}", TIME_HINT)
    return None


def _year_of(time: str) -> int | None:
    try:
        return datetime.fromisoformat(time.upper()).year
    except ValueError:
        return None


def read_timezone(findings: Findings, path: Path, value: object) -> str | None:
    """Read the name of a zone in the IANA database."""
    if isinstance(value, str) and _ZONE.fullmatch(value):
        try:
            check_zone(value)
        except ScheduleInvalid:
            pass
        else:
            return value
    hint = findings.suggest(str(value), sorted(available_timezones()), "use a name such as Europe/Paris or UTC")
    findings.add(path, f"unknown time zone: {shown(value)}", hint)
    return None


def read_input_object(findings: Findings, path: Path, value: object) -> dict[str, Any] | None:
    """Read an object that becomes the input of jobs."""
    if is_object(value):
        return value
    findings.add(path, f"must be an object: {kind_of(value)}", "write {name: value, …}")
    return None


SCHEDULE = Section(
    {
        "cron": read_cron,
        "every": read_interval,
        "at": read_time,
        "timezone": read_timezone,
        "anchor": read_time,
        "enabled": read_boolean,
        "jitter": duration(0, DAY_SECONDS),
        "input": read_input_object,
    },
    synonyms={"interval": "every", "tz": "timezone", "zone": "timezone", "expression": "cron", "input_data": "input"},
)


def read_schedule(findings: Findings, path: Path, value: object) -> ScheduleDefinition | None:
    """Read when runs start."""
    before = findings.count
    fields = read_section(findings, path, value, SCHEDULE)
    if fields is None or not is_object(value):
        return None
    kinds = [kind for kind in KINDS if kind in value]
    # An unknown key may be a misspelling of one of the three, and is reported already.
    if not kinds and findings.count == before:
        findings.add(path, f"missing key: one of {', '.join(KINDS)}", KIND_HINT)
    elif len(kinds) > 1:
        message = f"conflicting keys: {', '.join(kinds)}"
        findings.add((*path, kinds[1]), message, f"remove {kinds[1]}", at_key=True)
    if "anchor" in fields and "every" not in value:
        message = "anchor has no effect without `every`"
        findings.add((*path, "anchor"), message, "remove it, or write every: 15m", at_key=True)
    if findings.count > before:
        return None
    return build(ScheduleDefinition, fields)
