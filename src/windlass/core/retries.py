"""Whether a failed attempt is retried, and after which delay. Randomness comes in as a seed."""

from collections.abc import Mapping

import msgspec

from windlass.core.delays import exponential_delay
from windlass.core.errors import TemplateFailed
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.plan import Backoff, NodePlan, RetryOnError
from windlass.core.scopes import attempt_scope
from windlass.core.templates.template import is_true

# Losses of infrastructure: another attempt is made, which counts against redeliveries_max and not max_attempts.
LOSSES = frozenset({TaskError.WORKER_LOST, "node_lost", "pod_evicted", "pod_lost"})

_SEED_SPAN = 1 << 32


# Classes of failures by the type or the status of the error; all others are "app".
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
    """Return the error with its failure class."""
    found = FAILURE_CLASSES.get(error.type) or FAILURE_CLASSES.get(error.status) or "app"
    return (
        error
        if error.failure_class == found
        else msgspec.structs.replace(error, failure_class=found)
    )


def template_error(place: str, failure: TemplateFailed) -> TaskError:
    """Return the error of a template that cannot be rendered. It is never retried."""
    return classified(
        TaskError(type="template_failed", message=f"{place}: {failure}", retryable=False)
    )


def retry_meta(
    plan: NodePlan, attempts_made: int, will_retry: bool | None
) -> dict[str, object] | None:
    """Return what an event says about the retry rules of its node; None without rules."""
    if plan.on_error.attempts_max == 1 and plan.on_success is None:
        return None
    kind, attempts_max = "on_error", plan.on_error.attempts_max
    if will_retry is None and plan.on_success is not None:
        kind, attempts_max = "on_success", plan.on_success.calls_max
    meta: dict[str, object] = {
        "has_config": True,
        "attempt_number": attempts_made,
        "max_attempts": attempts_max,
        "retry_type": kind,
    }
    return meta if will_retry is None else {**meta, "will_retry": will_retry}


def wants_retry(
    job: Job, attempt: Attempt, rule: RetryOnError, error: TaskError, attempts_made: int
) -> bool:
    """Whether the retry rule allows another attempt: by its `when` if it has one, else by the kind of the error."""
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
        return is_true(rule.when.value(attempt_scope(job, rule.when, attempt, names)))
    except TemplateFailed:
        # The author must see the error of the attempt, not the error of the rule.
        return False


def delay_seconds(
    rule: RetryOnError, attempts_made: int, retry_after_seconds: float | None, seed: int
) -> float:
    """Return the delay before the next attempt: at least Retry-After, at most max_delay, plus jitter."""
    wait = rule.initial_delay_seconds
    if rule.backoff is Backoff.LINEAR:
        wait *= attempts_made
    elif rule.backoff is Backoff.EXPONENTIAL:
        wait = exponential_delay(wait, rule.multiplier, attempts_made)
    wait = min(max(wait, retry_after_seconds or 0.0), rule.max_delay_seconds)
    return wait * (1.0 + rule.jitter * ((seed % _SEED_SPAN) / _SEED_SPAN))


def encoded(error: TaskError) -> msgspec.Raw:
    """Return the error as JSON."""
    return msgspec.Raw(msgspec.json.encode(error))
