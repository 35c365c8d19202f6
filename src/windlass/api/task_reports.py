"""Reads what HTTP workers say about attempts: which one is meant, how it ended, and whether that can be stored."""

import math
import re
from typing import Annotated, Literal, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from windlass.api.problems import Refusal, invalid
from windlass.api.requests import Id, seconds_of, shown
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.core.sanitize import sanitized_context
from windlass.core.templates.json_values import DEPTH_MAX

META_BYTES_MAX = 64 << 10
MESSAGE_CHARS_MAX = 4096
TRACEBACK_CHARS_MAX = 8192
TYPE_CHARS_MAX = 128
TASK_ID_CHARS_MAX = 300
DURATION_MS_MAX = 365 * 86_400_000.0
RETRY_AFTER_SECONDS_MAX = 86_400.0
# What an error is called whose worker gave it no name.
UNNAMED = "task_failed"
NULL = Raw(b"null")

WorkerId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.@-]{1,128}$", max_length=128)]
TaskId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+(\[[0-9]{1,9}\])?_[0-9]{1,9}$", max_length=TASK_ID_CHARS_MAX)]
Attempt = Annotated[int, Meta(ge=0, le=10**9)]
Index = Annotated[int, Meta(ge=0, le=10**9)]
DurationMs = Annotated[float, Meta(ge=0, le=DURATION_MS_MAX)]

_SUFFIX = re.compile(r"(?:\[([0-9]{1,9})\])?_([0-9]{1,9})")
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1


class ErrorBody(Struct, frozen=True):
    """Why an attempt failed. `retry_after` is a number of seconds or a duration."""

    type: str = UNNAMED
    message: str = ""
    retryable: bool = True
    status: Annotated[int, Meta(ge=0, le=999)] | None = None
    retry_after: float | str | None = None
    traceback: str | None = None


class ResultBody(Struct, frozen=True):
    """How a task ended. Of a failed one `error` counts, of a completed one `output`."""

    task_id: TaskId
    job_id: Id
    node_id: Id
    status: Literal["completed", "failed"]
    worker_id: WorkerId
    output: Raw = field(default_factory=lambda: Raw(b"null"))
    error: ErrorBody | str | None = None
    meta: Raw = field(default_factory=lambda: Raw(b"null"))
    execution_duration_ms: DurationMs | None = None
    index: Index | None = None
    attempt: Attempt | None = None


class EmittedData(Struct, frozen=True):
    """The part of an emitted event's data that is understood."""

    result: Raw | UnsetType = UNSET
    error: ErrorBody | str | None = None
    # The `attempt` of the claimed task, and its `index` if its node is a loop.
    attempt_number: Attempt | None = None
    iteration_index: Index | None = None


class QueueMeta(Struct, frozen=True):
    """Who ran the task."""

    worker_id: WorkerId | None = None


class EmittedMeta(Struct, frozen=True):
    """The part of an emitted event's meta that is understood."""

    queue_meta: QueueMeta | None = None


class EmitBody(Struct, frozen=True):
    """An event of a worker. The job is named by `job_id` or `execution_id`; what is not listed here is passed over."""

    node_id: Id
    event_type: Literal["action_started", "action_completed", "action_failed"]
    job_id: Id | None = None
    execution_id: Id | int | None = None
    worker_id: WorkerId | None = None
    duration: Annotated[float, Meta(ge=0, le=DURATION_MS_MAX / 1000)] | None = None
    result: Raw | UnsetType = UNSET
    error: ErrorBody | str | None = None
    data: EmittedData | None = None
    meta: EmittedMeta | None = None
    # An object: the state of things as the worker sees it. It is stored with the event, without credentials.
    context: Raw = field(default_factory=lambda: Raw(b"null"))


