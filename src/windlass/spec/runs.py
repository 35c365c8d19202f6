"""Reads what a document says about runs: schedule, constraints, actions, and retries of whole runs."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from windlass.core.json_values import shown
from windlass.spec.fields import (
    DAY_SECONDS,
    ID,
    ID_RULE,
    Section,
    anything,
    boolean,
    choice,
    duration,
    matching,
    number,
    read_section,
    whole,
)
from windlass.spec.findings import Findings, Path
from windlass.spec.model import Action, Constraints, Hook, RunRetry, Schedule
from windlass.spec.trees import is_object

MACROS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
CRON_LENGTH_MAX = 200
ZONES_SUGGESTED = ("UTC", "Europe/Paris", "Europe/London", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_URL = re.compile(r"https?://[^\s]{1,2000}")
# Any moment does: only whether the expression can be read is asked.
_SOME_MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
NOT_STARTED = "this version does not start runs by itself"

ACTION_EVENTS = ("on_constraint_violation", "on_failure", "on_success", "on_slow")
ACTION_TYPES = ("skip", "retry_later", "kill_old", "wait", "webhook", "trigger_job")


def cron(found: Findings, path: Path, value: object) -> str | None:
    """A cron expression of five fields, or a macro such as @daily."""
    if isinstance(value, str) and value.startswith("@"):
        if value in MACROS:
            return value
        hint = found.like(value, list(MACROS), f"known: {', '.join(MACROS)}")
        found.add(path, f"{shown(value)} is no cron macro", hint)
        return None
    hint = "write five fields, as in '*/15 * * * *': minute, hour, day, month, weekday"
    if not isinstance(value, str) or len(value) > CRON_LENGTH_MAX or len(value.split()) != 5:
        found.add(path, f"{shown(value)} is no cron expression", hint)
        return None
    try:
        CronSim(value, _SOME_MOMENT)
    except CronSimError as error:
        found.add(path, f"{shown(value)} is no cron expression: {error}", hint)
        return None
    return value


def timezone(found: Findings, path: Path, value: object) -> str | None:
    """A zone of the IANA database."""
    if isinstance(value, str) and _ZONE.fullmatch(value):
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError):
            pass
        else:
            return value
    hint = found.like(str(value), ZONES_SUGGESTED, "use a name such as Europe/Paris or UTC")
    found.add(path, f"{shown(value)} is no time zone", hint)
    return None


_SCHEDULE = Section(
    {"cron": cron, "timezone": timezone, "enabled": boolean, "jitter": duration(0, DAY_SECONDS)}, ("cron",)
)
_HOOK = Section(
    {
        "url": matching(_URL, "http address", "write https://…"),
        "secret": matching(ID, "name of a secret", ID_RULE),
        "timeout": duration(0.1, 3600),
    },
    ("url",),
)


def hook(found: Findings, path: Path, value: object) -> Hook | None:
    """A call before or after a run."""
    read = read_section(found, path, value, _HOOK)
    return None if read is None else Hook(**read)


_CONSTRAINTS = Section(
    {
        "max_concurrent_runs": whole(1, 10_000),
        "require_previous_success": boolean,
        "catch_up": boolean,
        "catch_up_window": duration(0),
        "max_expected_run_time": duration(0.001),
        "max_allowed_run_time": duration(0.001),
        "pre_run_hook": hook,
        "post_run_hook": hook,
    }
)
_ACTION = Section({"type": choice(*ACTION_TYPES), "parameters": anything}, ("type",))
_RUN_RETRY = Section(
    {
        "max_retries": whole(0, 1000),
        "initial_delay": duration(0, 7 * DAY_SECONDS),
        "backoff_multiplier": number(1, 100),
        "max_delay": duration(0, 7 * DAY_SECONDS),
    }
)


def schedule(found: Findings, path: Path, value: object) -> Schedule | None:
    """When runs start by themselves."""
    found.warn(path, f"the schedule is kept, but {NOT_STARTED}", "start jobs yourself for now", at_key=True)
    read = read_section(found, path, value, _SCHEDULE)
    return None if read is None else Schedule(**read)


def constraints(found: Findings, path: Path, value: object) -> Constraints | None:
    """What must hold for a run."""
    found.warn(path, f"the constraints are kept, but {NOT_STARTED}", "nothing enforces them yet", at_key=True)
    read = read_section(found, path, value, _CONSTRAINTS)
    return None if read is None else Constraints(**read)


def actions(found: Findings, path: Path, value: object) -> dict[str, Action] | None:
    """What to do when something happens to a run."""
    found.warn(path, f"the actions are kept, but {NOT_STARTED}", "nothing performs them yet", at_key=True)
    if not is_object(value):
        found.add(path, "actions are an object", f"write {ACTION_EVENTS[0]}: {{type: skip}}")
        return None
    made: dict[str, Action] = {}
    for event, inner in value.items():
        if event not in ACTION_EVENTS:
            found.add(
                (*path, event), f"there is no event '{event}'", found.unknown_key(event, ACTION_EVENTS), at_key=True
            )
            continue
        read = read_section(found, (*path, event), inner, _ACTION)
        if read is None:
            continue
        if not is_object(read.get("parameters", {})):
            found.add((*path, event, "parameters"), "parameters are an object", "write {name: value}")
            continue
        made[event] = Action(**read)
    return made


def run_retry(found: Findings, path: Path, value: object) -> RunRetry | None:
    """How often a failed run is started again."""
    found.warn(path, f"run_retry is kept, but {NOT_STARTED}", "use a node's `retry` for now", at_key=True)
    read = read_section(found, path, value, _RUN_RETRY)
    return None if read is None else RunRetry(**read)
