"""One timer for all running attempts: reports slow ones, stops late ones, abandons those that do not stop."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping

from windlass.ports.handler import Mode
from windlass.worker.running_attempt import RunningAttempt

# A timer that fires this late means that a handler blocks the event loop, and the worker's heartbeat with it.
LOOP_BLOCKED_SECONDS = 0.5

log = logging.getLogger(__name__)


class AttemptTimers:
    """Checks attempts when the next of their times is due."""

    def __init__(
        self,
        running: Mapping[str, RunningAttempt],
        started_after_seconds: float,
        *,
        on_slow: Callable[[list[RunningAttempt]], None],
        on_timeout: Callable[[RunningAttempt], None],
        on_abandon: Callable[[RunningAttempt], None],
    ) -> None:
        self._running = running
        self._started_after_seconds = started_after_seconds
        self._on_slow = on_slow
        self._on_timeout = on_timeout
        self._on_abandon = on_abandon
        self._loop = asyncio.get_running_loop()
        self._due_time = math.inf
        self._handle: asyncio.TimerHandle | None = None

    def begin(self, attempt: RunningAttempt) -> None:
        """Start the timeout of an attempt whose handler is called now."""
        now = self._loop.time()
        attempt.begun_time = now
        attempt.deadline_time = now + attempt.task.timeout_seconds
        self._schedule(min(attempt.deadline_time, now + self._started_after_seconds))

    def abandon_after(self, attempt: RunningAttempt, seconds: float) -> None:
        """Abandon an attempt unless it ends within this time."""
        attempt.abandon_time = self._loop.time() + seconds
        self._schedule(attempt.abandon_time)

    def close(self) -> None:
        """Stop checking."""
        if self._handle is not None:
            self._handle.cancel()

    def _schedule(self, due_time: float) -> None:
        if due_time >= self._due_time:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._due_time = due_time
        self._handle = self._loop.call_at(due_time, self._check_all)

    def _check_all(self) -> None:
        # The loop may call a clock tick early; the time counts as reached.
        now = max(self._loop.time(), self._due_time)
        if now - self._due_time > LOOP_BLOCKED_SECONDS:
            warn_of_blocked_loop(now - self._due_time, self._async_handlers())
        self._due_time = math.inf
        self._handle = None
        slow: list[RunningAttempt] = []
        next_time = math.inf
        for attempt in list(self._running.values()):
            if attempt.stop_error is None and now >= attempt.deadline_time:
                self._on_timeout(attempt)
            if attempt.stop_error is None:
                if self._is_slow(attempt, now):
                    slow.append(attempt)
                next_time = min(next_time, self._next_time(attempt))
            elif now >= attempt.abandon_time:
                self._on_abandon(attempt)
            else:
                next_time = min(next_time, attempt.abandon_time)
        if slow:
            self._on_slow(slow)
        if next_time < math.inf:
            self._schedule(next_time)

    def _is_slow(self, attempt: RunningAttempt, now: float) -> bool:
        """Whether the start of the attempt is to be reported now; true only once."""
        if attempt.is_start_reported or now < attempt.begun_time + self._started_after_seconds:
            return False
        attempt.is_start_reported = True
        return True

    def _next_time(self, attempt: RunningAttempt) -> float:
        if attempt.is_start_reported:
            return attempt.deadline_time
        return min(attempt.deadline_time, attempt.begun_time + self._started_after_seconds)

    def _async_handlers(self) -> set[str]:
        return {
            attempt.handler.name
            for attempt in self._running.values()
            if attempt.handler.mode is Mode.ASYNC
        }


def warn_of_blocked_loop(seconds: float, handlers: set[str]) -> None:
    """Log that a handler blocked the event loop."""
    log.warning(
        "the worker's event loop was blocked for %.1f s (async handlers running: %s); "
        "make handlers that block a plain def, or declare mode='process'",
        seconds,
        ", ".join(sorted(handlers)) or "none",
    )
