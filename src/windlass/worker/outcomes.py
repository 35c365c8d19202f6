"""Converts what a handler returned or raised to the outcome that a worker reports."""

import math
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.core.changes import Task
from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.handler import Handler

META_BYTES_MAX = 64 * 1024
MESSAGE_CHARS_MAX = 4096
TRACEBACK_CHARS_MAX = 8192
NAMES_LISTED_MAX = 5
PATH_CHARS_MAX = 200

TIMEOUT = "timeout"
CANCELLED = "cancelled"
OUTPUT_INVALID = "output_invalid"
PARAMS_INVALID = "params_invalid"
HANDLER_NOT_FOUND = "handler_not_found"

# The encoder silently accepts NaN (as null), numeric keys (as strings) and integers beyond 64 bits. Only an output
# whose JSON may contain one of these is walked. With all digits mapped to one character, they are found by plain
# searches, which are many times as fast as a regular expression.
_DIGITS_TO_ZERO = bytes.maketrans(b"{123456789.-", b",00000000000")
_LONG_INTEGER = b"0" * 19
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_ADVICE = "store the data elsewhere and return a reference, or raise the setting artifacts.bytes_max"
_encode = msgspec.json.Encoder().encode


class OutputInvalid(Exception):
    """The output of a handler cannot be stored as JSON."""


def succeeded(output: object, meta: Mapping[str, Any] | None, bytes_max: int) -> Succeeded | Failed:
    """Return the outcome of a handler that returned; Failed if its output or meta cannot be stored."""
    try:
        encoded = encode_json(output, "the handler returned", bytes_max, _ADVICE)
        encoded_meta = encode_json(meta, "ctx.meta holds", META_BYTES_MAX) if meta else None
    except OutputInvalid as error:
        return Failed(TaskError(OUTPUT_INVALID, str(error), retryable=False))
    return Succeeded(Raw(encoded), Raw(encoded_meta) if encoded_meta is not None else None)


def failed(error: BaseException, meta: Mapping[str, Any] | None = None) -> Failed:
    """Return the outcome of a handler that raised."""
    encoded_meta = None
    if meta:
        try:
            encoded_meta = Raw(encode_json(meta, "ctx.meta holds", META_BYTES_MAX))
        except OutputInvalid:
            encoded_meta = None
    return Failed(error_of(error), encoded_meta)


def error_of(error: BaseException) -> TaskError:
    """Convert an exception to the error that is reported. Unknown exceptions are retryable."""
    message = bounded(text_of(error), MESSAGE_CHARS_MAX)
    match error:
        case ParamsInvalid():
            return TaskError(PARAMS_INVALID, message, retryable=False)
        case RetryableError():
            return TaskError(
                type=_type_of(error),
                message=message,
                retryable=True,
                status=error.status,
                retry_after_seconds=_seconds(error.retry_after),
                traceback=trace_of(error),
            )
        case FatalError():
            return TaskError(
                type=_type_of(error),
                message=message,
                retryable=False,
                status=error.status,
                traceback=trace_of(error),
            )
        case _:
            return TaskError(type(error).__name__, message, traceback=trace_of(error))


def _type_of(error: BaseException) -> str:
    return getattr(error, "type", None) or type(error).__name__


def handler_not_found(name: str, known: Iterable[str]) -> Failed:
    """Return the outcome of a task whose handler this worker does not have."""
    names = sorted(known)
    nearest = get_close_matches(name, names, n=NAMES_LISTED_MAX) or names[:NAMES_LISTED_MAX]
    hint = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else "this worker has no handlers"
    message = f"unknown handler: {name!r}; {hint}"
    return Failed(TaskError(HANDLER_NOT_FOUND, bounded(message, MESSAGE_CHARS_MAX), retryable=False))


