"""Whether a failed attempt is made again, and after how long. Chance comes in as a seed."""

import msgspec

from windlass.core.errors import TemplateFailed
from windlass.core.job import Job
from windlass.core.messages import TaskError
from windlass.core.plan import Backoff, RetryOnError
from windlass.core.templates import is_true

# Losses of infrastructure have a budget of their own and never use up the author's attempts.
REDELIVERIES_MAX = 5
WORKER_LOST = "worker_lost"

_SEED_SPAN = 1 << 32
_EXPONENT_MAX = 64


def wants_retry(job: Job, rule: RetryOnError, error: TaskError, attempts_made: int) -> bool:
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
    }
    try:
        return is_true(rule.when.value(job.scope(rule.when, error=described, attempt=attempts_made)))
    except TemplateFailed:
        # A broken rule can not ask for anything: the attempt's own error is what the author must see.
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
