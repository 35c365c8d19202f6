"""The replay's rules for attempts of nodes and iterations: dispatched, started, retried, finished, lost."""

from typing import Any

import msgspec

from simulation.replay.state import OUT, Findings, ReplayedNode, ReplayedUnit, data_of, describe
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import Backoff, RetryOnError

_DELAY_SLACK = 1e-6
_TIMEOUT_GRACE_SECONDS = 30.0
# Events that may be about a node or an iteration without an attempt.
WITHOUT_LINK = frozenset({
    "node_failed", "node_skipped", "node_cancelled", "iteration_failed", "iteration_skipped", "iteration_cancelled",
})  # fmt: skip
# Errors that do not come from the handler: the node's retry rule does not apply to them.
_NOT_FROM_HANDLER = frozenset({
    "upstream_failed", "template_failed", "worker_lost", "merge_failed", "chunk_invalid", "output_too_large",
    "artifact_not_found", "pages_exhausted",
})  # fmt: skip
# Losses that a cluster reports: the next attempt follows after a growing delay and costs none.
_POD_LOSSES = frozenset({"node_lost", "pod_evicted", "pod_lost"})
_POD_LOSS_DELAY_SECONDS_MAX = 60.0
# Errors that a worker reports although the handler did not fail.
_HANDLER_DID_NOT_FAIL = (*_NOT_FROM_HANDLER, "timeout", "artifacts_unavailable", "sink_failed")


def dispatch(findings: Findings, node: ReplayedNode, unit: ReplayedUnit, event: Event) -> None:
    """Dispatch the next attempt."""
    attempt = data_of(event).get("attempt_number", 0)
    if attempt != unit.attempt + 1:
        findings.report("I3", f"{describe(event)} is attempt {attempt} after {unit.attempt}")
    is_loop_itself = unit.index is None and unit.plan.loop is not None
    allowed = 1 if is_loop_itself else unit.plan.on_error.attempts_max
    if attempt - unit.attempts_before > allowed:
        findings.report("I3", f"{describe(event)} exceeds the {allowed} allowed attempts")
    unit.attempt = attempt
    unit.dispatched_at = event.at
    node.work_units[unit.index, attempt] = (unit.index, node.generation, len(unit.answers) + 1)
    if unit.answers:
        node.follows[unit.index, attempt] = unit.answers[-1]


