"""The metadata of an attempt's end in its event: how long it ran, what its retry rules say, what its sink wrote."""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import Attempt
from windlass.core.messages import Succeeded, TaskFinished
from windlass.core.plan import NodePlan, RetryOnSuccess


class _WorkerMeta(Struct, frozen=True):
    """The part of a worker's metadata that the event repeats."""

    sink: Raw | UnsetType = UNSET


_encode = msgspec.json.Encoder().encode
_decode_worker_meta = msgspec.json.Decoder(_WorkerMeta).decode


@lru_cache(maxsize=4_096)
def execution_meta(microseconds: int | None) -> Raw | None:
    """Return the metadata of an attempt of a plain node that ran so long; None if that is not known."""
    if microseconds is None:
        return None
    return Raw(b'{"execution":{"duration_seconds":%.6f}}' % (microseconds / MICROSECONDS))


def failure_meta(
    plan: NodePlan, attempt: Attempt, message: TaskFinished | None, *, will_retry: bool
) -> Raw | None:
    """Return the metadata of an attempt that failed; without a message, its worker did not report it."""
    retry = None
    # Rate-limited attempts are repeated without a rule, too.
    if will_retry or _has_retry_rules(plan):
        retry = _retry_on_error(plan, attempt, will_retry=will_retry)
    return _encoded(message, retry)


def success_meta(plan: NodePlan, attempt: Attempt, message: TaskFinished) -> Raw | None:
    """Return the metadata of an attempt that completed a node or an iteration without pages."""
    retry = None
    if _has_retry_rules(plan):
        retry = _retry_on_error(plan, attempt, will_retry=False)
    return _encoded(message, retry)


def page_meta(
    rule: RetryOnSuccess, attempt: Attempt, message: TaskFinished, page: int, *, will_retry: bool
) -> Raw | None:
    """Return the metadata of an attempt that brought a page; `will_retry` says whether another one follows."""
    retry = {
        "has_config": True,
        "attempt_number": attempt.number,
        "max_attempts": rule.calls_max,
        "retry_type": "on_success",
        "will_retry": will_retry,
        "page": page,
    }
    if will_retry:
        retry["continuation"] = continuation(rule)
    return _encoded(message, retry)


def continuation(rule: RetryOnSuccess) -> str:
    """Return what further calls are for."""
    return "polling" if rule.next_call is None else "pagination"


def _has_retry_rules(plan: NodePlan) -> bool:
    return plan.on_error.attempts_max > 1 or plan.on_success is not None


def _retry_on_error(plan: NodePlan, attempt: Attempt, *, will_retry: bool) -> dict[str, Any]:
    return {
        "has_config": _has_retry_rules(plan),
        "attempt_number": attempt.number,
        "max_attempts": plan.on_error.attempts_max,
        "retry_type": "on_error",
        "will_retry": will_retry,
    }


def _encoded(message: TaskFinished | None, retry: dict[str, Any] | None) -> Raw | None:
    microseconds, sink = None, UNSET
    if message is not None:
        microseconds, sink = message.microseconds, _sink_of(message)
    if retry is None and sink is UNSET:
        return execution_meta(microseconds)
    meta: dict[str, Any] = {}
    if microseconds is not None:
        meta["execution"] = {"duration_seconds": microseconds / MICROSECONDS}
    if retry is not None:
        meta["retry"] = retry
    if sink is not UNSET:
        meta["sink"] = sink
    return Raw(_encode(meta))


def _sink_of(message: TaskFinished) -> Raw | UnsetType:
    if not isinstance(message.outcome, Succeeded) or message.outcome.meta is None:
        return UNSET
    return _decode_worker_meta(message.outcome.meta).sink
