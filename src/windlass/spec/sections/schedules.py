"""Reads when a workflow starts by itself: cron expressions, intervals, single moments, time zones."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

from windlass.core.errors import InputInvalid, ScheduleInvalid
from windlass.core.runs.cron import MACROS, check_cron, check_zone
from windlass.core.templates.json_values import kind_of, shown
from windlass.spec.checks.inputs import check_input_tree
from windlass.spec.definition import Schedule
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_object
from windlass.spec.sections.fields import DAY_SECONDS, Section, boolean, duration, read_section

KINDS = ("cron", "every", "at")
CRON_FIELDS = (5, 6)
ONE_HINT = "write one of cron: '*/15 * * * *', every: 15m, at: 2030-01-31T08:00:00Z"
CRON_HINT = (
    "write five fields, as in '*/15 * * * *': minute, hour, day, month, weekday; a sixth before them counts seconds"
)
MOMENT_HINT = "write 2030-01-31T08:00:00Z; without an offset it is read on the clock of the `timezone`"
MOMENT_YEARS = range(1970, 9_000)
# No file of the zone database is outside its folder: nothing here can lead out of it.
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?")


def cron(findings: Findings, path: Path, value: object) -> str | None:
    """A cron expression of five or six fields, or a macro such as @daily."""
    if isinstance(value, str) and value.startswith("@"):
        if value in MACROS:
            return value
        hint = findings.like(value, list(MACROS), f"known: {', '.join(MACROS)}")
        findings.add(path, f"{shown(value)} is no cron macro", hint)
        return None
    if not isinstance(value, str) or len(value.split()) not in CRON_FIELDS:
        findings.add(path, f"{shown(value)} is no cron expression", CRON_HINT)
        return None
    try:
        check_cron(value)
    except ScheduleInvalid as error:
        findings.add(path, f"{shown(value)} is no cron expression: {error}", CRON_HINT)
        return None
    return value


def interval(findings: Findings, path: Path, value: object) -> float | None:
    """A duration of whole seconds."""
    seconds = duration(1)(findings, path, value)
    if seconds is not None and seconds != int(seconds):
        findings.add(path, f"{shown(value)} is no whole number of seconds", "write 1s or longer, without fractions")
        return None
    return seconds


def moment(findings: Findings, path: Path, value: object) -> str | None:
    """A date and a time of day, with an offset or on the schedule's own clock."""
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        try:
            year = datetime.fromisoformat(value.upper()).year
        except ValueError:
            year = 0
        if year in MOMENT_YEARS:
            return value
    findings.add(path, f"{shown(value)} is no moment in time", MOMENT_HINT)
    return None


def timezone(findings: Findings, path: Path, value: object) -> str | None:
    """A zone of the IANA database."""
    if isinstance(value, str) and _ZONE.fullmatch(value):
        try:
            check_zone(value)
        except ScheduleInvalid:
            pass
        else:
            return value
    hint = findings.like(str(value), sorted(available_timezones()), "use a name such as Europe/Paris or UTC")
    findings.add(path, f"{shown(value)} is no time zone", hint)
    return None


def input_object(findings: Findings, path: Path, value: object) -> dict[str, Any] | None:
    """An object that becomes the input of jobs."""
    if is_object(value):
        return value
    findings.add(path, f"an input is an object, not {kind_of(value)}", "write {name: value, …}")
    return None


_SCHEDULE = Section(
    {
        "cron": cron,
        "every": interval,
        "at": moment,
        "timezone": timezone,
        "anchor": moment,
        "enabled": boolean,
        "jitter": duration(0, DAY_SECONDS),
        "input": input_object,
    },
    meant={"interval": "every", "tz": "timezone", "zone": "timezone", "expression": "cron", "input_data": "input"},
)


def schedule(findings: Findings, path: Path, value: object) -> Schedule | None:
    """When runs start by themselves."""
    before = findings.count
    read = read_section(findings, path, value, _SCHEDULE)
    if read is None or not is_object(value):
        return None
    named = [kind for kind in KINDS if kind in value]
    # A key that is misspelt was noted already.
    if not named and findings.count == before:
        findings.add(path, "a schedule does not say when", ONE_HINT)
    elif len(named) > 1:
        findings.add(
            (*path, named[1]), f"a schedule has either {' or '.join(named)}", f"remove {named[1]}", at_key=True
        )
    if "anchor" in read and "every" not in value:
        findings.add((*path, "anchor"), "an anchor belongs to `every`", "remove it, or write every: 15m", at_key=True)
    return Schedule(**read) if findings.count == before else None


def check_scheduled_input(findings: Findings, top: Mapping[str, Any]) -> None:
    """Note what the workflow's schema has against the input that its schedule gives."""
    planned: Schedule | None = top.get("schedule")
    if planned is None:
        return
    try:
        check_input_tree(top.get("input"), planned.input)
    except InputInvalid as refused:
        # Nothing given at all may be meant: jobs are then started by hand, and the schedule is there for later.
        note = findings.add if planned.input else findings.warn
        for problem in refused.problems:
            where = f" (at {problem.path})" if problem.path else ""
            message = f"the workflow refuses the input that its schedule gives: {problem.message}{where}"
            note(("schedule", "input"), message, "write it under schedule, as in input: {name: value}")
