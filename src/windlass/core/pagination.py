"""Pagination and polling: further pages after an attempt that succeeded. Each page has attempts like any other task."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core import dispatch
from windlass.core.artifacts import INLINE_BYTES_MAX, is_reference
from windlass.core.attempt_meta import page_meta
from windlass.core.changes import CallOutputRow, MergeOutputs
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import OutputsMerged, Succeeded, TaskError, TaskFinished
from windlass.core.outcomes import complete, fail
from windlass.core.plan import FAIL_EXHAUSTED, Collect, RetryOnSuccess
from windlass.core.retries import TEMPLATE_FAILED, classified
from windlass.core.scopes import attempt_scope
from windlass.core.states import NodeMove
from windlass.core.templates.json_values import is_list, is_mapping, kind_of, merged
from windlass.core.templates.template import is_true
from windlass.core.timers import set_attempt_timer
from windlass.core.turn import RETRYING, SEQUENCE_COMPLETED, Turn, json_raw

MERGE_FAILED = "merge_failed"
PAGES_EXHAUSTED = "pages_exhausted"


class _Answer(Struct, frozen=True):
    """What a response means: the part of it that is collected, and what follows."""

    part: Raw
    has_more: bool
    # The changes to the params of the next page; None if no page follows.
    patch: Raw | None


def take_answer(turn: Turn, attempt: Attempt, outcome: Succeeded, message: TaskFinished) -> None:
    """Request the next page after an attempt that succeeded, or end the pagination."""
    rule = turn.job.plan.nodes[attempt.node].on_success
    assert rule is not None
    page = attempt.calls + 1
    answer = _judge(turn, attempt, rule, outcome, page)
    if isinstance(answer, TaskError):
        end_meta = page_meta(rule, attempt, message, page, will_retry=False)
        fail(turn, attempt, classified(answer), end_meta)
        return
    end_meta = page_meta(rule, attempt, message, page, will_retry=answer.patch is not None)
    attempt.calls = page
    if answer.patch is not None:
        _store_part(turn, attempt, rule, answer.part)
        attempt.patch = answer.patch
        _request_next(turn, attempt, rule, end_meta)
    else:
        attempt.is_exhausted = answer.has_more
        _end(turn, attempt, rule, answer.part, outcome.meta, end_meta)


def _judge(
    turn: Turn, attempt: Attempt, rule: RetryOnSuccess, outcome: Succeeded, page: int
) -> _Answer | TaskError:
    """Apply the rule to a response."""
    job = turn.job
    try:
        response = job.value_of(outcome.output)
        part = _part(rule, response, outcome.output)
        names = {"response": response, "attempt": page}
        has_more = is_true(rule.condition.value(attempt_scope(job, rule.condition, attempt, names)))
        patch = None
        if has_more and page < rule.calls_max:
            patch = _patch(turn, attempt, rule, response, page)
    except TemplateFailed as failure:
        return TaskError(TEMPLATE_FAILED, f"retry.on_success: {failure}", retryable=False)
    if isinstance(part, TaskError):
        return part
    return _Answer(part, has_more, patch)


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


def _patch(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, response: Any, page: int) -> Raw:
    """Return the changes to the params so far, merged with those that follow from this response."""
    if rule.next_call is None:
        return attempt.patch
    scope = attempt_scope(
        turn.job, rule.next_call, attempt, {"response": response, "attempt": page}
    )
    rendered = rule.next_call.render(scope)
    if not attempt.calls:
        return rendered
    return json_raw(merged(msgspec.json.decode(attempt.patch), msgspec.json.decode(rendered)))


def _store_part(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, part: Raw) -> None:
    if rule.collect is not Collect.REPLACE:
        job = turn.job
        generation = job.generations.get(attempt.node, 0)
        row = CallOutputRow(job.id, attempt.node, generation, attempt.index, attempt.calls, part)
        turn.changes.call_outputs.append(row)


def _request_next(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, end_meta: Raw | None) -> None:
    # Each page has its own attempts and redeliveries.
    attempt.attempts_before = attempt.number
    attempt.losses = attempt.rate_limits = 0
    attempt.rate_limited_at = None
    attempt.backoff_seconds = 0.0
    attempt.due_at = turn.now + round(rule.delay_seconds * MICROSECONDS)
    turn.transition(attempt, NodeMove.BACK_OFF)
    data = {
        "attempt_number": attempt.number,
        "next_attempt": attempt.number + 1,
        "delay_seconds": rule.delay_seconds,
        "worker_id": attempt.worker_id,
        "calls": attempt.calls,
    }
    turn.emit_attempt(attempt, RETRYING, json_raw(data), meta=end_meta)
    if rule.delay_seconds:
        turn.save(attempt)
        set_attempt_timer(turn, attempt)
    else:
        dispatch.dispatch_again(turn, attempt)


def _end(turn: Turn, attempt: Attempt, rule: RetryOnSuccess, part: Raw, worker_meta: Raw | None,
         end_meta: Raw | None) -> None:  # fmt: skip
    """End the pages: complete the node or iteration, merge the pages first, or fail if there were too many."""
    is_failed = attempt.is_exhausted and rule.on_exhausted == FAIL_EXHAUSTED
    is_single = rule.collect is Collect.REPLACE or (attempt.calls == 1 and _is_small(part))
    data = {
        "total_attempts": attempt.calls,
        "collect": rule.collect.name.lower(),
        "is_exhausted": attempt.is_exhausted,
    }
    if not is_failed and not is_single:
        _store_part(turn, attempt, rule, part)
        attempt.is_merging = True
        attempt.page_meta, attempt.end_meta = worker_meta, end_meta
        turn.transition(attempt, NodeMove.BACK_OFF)
        turn.emit_attempt(attempt, SEQUENCE_COMPLETED, json_raw(data))
        turn.save(attempt)
        turn.changes.merges.append(_merge_request(turn.job, attempt))
        return
    turn.emit_attempt(attempt, SEQUENCE_COMPLETED, json_raw(data))
    meta = _meta_with_pages(rule, attempt, worker_meta)
    if is_failed:
        text = f"more pages than max_attempts: {attempt.calls}; raise it, or write on_exhausted: complete"
        error = TaskError(PAGES_EXHAUSTED, text, retryable=False)
        fail(turn, attempt, classified(error), end_meta, meta)
        return
    output = part if rule.collect is not Collect.COLLECT else Raw(b"[" + bytes(part) + b"]")
    complete(turn, attempt, output, meta, end_meta)


def _is_small(part: Raw) -> bool:
    return not is_reference(part) and len(memoryview(part)) < INLINE_BYTES_MAX


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
    rule = turn.job.plan.nodes[attempt.node].on_success
    assert rule is not None
    worker_meta, end_meta = attempt.page_meta, attempt.end_meta
    attempt.page_meta = attempt.end_meta = None
    attempt.is_merging = False
    if message.error is not None:
        fail(turn, attempt, classified(message.error), end_meta)
    else:
        meta = _meta_with_pages(rule, attempt, worker_meta)
        complete(turn, attempt, message.output, meta, end_meta)


def _meta_with_pages(rule: RetryOnSuccess, attempt: Attempt, worker_meta: Raw | None) -> Raw:
    """Return the meta of the last page with the number of pages, and whether the server had more of them."""
    retry = {
        "retry_type": "on_success",
        "pages": attempt.calls,
        "max_attempts": rule.calls_max,
        "is_exhausted": attempt.is_exhausted,
    }
    values: dict[str, Any] = {}
    if worker_meta is not None:
        values = msgspec.json.decode(worker_meta, type=dict[str, Any])
    return json_raw({**values, "retry": retry})