def run_in_one_step(task: Task, handler: Handler, output_bytes_max: int) -> Succeeded | Failed:
    """Run a coroutine function without `await`, which ends at its first step; return its outcome."""
    call = cast("Callable[..., Coroutine[Any, Any, object]]", handler.call)
    try:
        coroutine = call(**handler.check(task.params))
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
    return TaskError(TIMEOUT, f"handler {task.handler!r} did not finish within {task.timeout_seconds:g} s")


def encode_json(value: object, what: str, bytes_max: int, advice: str = "store less") -> bytes:
    """Encode a value as JSON; raise OutputInvalid with the path of what is not JSON."""
    try:
        encoded = _encode(value)
    except (TypeError, UnicodeEncodeError, RecursionError, OverflowError, ValueError) as error:
        raise OutputInvalid(f"{what} a value that is not JSON ({text_of(error)}){place_of_fault(value)}") from None
    if len(encoded) > bytes_max:
        raise OutputInvalid(f"{what} {len(encoded)} bytes, at most {bytes_max} are allowed; {advice}")
    if _is_suspect(encoded) and not _is_clean(value) and (place := place_of_fault(value)):
        raise OutputInvalid(f"{what} a value that is not JSON{place}")
    return encoded


def _is_suspect(encoded: bytes) -> bool:
    mapped = encoded.translate(_DIGITS_TO_ZERO)
    # `find` takes half the time of `in`, and this runs for every output.
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
        return _INT_MIN <= cast("int", value) <= _INT_MAX
    if kind is float:
        return math.isfinite(cast("float", value))
    if kind is str or kind is bool:
        return True
    # Subclasses of these types are checked by the slow walk.
    return not isinstance(value, int | float | str)


def place_of_fault(value: object) -> str:
    """Return where and why a value is not JSON, as the end of a sentence; empty if it is."""
    pending: list[tuple[str, object]] = [("$", value)]
    seen: set[int] = set()
    while pending:
        path, item = pending.pop()
        if isinstance(item, dict | list | tuple):
            identity = id(cast("object", item))
            if identity in seen:
                continue
            seen.add(identity)
        if isinstance(item, dict):
            found = cast("dict[object, object]", item)
            for key in found:
                if fault := _key_fault(key):
                    return f": at {path} the key {fault}"
            pending.extend((f"{path}.{key}"[:PATH_CHARS_MAX], part) for key, part in found.items())
        elif isinstance(item, list | tuple):
            parts = enumerate(cast("list[object]", item))
            pending.extend((f"{path}[{at}]"[:PATH_CHARS_MAX], part) for at, part in parts)
        elif fault := _fault(item):
            return f": at {path} {fault}"
    return ""


def _key_fault(key: object) -> str:
    if not isinstance(key, str):
        return f"{key!r} is not a string; use str({key!r})"
    return _fault(key)


def _fault(item: object) -> str:
    match item:
        case float() if not math.isfinite(item):
            return f"{item} has no JSON equivalent; use null"
        case bool() | None:
            return ""
        case int() if not _INT_MIN <= item <= _INT_MAX:
            return "an integer beyond 64 bits; return it as a string"
        case str():
            try:
                item.encode()
            except UnicodeEncodeError:
                return f"{ascii(item)[:100]} has a lone surrogate; decode the text correctly"
            return ""
        case _:
            return ""


def trace_of(error: BaseException) -> str:
    """Return the traceback; only the end of a long one."""
    text = "".join(traceback.format_exception(error))
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= TRACEBACK_CHARS_MAX else "…" + text[1 - TRACEBACK_CHARS_MAX :]


def text_of(error: BaseException) -> str:
    """Return the message of an exception, even if its `__str__` fails."""
    try:
        text = str(error)
    except Exception as broken:  # user code: an exception's __str__
        text = f"(message not available: {type(broken).__name__} in __str__)"
    return text.encode("utf-8", "backslashreplace").decode()


def bounded(text: str, chars_max: int) -> str:
    """Return the text; only the beginning of a long one."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    return None
