"""Reads what a document says about runs: constraints, actions, and retries of whole runs."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from windlass.core.templates.json_values import shown
from windlass.spec.definition import Action, Constraints, Hook, Incoming, RunRetry
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_object
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    ID,
    ID_RULE,
    NAME,
    Section,
    boolean,
    choice,
    duration,
    matching,
    number,
    read_section,
    whole,
)
from windlass.spec.sections.schedules import input_object

HOOK_SECONDS_MAX = 300.0
HOOK_ATTEMPTS_MAX = 20
RETRIES_MAX = 1_000
URL_HINT = "write https://host/path"
ACTION_EVENTS = ("on_constraint_violation", "on_failure", "on_success", "on_slow")
# What comes after a violation may decide about the run; what comes after its end can only tell others.
AFTERWARDS = ("webhook", "trigger_job")
_URL = re.compile(r"https?://[^\s\\]{1,2000}", re.IGNORECASE)


def url(findings: Findings, path: Path, value: object) -> str | None:
    """An http address without credentials in it."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        findings.add(path, f"{shown(value)} is no http address", URL_HINT)
        return None
    try:
        parts = urlsplit(value)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        findings.add(path, f"{shown(value)} is no http address", URL_HINT)
        return None
    if "@" in parts.netloc:
        findings.add(
            path, "this address has credentials in it, and addresses are shown", "sign with a `secret` instead"
        )
        return None
    if not usable:
        findings.add(path, f"{shown(value)} names no host", URL_HINT)
        return None
    return value


def secret_name(findings: Findings, path: Path, value: object) -> str | None:
    """The name of a secret; never the secret."""
    if isinstance(value, str) and value.startswith("whsec_"):
        findings.add(path, "this is a key itself, and definitions are shown", "name a secret of the worker's settings")
        return None
    return matching(NAME, "name of a secret", "use letters, digits and _, as in hook_key")(findings, path, value)


_HOOK = Section(
    {
        "url": url,
        "secret": secret_name,
        "timeout": duration(0.1, HOOK_SECONDS_MAX),
        "max_attempts": whole(1, HOOK_ATTEMPTS_MAX),
    },
    ("url",),
)


_INCOMING = Section({"secret": secret_name}, ("secret",))


def hook(findings: Findings, path: Path, value: object) -> Hook | None:
    """A call before or after a run."""
    read = read_section(findings, path, value, _HOOK)
    return None if read is None else Hook(**read)


def catch_up(findings: Findings, path: Path, value: object) -> str | None:
    """Which missed slots are made up for; true is all of them."""
    if isinstance(value, bool):
        return "all" if value else "none"
    return choice("none", "latest", "all")(findings, path, value)


def version(findings: Findings, path: Path, value: object) -> int | str | None:
    """The number of a version, or an alias."""
    if isinstance(value, int):
        return whole(1, 1 << 31)(findings, path, value)
    return matching(ID, "version", "write a number or an alias")(findings, path, value)


_CONSTRAINTS = Section(
    {
        "max_concurrent_runs": whole(1, 10_000),
        "require_previous_success": boolean,
        "catch_up": catch_up,
        "catch_up_window": duration(0),
        "max_expected_run_time": duration(0.001),
        "max_allowed_run_time": duration(0.001),
        "pre_run_hook": hook,
        "post_run_hook": hook,
        "on_check_error": choice("allow", "skip"),
        "max_missed_heartbeats": whole(1, 1_000_000),
    },
    meant={"concurrency": "max_concurrent_runs", "catchup": "catch_up", "timeout": "max_allowed_run_time"},
)
_RUN_RETRY = Section(
    {
        "max_retries": whole(0, RETRIES_MAX),
        "initial_delay": duration(0, 7 * DAY_SECONDS),
        "backoff_multiplier": number(1, 100),
        "max_delay": duration(0, 7 * DAY_SECONDS),
        "full": boolean,
    },
    meant={"max_attempts": "max_retries", "delay": "initial_delay", "multiplier": "backoff_multiplier"},
)
PARAMETERS: Mapping[str, Section] = {
    "skip": Section({}),
    "retry_later": Section({"delay": duration(0.001), "max_times": whole(1, RETRIES_MAX)}),
    "kill_old": Section({}),
    "wait": Section({"timeout": duration(0.001)}),
    "webhook": _HOOK,
    "trigger_job": Section(
        {"workflow_id": matching(ID, "workflow id", ID_RULE), "version": version, "input": input_object},
        ("workflow_id",),
        meant={"workflow": "workflow_id", "job": "workflow_id", "input_data": "input"},
    ),
}


