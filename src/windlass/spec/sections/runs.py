"""The sections about runs: `constraints`, `actions`, `run_retry` and `hook`."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from windlass.core.durations import DAY_SECONDS
from windlass.core.fields import ID_RULE
from windlass.core.jobs import JOB_DEPTH_MAX
from windlass.core.runs.rules import (
    NO_CONSTRAINTS,
    Action,
    ActionEvent,
    ActionKind,
    CatchUp,
    Constraints,
    Hook,
    OnCheckError,
    RunRetry,
)
from windlass.core.templates.json_values import shown
from windlass.spec.definition import IncomingHookDefinition
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_integer
from windlass.spec.sections.fields import (
    ID,
    NAME,
    Read,
    Section,
    build,
    choice,
    duration,
    integer,
    matching,
    number,
    read_anything,
    read_boolean,
    read_object,
    read_section,
    read_template,
    struct_of,
)

HOOK_SECONDS_MAX = 300.0
HOOK_ATTEMPTS_MAX = 20
RETRIES_MAX = 1_000
URL_HINT = "write https://host/path"
# Only actions on a violation can decide about the run; the others notify another system.
NOTIFYING = (ActionKind.WEBHOOK.value, ActionKind.TRIGGER_JOB.value)
_URL = re.compile(r"https?://[^\s\\]{1,2000}", re.IGNORECASE)


def read_url(findings: Findings, path: Path, value: object) -> str:
    """Read an HTTP URL without credentials."""
    url: str = _read_url(findings, path, value)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        findings.reject(path, f"invalid URL: {shown(value)}", URL_HINT)
    if "@" in parts.netloc:
        # The message does not show the value, which contains a password.
        findings.reject(
            path, "URL with credentials: definitions are not secret", "sign with a `secret` instead"
        )
    if not parts.hostname or port == 0:
        findings.reject(path, f"URL without a host: {shown(value)}", URL_HINT)
    return url


def read_secret_name(findings: Findings, path: Path, value: object) -> str:
    """Read the name of a secret; reject the secret itself."""
    if str(value).startswith("whsec_"):
        message = (
            "a secret must be given by name: this is the key itself, and definitions are not secret"
        )
        findings.reject(path, message, "write the name of a secret in the worker's settings")
    return _read_secret_name(findings, path, value)


def read_catch_up(findings: Findings, path: Path, value: object) -> str:
    """Read which missed slots are started. `true` means all, `false` means none."""
    if value is True:
        return CatchUp.ALL.value
    if value is False:
        return CatchUp.NONE.value
    return _read_catch_up(findings, path, value)


def read_version(findings: Findings, path: Path, value: object) -> int | str:
    """Read the number of a version, or an alias."""
    if is_integer(value):
        return _read_version_number(findings, path, value)
    return _read_alias(findings, path, value)


def read_templates(findings: Findings, path: Path, value: object) -> dict[str, Any]:
    """Read an object with templates, which are rendered when the action is carried out."""
    found = read_object(findings, path, value)
    read_template(findings, path, found)
    return found


_read_url = matching(_URL, "URL", URL_HINT)
_read_secret_name = matching(NAME, "secret name", "use letters, digits and _, as in hook_key")
_read_catch_up = choice(*(policy.value for policy in CatchUp))
_read_version_number = integer(1, 1 << 31)
_read_alias = matching(ID, "version", "write a number or an alias")


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
        "start_timeout": duration(1.0),
        "pre_run_hook": struct_of(Hook, HOOK),
        "post_run_hook": struct_of(Hook, HOOK),
        "on_check_error": choice(*(decision.value for decision in OnCheckError)),
        "max_missed_heartbeats": integer(1, 1_000_000),
    },
    synonyms={
        "concurrency": "max_concurrent_runs",
        "catchup": "catch_up",
        "timeout": "max_allowed_run_time",
    },
)
RUN_RETRY = Section(
    {
        "max_retries": integer(0, RETRIES_MAX),
        "initial_delay": duration(0, 7 * DAY_SECONDS),
        "backoff_multiplier": number(1, 100),
        "max_delay": duration(0, 7 * DAY_SECONDS),
        "full": read_boolean,
    },
    synonyms={
        "max_attempts": "max_retries",
        "delay": "initial_delay",
        "multiplier": "backoff_multiplier",
    },
)
ACTION_PARAMETERS: Mapping[str, Section] = {
    "skip": Section({}),
    "retry_later": Section({"delay": duration(0.001), "max_times": integer(1, RETRIES_MAX)}),
    "kill_old": Section({}),
    "wait": Section({"timeout": duration(0.001)}),
    "webhook": HOOK,
    "trigger_job": Section(
        {
            "workflow_id": matching(ID, "workflow id", ID_RULE),
            "version": read_version,
            "input": read_templates,
        },
        required=("workflow_id",),
        synonyms={"workflow": "workflow_id", "job": "workflow_id", "input_data": "input"},
    ),
}


def read_constraints(findings: Findings, path: Path, value: object) -> Constraints:
    """Read the conditions for runs."""
    constraints = build(Constraints, read_section(findings, path, value, CONSTRAINTS))
    expected, allowed = constraints.max_expected_run_seconds, constraints.max_allowed_run_seconds
    if expected is not None and allowed is not None and expected >= allowed:
        message = f"max_expected_run_time has no effect: runs are stopped after {allowed:g} s"
        findings.warn((*path, "max_expected_run_time"), message, "make it shorter", at_key=True)
    return constraints


def read_actions(findings: Findings, path: Path, value: object) -> dict[str, Action]:
    """Read the actions on events of a run."""
    return read_section(findings, path, value, ACTIONS)


def _action_on(*kinds: str) -> Read:
    """Return a reader of an action of one of several kinds. The name of a kind is short for an action of it."""
    section = Section(
        {"type": choice(*kinds), "critical": read_boolean, "parameters": read_anything},
        required=("type",),
    )

    def read(findings: Findings, path: Path, value: object) -> Action:
        if isinstance(value, str):
            value = {"type": value}
        fields = read_section(findings, path, value, section)
        kind: str = fields["type"]
        required = ACTION_PARAMETERS[kind].required
        if required and "parameters" not in fields:
            hint = f"write parameters: {{{required[0]}: …}}"
            findings.reject(path, f"missing parameters: {kind} needs {', '.join(required)}", hint)
        given = fields.pop("parameters", {})
        parameters = read_section(findings, (*path, "parameters"), given, ACTION_PARAMETERS[kind])
        if kind == ActionKind.WEBHOOK.value:
            parameters = {"hook": build(Hook, parameters)}
        return build(Action, {**fields, **parameters})

    return read


_read_notifying_action = _action_on(*NOTIFYING)
ACTIONS = Section(
    {
        ActionEvent.CONSTRAINT_VIOLATION.value: _action_on(*ACTION_PARAMETERS),
        ActionEvent.FAILURE.value: _read_notifying_action,
        ActionEvent.SUCCESS.value: _read_notifying_action,
        ActionEvent.SLOW.value: _read_notifying_action,
    }
)
read_incoming_hook = struct_of(IncomingHookDefinition, INCOMING_HOOK)


def read_run_retry(findings: Findings, path: Path, value: object) -> RunRetry:
    """Read the retries of failed runs. An integer is short for that many retries."""
    if is_integer(value):
        value = {"max_retries": value}
    return build(RunRetry, read_section(findings, path, value, RUN_RETRY))


def check_runs(findings: Findings, workflow: Mapping[str, Any]) -> None:
    """Warn about rules without effect."""
    constraints: Constraints = workflow.get("constraints", NO_CONSTRAINTS)
    actions: Mapping[str, Action] = workflow.get("actions", {})
    if constraints.catch_up is not CatchUp.NONE and "schedule" not in workflow:
        message = "catch_up has no effect: there is no schedule"
        findings.warn(("constraints", "catch_up"), message, "add schedule: {…}")
    if ActionEvent.SLOW in actions and constraints.max_expected_run_seconds is None:
        message = "on_slow has no effect: there is no max_expected_run_time"
        findings.warn(("actions", "on_slow"), message, "add it under constraints", at_key=True)
    if ActionEvent.CONSTRAINT_VIOLATION in actions and "constraints" not in workflow:
        message = "on_constraint_violation has no effect: there are no constraints"
        findings.warn(
            ("actions", "on_constraint_violation"), message, "add constraints: {…}", at_key=True
        )
    for event, action in actions.items():
        if action.kind is ActionKind.TRIGGER_JOB and action.workflow_id == workflow.get(
            "workflow_id"
        ):
            message = f"{event} starts this workflow again"
            findings.warn(
                ("actions", event, "parameters", "workflow_id"),
                message,
                f"at most {JOB_DEPTH_MAX} jobs start one by another; name another workflow",
            )
