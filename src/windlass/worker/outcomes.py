"""Converts what a handler returned or raised to the outcome that a worker reports."""

import math
import re
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.core.changes import Task
from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.core.json_length import is_longer_than
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.core.report_limits import (
    ERROR_MESSAGE_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    META_BYTES_MAX,
    shortened_traceback,
)
from windlass.core.text import shortened
from windlass.ports.handler import Handler
from windlass.ports.task_params import PARAMS_INVALID

NAMES_LISTED_MAX = 5
PATH_CHARS_MAX = 200

TIMEOUT = "timeout"
CANCELLED = "cancelled"
OUTPUT_INVALID = "output_invalid"
HANDLER_NOT_FOUND = "handler_not_found"

# The encoder silently accepts NaN (as null), numeric keys (as strings) and integers beyond 64 bits. Only an output
# whose JSON may contain one of these is walked. With all digits mapped to one character, they are found by plain
# searches: 1.6 us for an output of 200 bytes and 180 us for 60 KB; a regular expression takes 8 us and 2.4 ms (timeit).
_DIGITS_TO_ZERO = bytes.maketrans(b"{123456789.-", b",00000000000")
_LONG_INTEGER = b"0" * 19
_ADVICE = (
    "store the data elsewhere and return a reference, or raise the setting artifacts.bytes_max"
)
_CLEAN_TYPES = frozenset({str, bool})
_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode


class OutputInvalid(Exception):
    """The output of a handler cannot be stored as JSON."""


def succeeded(output: object, meta: Mapping[str, Any] | None, bytes_max: int) -> Succeeded | Failed:
    """Return the outcome of a handler that returned; Failed if its output or meta cannot be stored."""
    try:
        encoded = encode_json(output, "the handler returned", bytes_max, _ADVICE)
        return Succeeded(Raw(encoded), _encode_meta(meta))
    except OutputInvalid as error:
        return Failed(TaskError(OUTPUT_INVALID, str(error), retryable=False))


def failed(error: BaseException, meta: Mapping[str, Any] | None = None) -> Failed:
    """Return the outcome of a handler that raised."""
    try:
        return Failed(error_of(error), _encode_meta(meta))
    except OutputInvalid:
        return Failed(error_of(error))


def _encode_meta(meta: Mapping[str, Any] | None) -> Raw | None:
    if not meta:
        return None
    return Raw(encode_json(meta, "ctx.meta holds", META_BYTES_MAX))


def error_of(error: BaseException) -> TaskError:
    """Convert an exception to the error that is reported. Unknown exceptions are retryable."""
    message = shortened(text_of(error), ERROR_MESSAGE_CHARS_MAX)
    if isinstance(error, ParamsInvalid):
        return TaskError(PARAMS_INVALID, message, retryable=False)
    if not isinstance(error, RetryableError | FatalError):
        return TaskError(type(error).__name__, message, traceback=trace_of(error))
    return TaskError(
        type=getattr(error, "type", None) or type(error).__name__,
        message=message,
        retryable=isinstance(error, RetryableError),
        status=error.status,
        retry_after_seconds=_seconds(getattr(error, "retry_after", None)),
        traceback=trace_of(error),
    )


def handler_not_found(name: str, known: Iterable[str]) -> Failed:
    """Return the outcome of a task whose handler this worker does not have."""
    names = sorted(known)
    nearest = get_close_matches(name, names, n=NAMES_LISTED_MAX) or names[:NAMES_LISTED_MAX]
    hint = "this worker has no handlers"
    if nearest:
        hint = f"did you mean {' or '.join(map(repr, nearest))}?"
    message = f"unknown handler: {name!r}; {hint}"
    return Failed(
        TaskError(HANDLER_NOT_FOUND, shortened(message, ERROR_MESSAGE_CHARS_MAX), retryable=False)
    )


def call_handler(handler: Handler, params: Raw | bytes, context: object) -> Any:
    """Check the params and call the handler, with the context if it takes one."""
    checked = handler.check(params)
    if handler.takes_context:
        return handler.call(context, **checked)
    return handler.call(**checked)


# A handler without `await` needs no task of the event loop: an attempt of `echo` takes 4 to 8 us instead of 13 to 18
# (CPU time of `Executor.start`). Only how the coroutine is driven differs; params, outputs and errors are the same.
def run_in_one_step(task: Task, handler: Handler, output_bytes_max: int) -> Succeeded | Failed:
    """Run a coroutine function without `await`, which ends at its first step; return its outcome."""
    try:
        call: Callable[..., Any] = handler.call
        coroutine: Coroutine[Any, Any, object] = call(**handler.check(task.params))
        coroutine.send(None)
    except StopIteration as end:
        return succeeded(end.value, None, output_bytes_max)
    except BaseException as error:  # user code: not even SystemExit may end the worker
        return failed(error)
    coroutine.close()
    return failed(RuntimeError(f"handler {handler.name!r} suspended although it has no await"))


