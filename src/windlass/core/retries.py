"""Whether a failed attempt is retried, and after which delay. Randomness comes in as a seed."""

from collections.abc import Mapping

import msgspec

from windlass.core.delays import exponential_delay
from windlass.core.errors import TemplateFailed
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import TaskError
from windlass.core.plan import Backoff, RetryOnError
from windlass.core.scopes import attempt_scope
from windlass.core.templates.template import is_true

# Losses of infrastructure: another attempt is made, which counts against redeliveries_max and not max_attempts.
LOSSES = frozenset({TaskError.WORKER_LOST, "node_lost", "pod_evicted", "pod_lost"})

# Those that a cluster reports, whose cause, for example a node under pressure, may last.
CLUSTER_LOSSES = LOSSES - {TaskError.WORKER_LOST}
# The delay after the first and the longest delay after further ones.
LOSS_DELAY_SECONDS = 1.0
LOSS_DELAY_SECONDS_MAX = 60.0

# The type of an attempt that no worker started in time.
START_TIMEOUT = "start_timeout"
RATE_LIMITED = "rate_limited"
# The type of a template that cannot be rendered, in the engine or, for a part of a large value, in the worker.
TEMPLATE_FAILED = "template_failed"
# The first delay after a rate-limited answer without Retry-After, if the author's initial delay is 0.
RATE_LIMITED_DELAY_SECONDS = 1.0

_SEED_SPAN = 1 << 32


# Classes of failures by the type or the status of the error; all others are "app".
FAILURE_CLASSES: Mapping[str | int | None, str] = {
    **dict.fromkeys(LOSSES, "infra"),
    "kubernetes_unavailable": "infra",
    "pod_start_timeout": "infra",
    START_TIMEOUT: "infra",
    "artifacts_unavailable": "infra",
    # The cluster has no room at present, which costs no attempt.
    "quota_exceeded": RATE_LIMITED,
    "timeout": "timeout",
    "cancelled": "cancelled",
    RATE_LIMITED: RATE_LIMITED,
    429: RATE_LIMITED,
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
        TaskError(type=TEMPLATE_FAILED, message=f"{place}: {failure}", retryable=False)
    )


def wants_retry(
    job: Job, attempt: Attempt, rule: RetryOnError, error: TaskError, attempts_made: int
) -> bool:
    """Whether the retry rule allows another attempt that counts."""
    return attempts_made < rule.attempts_max and is_retryable(
        job, attempt, rule, error, attempts_made
    )


def is_retryable(
    job: Job, attempt: Attempt, rule: RetryOnError, error: TaskError, attempts_made: int
) -> bool:
    """Whether an attempt may be repeated: by the rule's `when` if it has one, else by the kind of the error."""
    if error.type == TEMPLATE_FAILED:
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
    return _with_jitter(rule, wait, seed)


def loss_delay_seconds(losses: int) -> float:
    """Return the delay before the attempt after a number of losses that a cluster reported."""
    return min(exponential_delay(LOSS_DELAY_SECONDS, 2.0, losses), LOSS_DELAY_SECONDS_MAX)


def rate_limited_delay_seconds(
    rule: RetryOnError, answers: int, retry_after_seconds: float | None, seed: int
) -> float:
    """Return the delay after a number of rate-limited answers: Retry-After, or else growing, plus jitter."""
    wait = retry_after_seconds or 0.0
    if wait <= 0.0:
        initial = rule.initial_delay_seconds or RATE_LIMITED_DELAY_SECONDS
        wait = exponential_delay(initial, rule.multiplier, answers)
        wait = min(wait, max(rule.max_delay_seconds, initial))
    return _with_jitter(rule, wait, seed)


def _with_jitter(rule: RetryOnError, wait: float, seed: int) -> float:
    return wait * (1.0 + rule.jitter * ((seed % _SEED_SPAN) / _SEED_SPAN))


def encoded(error: TaskError) -> msgspec.Raw:
    """Return the error as JSON."""
    return msgspec.Raw(msgspec.json.encode(error))
