"""Parsing of reports of HTTP workers: the attempt, its outcome, and the JSON to store."""

from typing import cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from windlass.api.problems import HttpProblem, invalid
from windlass.api.requests import quoted, read_duration
from windlass.core.durations import DAY_SECONDS
from windlass.core.ids import TaskId
from windlass.core.json_text import NULL
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.core.report_limits import (
    ERROR_MESSAGE_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    META_BYTES_MAX,
    shortened_traceback,
)
from windlass.core.sanitize import sanitized_context
from windlass.core.templates.json_values import DEPTH_MAX
from windlass.core.text import shortened
from windlass.wire.tasks import UNNAMED_ERROR, TaskErrorRequest, TaskResultRequest

ERROR_TYPE_CHARS_MAX = 128
RETRY_AFTER_SECONDS_MAX = DAY_SECONDS


def task_id_of(body: TaskResultRequest) -> TaskId:
    """Return the task that a result is about; HttpProblem if the ids do not match."""
    task_id = _parsed(body.task_id)
    if task_id is None or (task_id.job_id, task_id.node_id) != (body.job_id, body.node_id):
        raise invalid(
            "task_id",
            f"not a task of node {body.node_id} in job {body.job_id}: {quoted(body.task_id)}",
            "send task_id, job_id and node_id of the claimed task",
        )
    if task_id.attempt == 0:
        raise invalid(
            "task_id",
            f"attempts are counted from 1: {body.task_id}",
            "send the task_id of the claimed task",
        )
    if body.attempt not in (None, task_id.attempt):
        raise invalid("attempt", f"not the attempt of {body.task_id}: {body.attempt}", "omit it")
    if body.index not in (None, task_id.index or 0):
        raise invalid("index", f"not the index of {body.task_id}: {body.index}", "omit it")
    return task_id


def _parsed(task_id: str) -> TaskId | None:
    try:
        return TaskId.parse(task_id)
    except ValueError:
        return None


def outcome_of(body: TaskResultRequest) -> Succeeded | Failed:
    """Return the outcome of a result; HttpProblem if it cannot be stored."""
    meta = _meta(body.meta)
    if body.status == "failed":
        return Failed(error_of(body.error), meta)
    return Succeeded(NULL if body.output is UNSET else json_of(body.output, "output"), meta)


def error_of(given: TaskErrorRequest | str | None) -> TaskError:
    """Return the error of a report with shortened texts."""
    if given is None:
        return TaskError(UNNAMED_ERROR, "no reason given by the worker")
    if isinstance(given, str):
        return TaskError(UNNAMED_ERROR, shortened(given, ERROR_MESSAGE_CHARS_MAX))
    traceback: str | None = None
    if given.traceback is not None:
        traceback = shortened_traceback(given.traceback)
    return TaskError(
        type=shortened(given.type, ERROR_TYPE_CHARS_MAX) or UNNAMED_ERROR,
        message=shortened(given.message, ERROR_MESSAGE_CHARS_MAX),
        retryable=given.retryable,
        status=given.status,
        retry_after_seconds=_retry_after(given.retry_after),
        traceback=traceback,
    )


def context_of(given: Raw | UnsetType) -> Raw | None:
    """Return the context of an event without credentials; HttpProblem if it is not an object."""
    context = _object_of(given, "context")
    if context is None:
        return None
    return sanitized_context(context)


def _object_of(given: Raw | UnsetType, path: str) -> Raw | None:
    """Return an object that can be stored; None if it is absent or null."""
    if given is UNSET:
        return None
    value = json_of(given, path)
    if value == NULL:
        return None
    if not bytes(value).startswith(b"{"):
        raise invalid(path, "not an object", "send an object, or omit it")
    return value


def json_of(value: Raw, path: str) -> Raw:
    """Return a value that can be stored, encoded again; HttpProblem if it cannot."""
    try:
        decoded: object = msgspec.json.decode(value)
    except RecursionError:
        raise _too_deep(path) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(path, f"invalid JSON: {error}") from None
    _check(decoded, path)
    # A copy, because a slice would keep the whole body in memory.
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
            elif type(item) is int and not INTEGER_MIN <= item <= INTEGER_MAX:
                raise invalid(path, "integer beyond 64 bits", "send it as text")
        if not following:
            return
        level = following
    raise _too_deep(path)


def _too_deep(path: str) -> HttpProblem:
    return invalid(path, f"nested deeper than {DEPTH_MAX} levels", "flatten it")


def _meta(given: Raw | UnsetType) -> Raw | None:
    meta = _object_of(given, "meta")
    if meta is not None and len(bytes(meta)) > META_BYTES_MAX:
        raise invalid(
            "meta", f"larger than {META_BYTES_MAX} bytes", "move large values to the output"
        )
    return meta


def _retry_after(given: float | str | None) -> float | None:
    if given is None:
        return None
    return read_duration(given, "error.retry_after", RETRY_AFTER_SECONDS_MAX)
