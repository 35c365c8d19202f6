"""The `retry` section of a node: rules for failed and for successful attempts."""

from typing import Any

from windlass.core.durations import DAY_SECONDS
from windlass.core.plan import (
    COMPLETE_EXHAUSTED,
    FAIL_EXHAUSTED,
    Backoff,
    Collect,
    RetryOnError,
    RetryOnSuccess,
)
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_integer, is_object
from windlass.spec.sections.fields import (
    Section,
    build,
    choice,
    duration,
    integer,
    number,
    read_condition,
    read_key_path,
    read_object_template,
    read_section,
    struct_of,
)

ATTEMPTS_MAX = 1_000
REDELIVERIES_MAX = 100
CALLS_MAX = 1_000_000

_read_attempts = integer(1, ATTEMPTS_MAX)
ON_ERROR = Section(
    {
        "max_attempts": _read_attempts,
        "backoff": choice(*(backoff.value for backoff in Backoff)),
        "initial_delay": duration(0, 7 * DAY_SECONDS),
        "multiplier": number(1, 100),
        "max_delay": duration(0, 7 * DAY_SECONDS),
        "jitter": number(0, 1),
        "when": read_condition,
        "max_rate_limited": duration(0, 30 * DAY_SECONDS),
    }
)
ON_SUCCESS = Section(
    {
        "while": read_condition,
        "next_call": read_object_template,
        "collect": choice(*(collect.value for collect in Collect)),
        "merge_path": read_key_path,
        "max_attempts": integer(1, CALLS_MAX),
        "delay": duration(0, 7 * DAY_SECONDS),
        "on_exhausted": choice(COMPLETE_EXHAUSTED, FAIL_EXHAUSTED),
    },
    required=("while",),
    synonyms={"when": "while", "next": "next_call", "interval": "delay", "path": "merge_path"},
)


def read_on_error(findings: Findings, path: Path, value: object) -> RetryOnError:
    """Read the rule for failed attempts. An integer is short for that many attempts."""
    if is_integer(value):
        return RetryOnError(attempts_max=_read_attempts(findings, path, value))
    fields = read_section(findings, path, value, ON_ERROR)
    rule = build(RetryOnError, fields)
    if rule.max_delay_seconds >= rule.initial_delay_seconds:
        return rule
    if "max_delay" in fields:
        message = f"max_delay is less than initial_delay: {rule.max_delay_seconds:g} s"
        hint = f"write at least {rule.initial_delay_seconds:g} s, or remove max_delay"
        findings.add((*path, "max_delay"), message, hint)
    return build(RetryOnError, {**fields, "max_delay": rule.initial_delay_seconds})


RETRY = Section(
    {
        "on_error": read_on_error,
        "on_success": struct_of(RetryOnSuccess, ON_SUCCESS),
        "max_redeliveries": integer(0, REDELIVERIES_MAX),
    }
)


def read_retry(findings: Findings, path: Path, value: object) -> dict[str, Any]:
    """Read the retry rules of a node. An integer is short for that many attempts."""
    if is_integer(value):
        return {"on_error": read_on_error(findings, path, value)}
    if is_object(value) and RETRY.keys.keys().isdisjoint(value):
        misplaced = [key for key in value if key in ON_ERROR.keys]
        if misplaced:
            message = f"key in the wrong section: '{misplaced[0]}' belongs under on_error"
            findings.reject(path, message, "write retry: {on_error: {…}}, or retry: 3")
    return read_section(findings, path, value, RETRY)


def check_merge_path(findings: Findings, path: Path, node: dict[str, Any]) -> None:
    """Warn about a merge path without effect. A sink takes its rows from that path, so it has an effect there."""
    rule: RetryOnSuccess | None = node.get("retry", {}).get("on_success")
    if rule is None or not rule.merge_path or rule.collect is Collect.APPEND or "sink" in node:
        return
    message = f"merge_path has no effect: collect is {rule.collect.value}"
    hint = "write collect: append, or remove merge_path"
    findings.warn((*path, "retry", "on_success", "merge_path"), message, hint, at_key=True)
