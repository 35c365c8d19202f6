"""Handlers that fail on request, to try out retries, timeouts and lost processes."""

import os
import signal
from typing import Any

from windlass.core.errors import FatalError, RetryableError
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler


class RequestedFailure(RetryableError):
    """A failure that was asked for; its `type` is what the worker reports."""

    def __init__(self, message: str, kind: str, status: int | None, retry_after: float | None) -> None:
        super().__init__(message, retry_after=retry_after, status=status)
        self.type = kind


class RequestedEnd(FatalError):
    """A failure that was asked for and is not worth another attempt."""

    def __init__(self, message: str, kind: str, status: int | None) -> None:
        super().__init__(message, status=status)
        self.type = kind


@handler("fail")
async def fail(
    ctx: Context,
    message: str = "failed on request",
    type: str = "requested_failure",
    retryable: bool = True,
    status: int | None = None,
    retry_after: float | None = None,
    times: int | None = None,
    **params: Any,
) -> dict[str, Any]:
    """Fail, always or in the first `times` attempts; afterwards return the attempt's number and the other params."""
    if times is None or ctx.attempt <= times:
        if retryable:
            raise RequestedFailure(message, type, status, retry_after)
        raise RequestedEnd(message, type, status)
    return {"attempt": ctx.attempt, **params}


@handler("crash", mode="process")
def crash(
    ctx: Context, signal_name: str = "SIGKILL", exit: int | None = None, times: int | None = None
) -> dict[str, int]:
    """Kill the attempt's own process, by a signal or an exit code, always or in the first `times` attempts."""
    if times is None or ctx.attempt <= times:
        if exit is not None:
            os._exit(exit)
        number = getattr(signal, signal_name, None)
        if not isinstance(number, signal.Signals):
            raise FatalError(f"{signal_name!r} is no signal: use a name such as 'SIGKILL' or 'SIGSEGV'")
        os.kill(os.getpid(), number)
    return {"attempt": ctx.attempt}
