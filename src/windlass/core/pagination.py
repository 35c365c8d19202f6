"""Pagination and polling: further pages after an attempt that succeeded. Each page has attempts like any other task."""

from typing import Any

import msgspec
from msgspec import Raw

from windlass.core import dispatch
from windlass.core.artifacts import INLINE_BYTES_MAX, is_reference
from windlass.core.changes import CallOutputRow, MergeOutputs
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.json_text import NULL
from windlass.core.loop_state import Attempt
from windlass.core.messages import OutputsMerged, Succeeded, TaskError, TaskFinished
from windlass.core.outcomes import complete, fail
from windlass.core.plan import Collect, RetryOnSuccess
from windlass.core.retries import classified
from windlass.core.scopes import attempt_scope
from windlass.core.states import NodeMove
from windlass.core.templates.json_values import is_list, is_mapping, kind_of, merged
from windlass.core.templates.template import is_true
from windlass.core.timers import set_attempt_timer
from windlass.core.turn import RETRYING, SEQUENCE_COMPLETED, Turn, execution_meta, json_raw

MERGE_FAILED = "merge_failed"


def take_answer(turn: Turn, attempt: Attempt, outcome: Succeeded, message: TaskFinished) -> None:
    """Request the next page after an attempt that succeeded, or end the pagination."""
    job = turn.job
    rule = job.plan.nodes[attempt.node].on_success
    assert rule is not None
    made = attempt.calls + 1
    try:
        response = job.value_of(outcome.output)
        part = _part(rule, response, outcome.output)
        names = {"response": response, "attempt": made}
        has_more = is_true(rule.condition.value(attempt_scope(job, rule.condition, attempt, names)))
        is_continued = has_more and made < rule.calls_max
        patch = _patch(turn, attempt, rule, response, made) if is_continued else NULL
    except TemplateFailed as failure:
        text = f"retry.on_success: {failure}"
        fail(turn, attempt, classified(TaskError("template_failed", text, retryable=False)))
        return
    if isinstance(part, TaskError):
        fail(turn, attempt, classified(part))
        return
    if is_continued:
        _store_part(turn, attempt, rule, made, part)
        _request_next(turn, attempt, rule, made, patch)
    else:
        _end(turn, attempt, rule, made, part, outcome, message, is_exhausted=has_more)


def _part(rule: RetryOnSuccess, response: object, output: Raw) -> Raw | TaskError:
    """Return the part of a response that is collected."""
    if rule.collect is not Collect.APPEND:
        return output
    value = response
    for at, key in enumerate(rule.merge_path):
        if not is_mapping(value) or key not in value:
            place = ".".join(rule.merge_path[: at + 1])
            return TaskError(
                MERGE_FAILED,
                f"merge_path not found in the response: {place}; correct merge_path",
                retryable=False,
            )
        value = value[key]
    if not is_list(value):
        place = ".".join(rule.merge_path) or "the response"
        text = (
            f"not a list: {place} is {kind_of(value)}; correct merge_path, or use collect: collect"
        )
        return TaskError(MERGE_FAILED, text, retryable=False)
    return json_raw(value)


def _patch(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, response: Any, made: int) -> Raw:
    """Return the changes to the params so far, merged with those that follow from this response."""
    if rule.next_call is None:
        return attempt.patch
    scope = attempt_scope(
        turn.job, rule.next_call, attempt, {"response": response, "attempt": made}
    )
    rendered = rule.next_call.render(scope)
    if not attempt.calls:
        return rendered
    return json_raw(merged(msgspec.json.decode(attempt.patch), msgspec.json.decode(rendered)))


def _store_part(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, made: int, part: Raw) -> None:
    if rule.collect is not Collect.REPLACE:
        job = turn.job
        generation = job.generations.get(attempt.node, 0)
        row = CallOutputRow(job.id, attempt.node, generation, attempt.index, made, part)
        turn.changes.call_outputs.append(row)


def _request_next(
    turn: Turn, attempt: Attempt, rule: RetryOnSuccess, made: int, patch: Raw
) -> None:
    attempt.calls = made
    attempt.patch = patch
    # Each page has its own attempts and redeliveries.
    attempt.attempts_before = attempt.number
    attempt.losses = 0
    attempt.due_at = turn.now + round(rule.delay_seconds * MICROSECONDS)
    turn.transition(attempt, NodeMove.BACK_OFF)
    data = {
        "attempt_number": attempt.number,
        "next_attempt": attempt.number + 1,
        "delay_seconds": rule.delay_seconds,
        "calls": made,
    }
    kind = "pagination" if rule.next_call is not None else "polling"
    retry = {
        "type": "on_success",
        "attempt_number": made + 1,
        "max_attempts": rule.calls_max,
        "continuation": kind,
    }
    turn.emit_attempt(
        attempt,
        RETRYING,
        json_raw(data),
        meta=json_raw({"retry": retry}),
        parent_seq=attempt.first_seq,
    )
    if rule.delay_seconds:
        turn.save(attempt)
        set_attempt_timer(turn, attempt)
    else:
        dispatch.dispatch_again(turn, attempt)


def _end(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, made: int, part: Raw, outcome: Succeeded,
         message: TaskFinished, *, is_exhausted: bool) -> None:  # fmt: skip
    data = {
        "total_attempts": made,
        "collect": rule.collect.name.lower(),
        "is_exhausted": is_exhausted,
    }
    execution = execution_meta(message.microseconds)
    if rule.collect is Collect.REPLACE or (made == 1 and _is_small(part)):
        turn.emit_attempt(attempt, SEQUENCE_COMPLETED, json_raw(data), parent_seq=attempt.first_seq)
        output = part if rule.collect is not Collect.COLLECT else Raw(b"[" + bytes(part) + b"]")
        complete(turn, attempt, output, outcome.meta, execution)
        return
    _store_part(turn, attempt, rule, made, part)
    attempt.calls = made
    attempt.is_merging = True
    turn.transition(attempt, NodeMove.BACK_OFF)
    turn.emit_attempt(
        attempt, SEQUENCE_COMPLETED, json_raw(data), meta=execution, parent_seq=attempt.first_seq
    )
    turn.save(attempt)
    _request_merge(turn, attempt)


def _is_small(part: Raw) -> bool:
    return not is_reference(part) and len(memoryview(part)) < INLINE_BYTES_MAX


def _request_merge(turn: Turn, attempt: Attempt) -> None:
    """Request the merge of all pages."""
    turn.changes.merges.append(_merge_request(turn.job, attempt))


def pending_merges(job: Job) -> list[MergeOutputs]:
    """Return the merges that a job waits for, to be requested again after a recovery."""
    return [
        _merge_request(job, attempt) for attempt in job.current_attempts() if attempt.is_merging
    ]


def _merge_request(job: Job, attempt: Attempt) -> MergeOutputs:
    plan = job.plan.nodes[attempt.node]
    assert plan.on_success is not None
    spliced = plan.on_success.collect is Collect.APPEND
    generation = job.generations.get(attempt.node, 0)
    return MergeOutputs(
        job.id,
        plan.id,
        attempt.node,
        generation,
        attempt.index,
        attempt.calls,
        spliced,
        attempt.number,
    )


def take_parts(turn: Turn, attempt: Attempt, message: OutputsMerged) -> None:
    """Complete a paginated node or iteration with the merged outputs."""
    attempt.is_merging = False
    if message.error is not None:
        fail(turn, attempt, classified(message.error))
    else:
        complete(turn, attempt, message.output, None, None)