def check_link(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Check that an event of a later attempt links to the first start, and one of the first attempt to nothing."""
    attempt = unit.attempt
    if event.type.endswith(("_ready", "_dispatched")):
        attempt += 1
    expected = unit.first_seq if attempt > unit.attempt_first else None
    if event.parent_seq != expected:
        findings.report(
            "I26", f"{describe(event)} links to event {event.parent_seq}, not to {expected}"
        )


def lose(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Record the loss of the worker that held the attempt, which the next worker starts again."""
    losses = data_of(event).get("losses", 0)
    if unit.state not in OUT:
        findings.report("I1", f"{describe(event)} in state {unit.state}")
    if not unit.losses < losses <= unit.plan.redeliveries_max + 1:
        findings.report("I3", f"{describe(event)} counts {losses} losses after {unit.losses}")
    unit.losses = losses
    unit.was_just_lost = True
    if losses <= unit.plan.redeliveries_max:
        unit.state = "dispatched"
        unit.started_at = unit.worker_id = None


def end_wait(findings: Findings, unit: ReplayedUnit, event: Event, *, was_lost: bool) -> None:
    """End the wait before an attempt."""
    findings.check_due(event, unit.due_at, "the end of its wait")
    unit.attempts_before += was_lost
    unit.error = unit.due_at = unit.started_at = unit.worker_id = None


def start(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Start the attempt."""
    check_attempt(findings, unit, event)
    unit.started_at = event.at
    unit.first_seq = unit.first_seq or event.seq
    unit.worker_id = data_of(event).get("worker_id")


def retry_or_request_next(
    findings: Findings, node: ReplayedNode, unit: ReplayedUnit, event: Event
) -> None:
    """Schedule another attempt, by the rule for errors or the rule for responses."""
    check_attempt(findings, unit, event)
    _check_meta(findings, unit, event)
    if _meta_of(event).get("retry", {}).get("retry_type") == "on_success":
        _request_next(findings, unit, event)
    else:
        _retry(findings, node, unit, event)


def _retry(findings: Findings, node: ReplayedNode, unit: ReplayedUnit, event: Event) -> None:
    data = data_of(event)
    rule = unit.plan.on_error
    made = unit.attempt - unit.attempts_before
    error, delay = data.get("error", {}), data.get("delay_seconds", -1.0)
    _record_failure(node, unit, error)
    _check_timeout(findings, unit, event, error)
    unit.worker_id = data.get("worker_id")
    least = _declared_delay(rule, made, error.get("retry_after_seconds") or 0.0)
    jitter = rule.jitter
    if error.get("type") in _POD_LOSSES:
        unit.losses += 1
        if unit.losses > unit.plan.redeliveries_max:
            findings.report("I3", f"{describe(event)} after {unit.losses} losses")
        least, jitter = min(2.0 ** (unit.losses - 1), _POD_LOSS_DELAY_SECONDS_MAX), 0.0
        unit.attempts_before += 1
    elif _is_uncounted(unit, event, error, delay):
        least = _rate_limited_delay(rule, unit, error)
        unit.rate_limited_at = unit.rate_limited_at or event.at
        unit.rate_limits += 1
        unit.attempts_before += 1
    elif made >= rule.attempts_max:
        findings.report("I3", f"{describe(event)} after {made} of {rule.attempts_max} attempts")
    most = least * (1 + jitter)
    if not least - _DELAY_SLACK <= delay <= most + _DELAY_SLACK:
        findings.report(
            "I23", f"{describe(event)} waits {delay} s; declared: {least} s, jitter {jitter}"
        )
    if rule.when is None and not error.get("retryable", True):
        findings.report("I3", f"{describe(event)} although its error is not retryable")
    unit.error = error
    unit.due_at = event.at + round(delay * MICROSECONDS)


def is_rate_limited(error: dict[str, Any]) -> bool:
    """Return whether a server refused an attempt because there were too many."""
    return error.get("type") in ("rate_limited", "quota_exceeded") or error.get("status") == 429


def _is_uncounted(
    unit: ReplayedUnit, event: Event, error: dict[str, Any], delay_seconds: float
) -> bool:
    """Return whether a rate-limited attempt is repeated within the time for such attempts."""
    waited = event.at - (unit.rate_limited_at or event.at) + round(delay_seconds * MICROSECONDS)
    rule = unit.plan.on_error
    bound = round(rule.rate_limited_max_seconds * MICROSECONDS)
    # A shorter delay is that of an attempt that counts, cut by max_delay.
    least = _rate_limited_delay(rule, unit, error) - _DELAY_SLACK
    return is_rate_limited(error) and waited <= bound and delay_seconds >= least


def _rate_limited_delay(rule: RetryOnError, unit: ReplayedUnit, error: dict[str, Any]) -> float:
    if error.get("retry_after_seconds"):
        return error["retry_after_seconds"]
    initial = rule.initial_delay_seconds or 1.0
    return min(initial * rule.multiplier**unit.rate_limits, max(rule.max_delay_seconds, initial))


def _request_next(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    data, rule = data_of(event), unit.plan.on_success
    if rule is None:
        findings.report("I1", f"{describe(event)} makes a further call without a rule")
        return
    unit.answers.append(unit.attempt)
    unit.worker_id = data.get("worker_id")
    made = len(unit.answers)
    if made >= rule.calls_max or data.get("calls") != made:
        findings.report(
            "I3",
            f"{describe(event)} follows call {data.get('calls')}; it is {made} of {rule.calls_max}",
        )
    delay = data.get("delay_seconds")
    if delay != rule.delay_seconds:
        findings.report(
            "I23", f"{describe(event)} waits {delay} s; declared: {rule.delay_seconds} s"
        )
    unit.attempts_before = unit.attempt
    unit.losses = unit.rate_limits = 0
    unit.rate_limited_at = None
    unit.due_at = event.at + round(rule.delay_seconds * MICROSECONDS)


def end_pagination(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Record that all pages were requested and their outputs are merged."""
    data, rule = data_of(event), unit.plan.on_success
    unit.answers.append(unit.attempt)
    made = len(unit.answers)
    if rule is None or data.get("total_attempts") != made:
        findings.report(
            "I3", f"{describe(event)} counts {data.get('total_attempts')} calls, there were {made}"
        )
    elif data.get("is_exhausted") and made != rule.calls_max:
        findings.report(
            "I3", f"{describe(event)} after {made} calls, {rule.calls_max} were allowed"
        )
    unit.is_merging = unit.is_answered = True
    unit.is_exhausted = bool(data.get("is_exhausted"))


def complete(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Accept the output."""
    check_attempt(findings, unit, event)
    if unit.index is None and unit.plan.loop is not None:
        return
    unit.worker_id = data_of(event).get("worker_id")
    _check_meta(findings, unit, event)
    if _has_too_many_pages(unit):
        findings.report("I32", f"{describe(event)} although there were more pages")
    if unit.is_merging != (unit.plan.on_success is not None):
        findings.report("I1", f"{describe(event)} before its pagination was over")
    unit.is_merging = False


def _has_too_many_pages(unit: ReplayedUnit) -> bool:
    rule = unit.plan.on_success
    return unit.is_exhausted and rule is not None and rule.on_exhausted == "fail"


def fail(findings: Findings, node: ReplayedNode, unit: ReplayedUnit, event: Event) -> None:
    """Fail the unit without a further attempt."""
    data = data_of(event)
    error: dict[str, Any] = data.get("error") or {}
    unit.attempt = data.get("attempt_number", unit.attempt)
    unit.error = error
    unit.worker_id = data.get("worker_id", unit.worker_id)
    unit.is_merging = False
    _record_failure(node, unit, error)
    _check_timeout(findings, unit, event, error)
    kind = error.get("type")
    if (kind == "pages_exhausted") != _has_too_many_pages(unit):
        findings.report("I32", f"{describe(event)} with {kind}, more pages: {unit.is_exhausted}")
    if event.meta is not None:
        _check_meta(findings, unit, event)
    made, rule = unit.attempt - unit.attempts_before, unit.plan.on_error
    is_loss = kind in _POD_LOSSES
    if is_loss:
        unit.losses += 1
        if unit.losses <= unit.plan.redeliveries_max:
            findings.report("I3", f"{describe(event)} after {unit.losses} losses")
    is_retryable = error.get("retryable", True) and kind not in _NOT_FROM_HANDLER and not is_loss
    may_wait = rule.rate_limited_max_seconds > 0 and unit.rate_limited_at is None
    longest = _rate_limited_delay(rule, unit, error) * (1 + rule.jitter)
    has_time = may_wait and longest <= rule.rate_limited_max_seconds
    if is_rate_limited(error) and is_retryable and rule.when is None and has_time:
        findings.report("I32", f"{describe(event)} although its server only limits the rate")
    if is_retryable and rule.when is None and made < rule.attempts_max:
        findings.report("I3", f"{describe(event)} after {made} of {rule.attempts_max} attempts")
    if kind == "worker_lost" and unit.losses <= unit.plan.redeliveries_max:
        findings.report(
            "I3",
            f"{describe(event)} after {unit.losses} of {unit.plan.redeliveries_max} allowed losses",
        )


def _check_timeout(
    findings: Findings, unit: ReplayedUnit, event: Event, error: dict[str, Any]
) -> None:
    """Check that the core gave up no attempt before its timeout, counted from its last start."""
    if (
        error.get("type") == "timeout"
        and error.get("without_result")
        and unit.started_at is not None
    ):
        due_at = unit.started_at + round(
            (unit.plan.timeout_seconds + _TIMEOUT_GRACE_SECONDS) * MICROSECONDS
        )
        findings.check_due(event, due_at, "the timeout of its attempt")


def _check_meta(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Check that the end of an attempt says what its retry rules decided about this attempt."""
    has_config = unit.plan.on_error.attempts_max > 1 or unit.plan.on_success is not None
    will_retry = event.type.endswith("_retrying")
    expected = (has_config, data_of(event).get("attempt_number"), will_retry)
    retry = _meta_of(event).get("retry")
    if retry is None:
        if has_config or will_retry:
            findings.report("I26", f"{describe(event)} does not say what its retry rules decided")
        return
    stated = (retry.get("has_config"), retry.get("attempt_number"), retry.get("will_retry"))
    if stated != expected:
        findings.report("I26", f"{describe(event)} says {stated} about retries, not {expected}")


def _meta_of(event: Event) -> dict[str, Any]:
    if event.meta is None:
        return {}
    return msgspec.json.decode(event.meta)


def check_attempt(findings: Findings, unit: ReplayedUnit, event: Event) -> None:
    """Report an event that is not about the dispatched attempt."""
    attempt = data_of(event).get("attempt_number")
    if attempt != unit.attempt:
        findings.report(
            "I6", f"{describe(event)} is about attempt {attempt}, dispatched was {unit.attempt}"
        )


def _record_failure(node: ReplayedNode, unit: ReplayedUnit, error: dict[str, Any]) -> None:
    if not str(error.get("type")).startswith(_HANDLER_DID_NOT_FAIL):
        node.failed.add((unit.index, unit.attempt))


def _declared_delay(rule: RetryOnError, attempts_made: int, retry_after_seconds: float) -> float:
    growth = {
        Backoff.FIXED: 1.0,
        Backoff.LINEAR: float(attempts_made),
        Backoff.EXPONENTIAL: rule.multiplier ** (attempts_made - 1),
    }
    return min(
        max(rule.initial_delay_seconds * growth[rule.backoff], retry_after_seconds),
        rule.max_delay_seconds,
    )
