"""Turns what a handler returned or raised into what a worker reports."""

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

# Where the worker is told no other bound.
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

# What the encoder lets pass silently leaves a trace: NaN becomes null, numbers become keys, integers grow beyond
# 64 bits. Only an output with such a trace is walked through. Folded, all that numbers are made of looks alike: plain
# searches are many times as fast as a regular expression.
_FOLDED = bytes.maketrans(b"{123456789.-", b",00000000000")
_LONG_INTEGER = b"0" * 19
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_WAY_OUT = "store it and return where it is, or raise the setting artifacts.bytes_max"
_encode = msgspec.json.Encoder().encode


class OutputInvalid(Exception):
    """What a handler returned is no JSON that can be stored."""


def succeeded(output: object, meta: Mapping[str, Any] | None, bytes_max: int) -> Succeeded | Failed:
    """The outcome of a handler that returned; Failed when its output or meta cannot be stored."""
    try:
        encoded = encode_json(output, "the handler returned", bytes_max, _WAY_OUT)
        encoded_meta = encode_json(meta, "ctx.meta holds", META_BYTES_MAX) if meta else None
    except OutputInvalid as error:
        return Failed(TaskError(OUTPUT_INVALID, str(error), retryable=False))
    return Succeeded(Raw(encoded), Raw(encoded_meta) if encoded_meta is not None else None)


def failed(error: BaseException, meta: Mapping[str, Any] | None = None) -> Failed:
    """The outcome of a handler that raised."""
    encoded_meta = None
    if meta:
        try:
            encoded_meta = Raw(encode_json(meta, "ctx.meta holds", META_BYTES_MAX))
        except OutputInvalid:
            encoded_meta = None
    return Failed(error_of(error), encoded_meta)


def error_of(error: BaseException) -> TaskError:
    """An exception as a worker reports it: the author's steering kept, everything else worth another attempt."""
    message = bounded(text_of(error), MESSAGE_CHARS_MAX)
    match error:
        case ParamsInvalid():
            return TaskError(PARAMS_INVALID, message, retryable=False)
        case RetryableError():
            kind = getattr(error, "type", None) or type(error).__name__
            return TaskError(kind, message, True, error.status, _seconds(error.retry_after), trace_of(error))
        case FatalError():
            kind = getattr(error, "type", None) or type(error).__name__
            return TaskError(kind, message, False, error.status, None, trace_of(error))
        case _:
            return TaskError(type(error).__name__, message, traceback=trace_of(error))


def handler_not_found(name: str, known: Iterable[str]) -> Failed:
    """The outcome of a task whose handler this worker does not have."""
    names = sorted(known)
    nearest = get_close_matches(name, names, n=NAMES_LISTED_MAX) or names[:NAMES_LISTED_MAX]
    way_out = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else "this worker has no handlers"
    message = f"no handler is called {name!r}: {way_out}"
    return Failed(TaskError(HANDLER_NOT_FOUND, bounded(message, MESSAGE_CHARS_MAX), retryable=False))


def run_in_one_step(task: Task, handler: Handler, output_bytes_max: int) -> Succeeded | Failed:
    """The outcome of a coroutine that has no await and therefore ends at its first step."""
    call = cast("Callable[..., Coroutine[Any, Any, object]]", handler.call)
    try:
        coroutine = call(**handler.check(task.params))
        coroutine.send(None)
    except StopIteration as end:
        return succeeded(end.value, None, output_bytes_max)
    except BaseException as error:  # user code: not even SystemExit may end the worker
        return failed(error)
    coroutine.close()
    return failed(RuntimeError(f"the handler {handler.name!r} suspended although it has no await"))


def cancelled() -> TaskError:
    """The error of an attempt that its job no longer wants."""
    return TaskError(CANCELLED, "the attempt was cancelled", retryable=False)


def timed_out(task: Task) -> TaskError:
    """The error of an attempt whose time is over."""
    return TaskError(TIMEOUT, f"the handler {task.handler!r} did not finish within {task.timeout_seconds:g} s")


