"""The sections about runs: `constraints`, `actions`, `run_retry` and `hook`."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from windlass.core.runs.rules import Action, ActionEvent, ActionKind, CatchUp, Constraints, Hook, OnCheckError, RunRetry
from windlass.core.templates.json_values import kind_of, shown
from windlass.spec.definition import IncomingHookDefinition
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_integer, is_object
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    ID,
    ID_RULE,
    NAME,
    Section,
    build,
    choice,
    duration,
    integer,
    matching,
    number,
    read_boolean,
    read_section,
)
from windlass.spec.sections.schedules import read_input_object

HOOK_SECONDS_MAX = 300.0
HOOK_ATTEMPTS_MAX = 20
RETRIES_MAX = 1_000
URL_HINT = "write https://host/path"
ACTION_EVENTS = tuple(event.value for event in ActionEvent)
# Only actions on a violation can decide about the run; the others notify another system.
NOTIFYING = (ActionKind.WEBHOOK.value, ActionKind.TRIGGER_JOB.value)
_URL = re.compile(r"https?://[^\s\\]{1,2000}", re.IGNORECASE)


def read_url(findings: Findings, path: Path, value: object) -> str | None:
    """Read an HTTP URL without credentials."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        findings.add(path, f"invalid URL: {shown(value)}", URL_HINT)
        return None
    try:
        parts = urlsplit(value)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        findings.add(path, f"invalid URL: {shown(value)}", URL_HINT)
        return None
    if "@" in parts.netloc:
        # The message does not show the value, which contains a password.
        findings.add(path, "URL with credentials: definitions are not secret", "sign with a `secret` instead")
        return None
    if not has_host:
        findings.add(path, f"URL without a host: {shown(value)}", URL_HINT)
        return None
    return value


_read_secret_name = matching(NAME, "secret name", "use letters, digits and _, as in hook_key")


def read_secret_name(findings: Findings, path: Path, value: object) -> str | None:
    """Read the name of a secret; reject the secret itself."""
    if isinstance(value, str) and value.startswith("whsec_"):
        message = "a secret must be given by name: this is the key itself, and definitions are not secret"
        findings.add(path, message, "write the name of a secret in the worker's settings")
        return None
    return _read_secret_name(findings, path, value)


def read_hook(findings: Findings, path: Path, value: object) -> Hook | None:
    """Read a webhook call before or after a run."""
    fields = read_section(findings, path, value, HOOK)
    return None if fields is None else build(Hook, fields)


def read_catch_up(findings: Findings, path: Path, value: object) -> str | None:
    """Read which missed slots are started. `true` means all, `false` means none."""
    if value is True:
        return CatchUp.ALL.value
    if value is False:
        return CatchUp.NONE.value
    return _read_catch_up(findings, path, value)


_read_catch_up = choice(*(policy.value for policy in CatchUp))


def read_version(findings: Findings, path: Path, value: object) -> int | str | None:
    """Read the number of a version, or an alias."""
    if is_integer(value):
        return integer(1, 1 << 31)(findings, path, value)
    return matching(ID, "version", "write a number or an alias")(findings, path, value)


HOOK = Section(
    {
        "url": read_url,
        "secret": read_secret_name,
        "timeout": duration(0.1, HOOK_SECONDS_MAX),
        "max_attempts": integer(1, HOOK_ATTEMPTS_MAX),
    },
    required=("url",),
)
INCOMING_HOOK = Section({"secret": read_secret_name}, required=("secret",))
CONSTRAINTS = Section(
    {
        "max_concurrent_runs": integer(1, 10_000),
        "require_previous_success": read_boolean,
        "catch_up": read_catch_up,
        "catch_up_window": duration(0),
        "max_expected_run_time": duration(0.001),
        "max_allowed_run_time": duration(0.001),
        "pre_run_hook": read_hook,
        "post_run_hook": read_hook,
        "on_check_error": choice(*(decision.value for decision in OnCheckError)),
        "max_missed_heartbeats": integer(1, 1_000_000),
    },
    synonyms={"concurrency": "max_concurrent_runs", "catchup": "catch_up", "timeout": "max_allowed_run_time"},
)
RUN_RETRY = Section(
    {
        "max_retries": integer(0, RETRIES_MAX),
        "initial_delay": duration(0, 7 * DAY_SECONDS),
        "backoff_multiplier": number(1, 100),
        "max_delay": duration(0, 7 * DAY_SECONDS),
        "full": read_boolean,
    },
    synonyms={"max_attempts": "max_retries", "delay": "initial_delay", "multiplier": "backoff_multiplier"},
)
ACTION_PARAMETERS: Mapping[str, Section] = {
    "skip": Section({}),
    "retry_later": Section({"delay": duration(0.001), "max_times": integer(1, RETRIES_MAX)}),
    "kill_old": Section({}),
    "wait": Section({"timeout": duration(0.001)}),
    "webhook": HOOK,
    "trigger_job": Section(
        {"workflow_id": matching(ID, "workflow id", ID_RULE), "version": read_version, "input": read_input_object},
        required=("workflow_id",),
        synonyms={"workflow": "workflow_id", "job": "workflow_id", "input_data": "input"},
    ),
}