def constraints(findings: Findings, path: Path, value: object) -> Constraints | None:
    """What must hold for a run."""
    read = read_section(findings, path, value, _CONSTRAINTS)
    if read is None:
        return None
    expected, allowed = read.get("max_expected_run_time"), read.get("max_allowed_run_time")
    if expected is not None and allowed is not None and expected >= allowed:
        message = "a run is stopped before it counts as slow: max_expected_run_time is not below max_allowed_run_time"
        findings.warn((*path, "max_expected_run_time"), message, "make it shorter", at_key=True)
    return Constraints(**read)


def actions(findings: Findings, path: Path, value: object) -> dict[str, Action] | None:
    """What to do when something happens to a run."""
    if not is_object(value):
        findings.add(path, "actions are an object", f"write {ACTION_EVENTS[0]}: {{type: skip}}")
        return None
    made: dict[str, Action] = {}
    for event, inner in value.items():
        if event not in ACTION_EVENTS:
            hint = findings.unknown_key(event, ACTION_EVENTS)
            findings.add((*path, event), f"there is no event '{event}'", hint, at_key=True)
        elif (action := _action(findings, (*path, event), event, inner)) is not None:
            made[event] = action
    return made


def _action(findings: Findings, path: Path, event: str, value: object) -> Action | None:
    types = tuple(PARAMETERS) if event == "on_constraint_violation" else AFTERWARDS
    if isinstance(value, str):
        value = {"type": value}

    def parameters(findings: Findings, at: Path, inner: object) -> dict[str, Any] | None:
        kind = value.get("type") if is_object(value) else None
        section = PARAMETERS.get(kind) if isinstance(kind, str) else None
        return None if section is None else read_section(findings, at, inner, section)

    keys = {"type": choice(*types), "critical": boolean, "parameters": parameters}
    read = read_section(findings, path, value, Section(keys, ("type",)))
    if read is None:
        return None
    needed = PARAMETERS[read["type"]].required
    if needed and is_object(value) and "parameters" not in value:
        hint = f"write parameters: {{{needed[0]}: …}}"
        findings.add(path, f"the action {read['type']} needs {', '.join(needed)} among its parameters", hint)
        return None
    return Action(**read)


def incoming(findings: Findings, path: Path, value: object) -> Incoming | None:
    """Who may start the workflow by a webhook."""
    read = read_section(findings, path, value, _INCOMING)
    return None if read is None else Incoming(**read)


def run_retry(findings: Findings, path: Path, value: object) -> RunRetry | None:
    """How often a failed run is started again; a number is short for so many retries."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"max_retries": value}
    read = read_section(findings, path, value, _RUN_RETRY)
    return None if read is None else RunRetry(**read)


def check_together(findings: Findings, top: Mapping[str, Any]) -> None:
    """Warn of what is written but can have no effect beside the rest."""
    bounds: Constraints | None = top.get("constraints")
    acts: Mapping[str, Action] = top.get("actions") or {}
    if bounds is not None and bounds.catch_up != "none" and "schedule" not in top:
        findings.warn(("constraints", "catch_up"), "without a schedule there are no missed slots", "add schedule: {…}")
    if "on_slow" in acts and (bounds is None or bounds.max_expected_run_time is None):
        message = "no run is ever slow: there is no max_expected_run_time"
        findings.warn(("actions", "on_slow"), message, "add it under constraints", at_key=True)
    if "on_constraint_violation" in acts and bounds is None:
        findings.warn(
            ("actions", "on_constraint_violation"), "there is no constraint", "add constraints: {…}", at_key=True
        )
    for event, action in acts.items():
        if action.type == "trigger_job" and action.parameters.get("workflow_id") == top.get("workflow_id"):
            message = f"with {event} this workflow starts itself again and again"
            findings.warn(("actions", event, "parameters", "workflow_id"), message, "name another workflow")