def encode_json(value: object, what: str, bytes_max: int, way_out: str = "keep less") -> bytes:
    """The value as JSON, once; OutputInvalid names the place that is no JSON."""
    try:
        encoded = _encode(value)
    except (TypeError, UnicodeEncodeError, RecursionError, OverflowError, ValueError) as error:
        raise OutputInvalid(f"{what} what is no JSON ({text_of(error)}){place_of_fault(value)}") from None
    if len(encoded) > bytes_max:
        raise OutputInvalid(f"{what} {len(encoded)} bytes, {bytes_max} is the most: {way_out}")
    if _is_suspect(encoded) and not _is_clean(value) and (place := place_of_fault(value)):
        raise OutputInvalid(f"{what} what is no JSON{place}")
    return encoded


def _is_suspect(encoded: bytes) -> bool:
    folded = encoded.translate(_FOLDED)
    # Half the time of `in`, and this is asked of every output.
    return encoded.find(b"null") >= 0 or folded.find(b',"0') >= 0 or folded.find(_LONG_INTEGER) >= 0


def _is_clean(value: object) -> bool:
    """Whether a walk that takes no note of its way finds nothing to look at: large values are walked on the loop."""
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            found = cast("dict[object, object]", item)
            if not all(type(key) is str for key in found):
                return False
            parts = found.values()
        elif isinstance(item, list | tuple):
            parts = cast("list[object]", item)
        else:
            parts = (item,)
        for part in parts:
            kind = type(part)
            if kind is str or part is None or kind is bool:
                continue
            if kind is int:
                if not _INT_MIN <= cast("int", part) <= _INT_MAX:
                    return False
            elif kind is float:
                if not math.isfinite(cast("float", part)):
                    return False
            elif isinstance(part, dict | list | tuple):
                pending.append(cast("object", part))
            elif isinstance(part, int | float | str):
                return False
    return True


def place_of_fault(value: object) -> str:
    """Where and why a value is no JSON, as the end of a sentence; empty when the walk finds nothing."""
    pending: list[tuple[str, object]] = [("$", value)]
    seen: set[int] = set()
    while pending:
        path, item = pending.pop()
        if isinstance(item, dict | list | tuple):
            if id(cast("object", item)) in seen:
                continue
            seen.add(id(cast("object", item)))
        match item:
            case dict():
                for key, part in cast("dict[object, object]", item).items():
                    if not isinstance(key, str):
                        return f": at {path} the key {key!r} is not text: use str({key!r})"
                    if fault := _fault(key):
                        return f": at {path} the key {fault}"
                    pending.append((f"{path}.{key}"[:PATH_CHARS_MAX], part))
            case list() | tuple():
                parts = enumerate(cast("list[object]", item))
                pending.extend((f"{path}[{at}]"[:PATH_CHARS_MAX], part) for at, part in parts)
            case _:
                if fault := _fault(item):
                    return f": at {path} {fault}"
    return ""


def _fault(item: object) -> str:
    match item:
        case float() if not math.isfinite(item):
            return f"{item} has no JSON form: use null"
        case bool() | None:
            return ""
        case int() if not _INT_MIN <= item <= _INT_MAX:
            return "an integer beyond 64 bits: pass it as text"
        case str():
            try:
                item.encode()
            except UnicodeEncodeError:
                return f"{ascii(item)[:100]} has a lone surrogate: decode the text properly"
            return ""
        case _:
            return ""


def trace_of(error: BaseException) -> str:
    """The traceback, its end kept when it is long."""
    text = "".join(traceback.format_exception(error))
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= TRACEBACK_CHARS_MAX else "…" + text[1 - TRACEBACK_CHARS_MAX :]


def text_of(error: BaseException) -> str:
    """The message of an exception, even of one whose own code fails."""
    try:
        text = str(error)
    except Exception as broken:  # user code: an exception's __str__
        text = f"(its message cannot be read: {type(broken).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def bounded(text: str, chars_max: int) -> str:
    """The text, its beginning kept when it is long."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None
