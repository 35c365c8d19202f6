"""Whether a failed attempt is made again, and after how long. Chance comes in as a seed."""

from collections.abc import Mapping

import msgspec

from windlass.core.errors import TemplateFailed
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.plan import Backoff, NodePlan, RetryOnError
from windlass.core.templates.template import is_true

WORKER_LOST = "worker_lost"
# What an attempt ran on is gone: another attempt is made, on the budget of losses and not of the author's.
LOSSES = frozenset({WORKER_LOST, "node_lost", "pod_evicted", "pod_lost"})

_SEED_SPAN = 1 << 32
_EXPONENT_MAX = 64


# What is to blame for an error, by its type or its status; any other is the application's own.
FAILURE_CLASSES: Mapping[str | int | None, str] = {
    **dict.fromkeys(LOSSES, "infra"),
    "kubernetes_unavailable": "infra",
    "pod_start_timeout": "infra",
    "artifacts_unavailable": "infra",
    "timeout": "timeout",
    "cancelled": "cancelled",
    "rate_limited": "rate_limited",
    429: "rate_limited",
}


def classified(error: TaskError) -> TaskError:
    """The error with its class, whoever reported it."""
    found = FAILURE_CLASSES.get(error.type) or FAILURE_CLASSES.get(error.status) or "app"
    return error if error.failure_class == found else msgspec.structs.replace(error, failure_class=found)


def template_error(place: str, failure: TemplateFailed) -> TaskError:
    """A template that could not be rendered: never worth another attempt."""
    return classified(TaskError(type="template_failed", message=f"{place}: {failure}", retryable=False))


def retry_meta(plan: NodePlan, attempts_made: int, will_retry: bool | None) -> dict[str, object] | None:
    """What an attempt's event says about the author's rules; None when there are none."""
    if plan.on_error.attempts_max == 1 and plan.on_success is None:
        return None
    kind = "on_error" if will_retry is not None or plan.on_success is None else "on_success"
    attempts_max = plan.on_error.attempts_max
    if kind == "on_success" and plan.on_success is not None:
        attempts_max = plan.on_success.calls_max
    meta: dict[str, object] = {
        "has_config": True,
        "attempt_number": attempts_made,
        "max_attempts": attempts_max,
        "retry_type": kind,
    }
    return meta if will_retry is None else {**meta, "will_retry": will_retry}


def wants_retry(job: Job, attempt: Attempt, rule: RetryOnError, error: TaskError, attempts_made: int) -> bool:
    """Whether the author's rule asks for another attempt; a `when` decides alone, else the error's own nature does."""
    if attempts_made >= rule.attempts_max:
        return False
    if rule.when is None:
        return error.retryable
    described = {
        "type": error.type,
        "message": error.message,
        "status": error.status,
        "retryable": error.retryable,
        "failure_class": error.failure_class,
    }
    names = {"error": described, "attempt": attempts_made}
    try:
        return is_true(rule.when.value(job.scope_of(rule.when, attempt, names)))
    except TemplateFailed:
        # A broken rule cannot ask for anything: the attempt's own error is what the author must see.
        return False


def delay_seconds(rule: RetryOnError, attempts_made: int, retry_after_seconds: float | None, seed: int) -> float:
    """The wait before the next attempt: at least what the server asked for, at most the rule's bound, plus jitter."""
    wait = rule.initial_delay_seconds
    if rule.backoff is Backoff.LINEAR:
        wait *= attempts_made
    elif rule.backoff is Backoff.EXPONENTIAL:
        wait *= rule.multiplier ** min(attempts_made - 1, _EXPONENT_MAX)
    wait = min(max(wait, retry_after_seconds or 0.0), rule.max_delay_seconds)
    return wait * (1.0 + rule.jitter * ((seed % _SEED_SPAN) / _SEED_SPAN))


def encoded(error: TaskError) -> msgspec.Raw:
    """The error as JSON, for rows and events."""
    return msgspec.Raw(msgspec.json.encode(error))
