"""The replay's rules for attempts, of nodes and of iterations alike: dispatched, started, retried, answered, lost."""

from typing import Any

import msgspec

from simulation.replay.state import OUT, Folded, FoldedNode, Notes, data_of, told
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import Backoff, RetryOnError

_DELAY_SLACK = 1e-6
# Failures that say nothing about the handler: the author's rule of retries does not apply to them.
_NOT_THE_HANDLERS = frozenset({
    "upstream_failed", "template_failed", "worker_lost", "merge_failed", "chunk_invalid", "output_too_large",
    "artifact_not_found",
})  # fmt: skip
# Besides those, what a worker reports of an attempt without its handler having failed.
_NO_FAILURE = (*_NOT_THE_HANDLERS, "timeout", "artifacts_unavailable", "sink_failed")


def dispatch(notes: Notes, node: FoldedNode, unit: Folded, event: Event) -> None:
    """The next attempt goes out."""
    attempt = data_of(event).get("attempt_number", 0)
    if attempt != unit.attempt + 1:
        notes.blame("I3", f"{told(event)} is attempt {attempt} after {unit.attempt}")
    if event.parent_seq != unit.first_seq:
        notes.blame("I26", f"{told(event)} links to event {event.parent_seq}, the first is {unit.first_seq}")
    allowed = 1 if unit.index is None and unit.plan.loop is not None else unit.plan.on_error.attempts_max
    if attempt - unit.attempts_before > allowed:
        notes.blame("I3", f"{told(event)} is more than the {allowed} attempts allowed")
    unit.attempt = attempt
    unit.dispatched_at = event.at
    node.pieces[unit.index, attempt] = (unit.index, node.generation, len(unit.answers) + 1)
    if unit.answers:
        node.follows[unit.index, attempt] = unit.answers[-1]


def lose(notes: Notes, unit: Folded, event: Event) -> None:
    """The worker that held an attempt is gone."""
    losses = data_of(event).get("losses", 0)
    if unit.state not in OUT:
        notes.blame("I1", f"{told(event)} although it is {unit.state}")
    if not unit.losses < losses <= unit.plan.redeliveries_max + 1:
        notes.blame("I3", f"{told(event)} counts {losses} losses after {unit.losses}")
    unit.losses = losses
    unit.lost_just_now = True


def leave(notes: Notes, unit: Folded, event: Event, *, was_lost: bool) -> None:
    """The wait before an attempt is over, or the attempt before it was lost."""
    notes.check_due(event, unit.due_at, "its wait is over")
    unit.attempts_before += was_lost
    unit.error = unit.due_at = unit.started_at = unit.worker_id = None


def start(notes: Notes, unit: Folded, event: Event) -> None:
    """An attempt began."""
    check_attempt(notes, unit, event)
    unit.started_at = event.at
    unit.worker_id = data_of(event).get("worker_id")


def end_or_retry(notes: Notes, node: FoldedNode, unit: Folded, event: Event) -> None:
    """Another attempt follows, by one of the author's two rules."""
    check_attempt(notes, unit, event)
    meta: dict[str, Any] = {} if event.meta is None else msgspec.json.decode(event.meta)
    if meta.get("retry", {}).get("type") == "on_success":
        _call_again(notes, unit, event)
    else:
        _retry(notes, node, unit, event)


def _retry(notes: Notes, node: FoldedNode, unit: Folded, event: Event) -> None:
    data = data_of(event)
    rule = unit.plan.on_error
    made = unit.attempt - unit.attempts_before
    if made >= rule.attempts_max:
        notes.blame("I3", f"{told(event)} after {made} of {rule.attempts_max} attempts")
    error, delay = data.get("error", {}), data.get("delay_seconds", -1.0)
    _note_failure(node, unit, error)
    least = _declared_delay(rule, made, error.get("retry_after_seconds") or 0.0)
    if not least - _DELAY_SLACK <= delay <= least * (1 + rule.jitter) + _DELAY_SLACK:
        notes.blame("I23", f"{told(event)} waits {delay} s, declared are {least} s and jitter {rule.jitter}")
    if rule.when is None and not error.get("retryable", True):
        notes.blame("I3", f"{told(event)} although its error cannot get better")
    unit.error, unit.due_at = error, event.at + round(delay * MICROSECONDS)