def cancelled() -> TaskError:
    """Return the error of a cancelled attempt."""
    return TaskError(CANCELLED, "the attempt was cancelled", retryable=False)


def timed_out(task: Task) -> TaskError:
    """Return the error of an attempt that timed out."""
    return TaskError(
        TIMEOUT, f"handler {task.handler!r} did not finish within {task.timeout_seconds:g} s"
    )


def encode_json(value: object, what: str, bytes_max: int, advice: str = "store less") -> bytes:
    """Encode a value as JSON; raise OutputInvalid with the path of what is not JSON."""
    if is_longer_than(value, bytes_max):
        raise OutputInvalid(f"{what} more than {bytes_max} bytes, which is the limit; {advice}")
    try:
        encoded = _encode(value)
    except (TypeError, UnicodeEncodeError, RecursionError, OverflowError, ValueError) as error:
        raise OutputInvalid(
            f"{what} a value that is not JSON ({text_of(error)}){place_of_fault(value)}"
        ) from None
    if len(encoded) > bytes_max:
        raise OutputInvalid(
            f"{what} {len(encoded)} bytes, at most {bytes_max} are allowed; {advice}"
        )
    if _is_suspect(encoded) and not _is_clean(value) and (place := place_of_fault(value)):
        raise OutputInvalid(f"{what} a value that is not JSON{place}")
    return encoded


def _is_suspect(encoded: bytes) -> bool:
    mapped = encoded.translate(_DIGITS_TO_ZERO)
    # This runs for every output: `find` takes 0.25 us for a small one, `in` 0.5 us (timeit).
    return encoded.find(b"null") >= 0 or mapped.find(b',"0') >= 0 or mapped.find(_LONG_INTEGER) >= 0


def _is_clean(value: object) -> bool:
    """Whether all parts of a value are JSON. A fast walk without paths, since it runs on the event loop."""
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            found = cast("dict[object, object]", item)
            if not all(type(key) is str for key in found):
                return False
            pending.extend(found.values())
        elif isinstance(item, list | tuple):
            pending.extend(cast("list[object]", item))
        elif not _is_clean_scalar(item):
            return False
    return True


def _is_clean_scalar(value: object) -> bool:
    kind = type(value)
    if kind is int:
        return INTEGER_MIN <= cast("int", value) <= INTEGER_MAX
    if kind is float:
        return math.isfinite(cast("float", value))
    # Subclasses of these types are checked by the slow walk.
    return kind in _CLEAN_TYPES or not isinstance(value, int | float | str)


def place_of_fault(value: object) -> str:
    """Return where and why a value is not JSON, as the end of a sentence; empty if it is."""
    pending: list[tuple[str, object]] = [("$", value)]
    seen: set[int] = set()
    while pending:
        path, item = pending.pop()
        fault = _fault(item)
        if fault:
            return f": at {path} {fault}"
        # A value may contain itself.
        if id(item) not in seen:
            seen.add(id(item))
            pending.extend(_parts(path, item))
    return ""


def _parts(path: str, value: object) -> Iterable[tuple[str, object]]:
    """Return the parts of a collection with their paths."""
    if isinstance(value, dict):
        for key, part in cast("dict[object, object]", value).items():
            yield f"{path}.{key}"[:PATH_CHARS_MAX], part
    elif isinstance(value, list | tuple):
        for at, part in enumerate(cast("list[object]", value)):
            yield f"{path}[{at}]"[:PATH_CHARS_MAX], part


def _key_fault(keys: Iterable[object]) -> str:
    for key in keys:
        if not isinstance(key, str):
            return f"the key {key!r} is not a string; use str({key!r})"
        fault = _fault(key)
        if fault:
            return f"the key {fault}"
    return ""


def _fault(item: object) -> str:
    """Return why a value is not JSON, apart from the values inside it; empty if it is."""
    if isinstance(item, dict):
        return _key_fault(cast("dict[object, object]", item))
    if isinstance(item, float) and not math.isfinite(item):
        return f"{item} has no JSON equivalent; use null"
    if isinstance(item, int) and not INTEGER_MIN <= item <= INTEGER_MAX:
        return "an integer beyond 64 bits; return it as a string"
    if isinstance(item, str) and _SURROGATE.search(item):
        return f"{ascii(item)[:100]} has a lone surrogate; decode the text correctly"
    return ""


def trace_of(error: BaseException) -> str:
    """Return the traceback; only the end of a long one."""
    text = "".join(traceback.format_exception(error))
    return shortened_traceback(text.encode("utf-8", "backslashreplace").decode())


def text_of(error: BaseException) -> str:
    """Return the message of an exception, even if its `__str__` fails."""
    try:
        text = str(error)
    except Exception as broken:  # user code: an exception's __str__
        text = f"(message not available: {type(broken).__name__} in __str__)"
    return text.encode("utf-8", "backslashreplace").decode()


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    return None