def attempt_of(body: ResultBody) -> tuple[int | None, int]:
    """The index, if there is one, and the attempt that a task id names; Refusal when it names another task."""
    prefix = f"{body.job_id}_{body.node_id}"
    match = _SUFFIX.fullmatch(body.task_id, len(prefix)) if body.task_id.startswith(prefix) else None
    if match is None:
        raise invalid(
            "task_id",
            f"{shown(body.task_id)} is no task of node {body.node_id} in job {body.job_id}",
            "send task_id, job_id and node_id as they were claimed",
        )
    index = None if match[1] is None else int(match[1])
    attempt = int(match[2])
    if body.attempt is not None and body.attempt != attempt:
        raise invalid("attempt", f"{body.attempt} is not the attempt of {body.task_id}", "leave it out")
    if body.index is not None and body.index != (index or 0):
        raise invalid("index", f"{body.index} is not the index of {body.task_id}", "leave it out")
    return index, attempt


def outcome_of(body: ResultBody) -> Succeeded | Failed:
    """How the attempt ended, as the engine is told; Refusal for what cannot be stored."""
    meta = _meta(body.meta)
    if body.status == "failed":
        return Failed(error_of(body.error), meta)
    return Succeeded(NULL if body.output is UNSET else json_of(body.output, "output"), meta)


def error_of(given: ErrorBody | str | None) -> TaskError:
    """An error as told by a worker, its texts cut to what is kept."""
    if given is None:
        return TaskError(UNNAMED, "the worker gave no reason")
    if isinstance(given, str):
        return TaskError(UNNAMED, _cut(given, MESSAGE_CHARS_MAX))
    return TaskError(
        _cut(given.type, TYPE_CHARS_MAX) or UNNAMED,
        _cut(given.message, MESSAGE_CHARS_MAX),
        given.retryable,
        given.status,
        _retry_after(given.retry_after),
        None if given.traceback is None else _cut(given.traceback, TRACEBACK_CHARS_MAX),
    )


def context_of(given: Raw | UnsetType) -> Raw | None:
    """What a worker says about the state of things, as it is stored; Refusal for what is no object."""
    context = NULL if given is UNSET else json_of(given, "context")
    if context == NULL:
        return None
    if not bytes(context).startswith(b"{"):
        raise invalid("context", "it is no object", "send an object, or leave it out")
    return sanitized_context(context)


def json_of(value: Raw, path: str) -> Raw:
    """A value that was checked through and through, encoded anew; Refusal names what is wrong with it."""
    try:
        decoded: object = msgspec.json.decode(value)
    except RecursionError:
        raise _too_deep(path) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(path, f"this is no JSON that can be stored: {error}") from None
    _check(decoded, path)
    # Copied, or a small value would keep the whole body it was decoded from.
    return Raw(msgspec.json.encode(decoded))


def _check(value: object, path: str) -> None:
    level: list[object] = [value]
    for _depth in range(DEPTH_MAX):
        following: list[object] = []
        for item in level:
            if isinstance(item, dict):
                following.extend(cast("dict[str, object]", item).values())
            elif isinstance(item, list):
                following.extend(cast("list[object]", item))
            elif type(item) is int and not _INTEGER_MIN <= item <= _INTEGER_MAX:
                raise invalid(path, "it holds an integer beyond 64 bits", "pass it as text")
        if not following:
            return
        level = following
    raise _too_deep(path)


def _too_deep(path: str) -> Refusal:
    return invalid(path, f"it is nested deeper than {DEPTH_MAX} levels", "flatten it")


def _meta(given: Raw | UnsetType) -> Raw | None:
    meta = NULL if given is UNSET else json_of(given, "meta")
    if meta == NULL:
        return None
    if not bytes(meta).startswith(b"{"):
        raise invalid("meta", "it is no object", "send an object, or leave it out")
    if len(bytes(meta)) > META_BYTES_MAX:
        raise invalid("meta", f"it is larger than {META_BYTES_MAX} bytes", "put large values into the output")
    return meta


def _retry_after(given: float | str | None) -> float | None:
    if given is None:
        return None
    if isinstance(given, str):
        return seconds_of(given, "error.retry_after", RETRY_AFTER_SECONDS_MAX)
    if not (math.isfinite(given) and 0 <= given <= RETRY_AFTER_SECONDS_MAX):
        raise invalid("error.retry_after", f"{given:g} is no wait", f"send 0 to {RETRY_AFTER_SECONDS_MAX:.0f} seconds")
    return float(given)


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
