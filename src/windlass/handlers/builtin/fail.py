"""Handlers that fail on request, for testing retries, timeouts and lost processes."""

import os
import signal
from typing import Annotated, Any

from msgspec import Meta

from windlass.core.errors import FatalError, RetryableError
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler


class RequestedRetryableError(RetryableError):
    """A requested failure that is retried; `type` is what the worker reports."""

    def __init__(
        self, message: str, kind: str, status: int | None, retry_after: float | None
    ) -> None:
        super().__init__(message, retry_after=retry_after, status=status)
        self.type = kind


class RequestedFatalError(FatalError):
    """A requested failure that is not retried."""

    def __init__(self, message: str, kind: str, status: int | None) -> None:
        super().__init__(message, status=status)
        self.type = kind


@handler("fail")
async def fail(
    ctx: Context,
    message: Annotated[str, Meta(description="message of the error")] = "failed on request",
    type: Annotated[str, Meta(description="type of the error")] = "requested_failure",
    retryable: Annotated[bool, Meta(description="whether the error is retryable")] = True,
    status: Annotated[int | None, Meta(description="status of the error")] = None,
    retry_after: Annotated[
        float | None, Meta(description="seconds before the next attempt")
    ] = None,
    times: Annotated[
        int | None, Meta(description="fail only in this many attempts; default: always")
    ] = None,
    **params: Any,
) -> dict[str, Any]:
    """Fail, always or in the first `times` attempts; then return `{"attempt": n, …}` with the other params."""
    if times is not None and ctx.attempt > times:
        return {"attempt": ctx.attempt, **params}
    if retryable:
        raise RequestedRetryableError(message, type, status, retry_after)
    raise RequestedFatalError(message, type, status)


@handler("crash", mode="process")
def crash(
    ctx: Context,
    signal_name: Annotated[str, Meta(description="signal that kills the process")] = "SIGKILL",
    exit: Annotated[int | None, Meta(description="exit code, in place of a signal")] = None,
    times: Annotated[
        int | None, Meta(description="crash only in this many attempts; default: always")
    ] = None,
) -> dict[str, int]:
    """Kill the attempt's own child process, always or in the first `times` attempts."""
    if times is not None and ctx.attempt > times:
        return {"attempt": ctx.attempt}
    if exit is not None:
        os._exit(exit)
    number = getattr(signal, signal_name, None)
    if not isinstance(number, signal.Signals):
        raise FatalError(
            f"unknown signal: {signal_name!r}; use a name such as 'SIGKILL' or 'SIGSEGV'"
        )
    os.kill(os.getpid(), number)
    return {"attempt": ctx.attempt}