def read_constraints(findings: Findings, path: Path, value: object) -> Constraints | None:
    """Read the conditions for runs."""
    fields = read_section(findings, path, value, CONSTRAINTS)
    if fields is None:
        return None
    expected, allowed = fields.get("max_expected_run_time"), fields.get("max_allowed_run_time")
    if expected is not None and allowed is not None and expected >= allowed:
        message = f"max_expected_run_time has no effect: runs are stopped after {allowed:g} s"
        findings.warn((*path, "max_expected_run_time"), message, "make it shorter", at_key=True)
    return build(Constraints, fields)


def read_actions(findings: Findings, path: Path, value: object) -> dict[str, Action] | None:
    """Read the actions on events of a run."""
    if not is_object(value):
        findings.add(path, f"must be an object: {kind_of(value)}", f"write {ACTION_EVENTS[0]}: {{type: skip}}")
        return None
    actions: dict[str, Action] = {}
    for event, inner in value.items():
        if event not in ACTION_EVENTS:
            findings.add_unknown_key((*path, event), ACTION_EVENTS)
            continue
        action = _read_action(findings, (*path, event), event, inner)
        if action is not None:
            actions[event] = action
    return actions


def _read_action(findings: Findings, path: Path, event: str, value: object) -> Action | None:
    if isinstance(value, str):
        value = {"type": value}
    kinds = tuple(ACTION_PARAMETERS) if event == ActionEvent.CONSTRAINT_VIOLATION else NOTIFYING
    parameters = None
    if is_object(value):
        parameters = ACTION_PARAMETERS.get(str(value.get("type")))

    def read_parameters(findings: Findings, path: Path, value: object) -> dict[str, Any] | None:
        # With an unknown type, nothing is known about the parameters.
        return None if parameters is None else read_section(findings, path, value, parameters)

    keys = {"type": choice(*kinds), "critical": read_boolean, "parameters": read_parameters}
    fields = read_section(findings, path, value, Section(keys, required=("type",)))
    if fields is None or parameters is None or not is_object(value):
        return None
    if parameters.required and "parameters" not in value:
        required = ", ".join(parameters.required)
        hint = f"write parameters: {{{parameters.required[0]}: …}}"
        findings.add(path, f"missing parameters: {fields['type']} needs {required}", hint)
        return None
    given = fields.pop("parameters", {})
    if fields["type"] == ActionKind.WEBHOOK.value:
        return build(Action, {**fields, "hook": build(Hook, given)}) if given else None
    return build(Action, {**fields, **given})


def read_incoming_hook(findings: Findings, path: Path, value: object) -> IncomingHookDefinition | None:
    """Read which webhooks may start the workflow."""
    fields = read_section(findings, path, value, INCOMING_HOOK)
    return None if fields is None else build(IncomingHookDefinition, fields)


def read_run_retry(findings: Findings, path: Path, value: object) -> RunRetry | None:
    """Read the retries of failed runs. An integer is short for that many retries."""
    if is_integer(value):
        value = {"max_retries": value}
    fields = read_section(findings, path, value, RUN_RETRY)
    return None if fields is None else build(RunRetry, fields)


def check_runs(findings: Findings, workflow: Mapping[str, Any]) -> None:
    """Warn about rules without effect."""
    constraints: Constraints | None = workflow.get("constraints")
    actions: Mapping[str, Action] = workflow.get("actions") or {}
    if constraints is not None and constraints.catch_up is not CatchUp.NONE and "schedule" not in workflow:
        message = "catch_up has no effect: there is no schedule"
        findings.warn(("constraints", "catch_up"), message, "add schedule: {…}")
    if ActionEvent.SLOW in actions and (constraints is None or constraints.max_expected_run_seconds is None):
        message = "on_slow has no effect: there is no max_expected_run_time"
        findings.warn(("actions", "on_slow"), message, "add it under constraints", at_key=True)
    if ActionEvent.CONSTRAINT_VIOLATION in actions and constraints is None:
        message = "on_constraint_violation has no effect: there are no constraints"
        findings.warn(("actions", "on_constraint_violation"), message, "add constraints: {…}", at_key=True)
    for event, action in actions.items():
        if action.kind is ActionKind.TRIGGER_JOB and action.workflow_id == workflow.get("workflow_id"):
            message = f"endless loop: {event} starts this workflow again"
            findings.warn(("actions", event, "parameters", "workflow_id"), message, "name another workflow")