def _call_again(notes: Notes, unit: Folded, event: Event) -> None:
    data, rule = data_of(event), unit.plan.on_success
    if rule is None:
        notes.blame("I1", f"{told(event)} asks for a further call, and there is no rule for one")
        return
    unit.answers.append(unit.attempt)
    made = len(unit.answers)
    if made >= rule.calls_max or data.get("calls") != made:
        notes.blame("I3", f"{told(event)} follows call {data.get('calls')}, it is {made} of {rule.calls_max}")
    if data.get("delay_seconds") != rule.delay_seconds:
        notes.blame("I23", f"{told(event)} waits {data.get('delay_seconds')} s, declared are {rule.delay_seconds} s")
    unit.attempts_before = unit.attempt
    unit.losses = 0
    unit.due_at = event.at + round(rule.delay_seconds * MICROSECONDS)


def end_series(notes: Notes, unit: Folded, event: Event) -> None:
    """All calls of a series were made; what they brought is put together."""
    data, rule = data_of(event), unit.plan.on_success
    unit.answers.append(unit.attempt)
    if rule is None or data.get("total_attempts") != len(unit.answers):
        notes.blame("I3", f"{told(event)} counts {data.get('total_attempts')} calls, there were {len(unit.answers)}")
    elif data.get("is_exhausted") and len(unit.answers) != rule.calls_max:
        notes.blame("I3", f"{told(event)} after {len(unit.answers)} calls, {rule.calls_max} were allowed")
    unit.is_gathering = unit.is_answered = True


def complete(notes: Notes, unit: Folded, event: Event) -> None:
    """The output was taken."""
    check_attempt(notes, unit, event)
    if unit.index is None and unit.plan.loop is not None:
        return
    if unit.is_gathering != (unit.plan.on_success is not None):
        notes.blame("I1", f"{told(event)} before its series of calls was over")
    unit.is_gathering = False


def fail(notes: Notes, node: FoldedNode, unit: Folded, event: Event) -> None:
    """No further attempt follows."""
    data = data_of(event)
    error: dict[str, Any] = data.get("error") or {}
    unit.attempt = data.get("attempt_number", unit.attempt)
    unit.error, unit.is_gathering = error, False
    kind = error.get("type")
    _note_failure(node, unit, error)
    made, rule = unit.attempt - unit.attempts_before, unit.plan.on_error
    retryable = error.get("retryable", True) and kind not in _NOT_THE_HANDLERS
    if retryable and rule.when is None and made < rule.attempts_max:
        notes.blame("I3", f"{told(event)} after {made} of {rule.attempts_max} attempts")
    if kind == "worker_lost" and unit.losses <= unit.plan.redeliveries_max:
        notes.blame("I3", f"{told(event)} after {unit.losses} losses of {unit.plan.redeliveries_max} that are allowed")


def check_attempt(notes: Notes, unit: Folded, event: Event) -> None:
    """An event is about the attempt that is out."""
    attempt = data_of(event).get("attempt_number")
    if attempt != unit.attempt:
        notes.blame("I6", f"{told(event)} is about attempt {attempt}, dispatched was {unit.attempt}")


def _note_failure(node: FoldedNode, unit: Folded, error: dict[str, Any]) -> None:
    if not str(error.get("type")).startswith(_NO_FAILURE):
        node.failed.add((unit.index, unit.attempt))


def _declared_delay(rule: RetryOnError, attempts_made: int, retry_after_seconds: float) -> float:
    growth = {
        Backoff.FIXED: 1.0,
        Backoff.LINEAR: float(attempts_made),
        Backoff.EXPONENTIAL: rule.multiplier ** (attempts_made - 1),
    }
    return min(max(rule.initial_delay_seconds * growth[rule.backoff], retry_after_seconds), rule.max_delay_seconds)
