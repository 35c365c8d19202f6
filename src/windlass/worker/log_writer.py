"""Stores the log lines of attempts in order and in batches, without blocking the attempts."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from windlass.ports.clock import Clock
from windlass.ports.handler import LogLine

# How long a line waits for others before it is stored.
FLUSH_SECONDS = 0.1
BATCH_LINES_MAX = 500
# Limits of the buffer while the store is slow or unavailable; further lines are dropped and counted.
KEPT_LINES_MAX = 50_000
KEPT_CHARS_MAX = 32 << 20
# Attempts whose dropped lines are counted separately; those of others are counted together.
COUNTED_ATTEMPTS_MAX = 1_000
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
# A batch that fails this often is dropped, so that it does not block the following ones.
TRIES_MAX = 20
CLOSE_SECONDS_MAX = 5.0

Append = Callable[[Sequence[LogLine]], Awaitable[None]]
AttemptKey = tuple[str, str, int, int]
log = logging.getLogger(__name__)


class LogWriter:
    """A log sink. Called with lines from the event loop or from threads; `run` stores them until `aclose`."""

    def __init__(
        self,
        append: Append,
        clock: Clock,
        *,
        kept_lines_max: int = KEPT_LINES_MAX,
        kept_chars_max: int = KEPT_CHARS_MAX,
    ) -> None:
        self._append = append
        self._clock = clock
        self._kept_lines_max = kept_lines_max
        self._kept_chars_max = kept_chars_max
        self._lock = threading.Lock()
        self._lines: deque[LogLine] = deque()
        self._chars = 0
        # The last dropped line and their number, by attempt, since the last batch.
        self._dropped: dict[AttemptKey, tuple[LogLine, int]] = {}
        self._dropped_uncounted = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first = asyncio.Event()
        self._enough = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._closing = False

    def __call__(self, line: LogLine) -> None:
        """Buffer a line without blocking; a line that does not fit is dropped and counted."""
        with self._lock:
            if not self._has_room(line):
                self._drop(line)
                return
            self._lines.append(line)
            self._chars += len(line.message)
            waiting = len(self._lines)
        if waiting == 1:
            self._set(self._first)
        elif waiting == BATCH_LINES_MAX:
            self._set(self._enough)

    async def run(self) -> None:
        """Store lines until `aclose`. When cancelled, lines that are not stored yet are kept for `aclose`."""
        self._running = cast("asyncio.Task[None]", asyncio.current_task())
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._lines:
                self._first.set()
        try:
            while not self._closing:
                await self._first.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_SECONDS):
                        await self._enough.wait()
                await self._store_all()
        except asyncio.CancelledError:
            # A cancel by `aclose` ends a store that takes too long; it is not an error.
            if not self._closing:
                raise
        finally:
            self._loop = None

    async def aclose(self) -> None:
        """Store the remaining lines within a time limit; later lines are lost."""
        self._closing = True
        self._first.set()
        self._enough.set()
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=CLOSE_SECONDS_MAX / 2)
            self._running.cancel()
            await asyncio.wait((self._running,))
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX / 2):
                await self._store_all()
        except TimeoutError:
            log.warning(
                "the log writer stops with %d lines not stored; the store is slow or unavailable",
                len(self._lines),
            )

    def _set(self, event: asyncio.Event) -> None:
        loop = self._loop
        if loop is not None:
            # A thread may outlive the event loop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    # Buffering and dropping

    def _has_room(self, line: LogLine) -> bool:
        # After the first dropped line of an attempt, its lines are dropped until a notice is written in their place.
        return (
            len(self._lines) < self._kept_lines_max
            and self._chars + len(line.message) <= self._kept_chars_max
            and (not self._dropped or _attempt(line) not in self._dropped)
        )

    def _drop(self, line: LogLine, count: int = 1) -> None:
        key = _attempt(line)
        before = self._dropped.get(key)
        if before is not None:
            self._dropped[key] = (line, before[1] + count)
        elif len(self._dropped) < COUNTED_ATTEMPTS_MAX:
            self._dropped[key] = (line, count)
        else:
            self._dropped_uncounted += count

    def _write_notices(self) -> None:
        """Write a notice where lines were dropped, before any later line of the same attempt."""
        for line, count in self._dropped.values():
            text = f"({count} lines dropped: the log could not be stored in time)"
            notice = replace(line, at=self._clock.now(), level="warning", message=text)
            self._lines.append(notice)
            self._chars += len(text)
        self._dropped.clear()
        if self._dropped_uncounted:
            log.warning(
                "%d log lines dropped: the log could not be stored in time", self._dropped_uncounted
            )
            self._dropped_uncounted = 0

    # Storing

    def _take(self) -> list[LogLine]:
        with self._lock:
            if not self._lines:
                self._write_notices()
            batch = [self._lines.popleft() for _ in range(min(len(self._lines), BATCH_LINES_MAX))]
            self._chars -= sum(len(line.message) for line in batch)
            self._write_notices()
            return batch

    async def _store_all(self) -> None:
        """Store the buffered lines, one batch at a time to keep their order."""
        while batch := self._next_batch():
            try:
                await self._store(batch)
            except asyncio.CancelledError:
                self._put_back(batch)
                raise

    def _next_batch(self) -> list[LogLine]:
        # Cleared before taking: a line that is added later sets them again.
        if not self._closing:
            self._first.clear()
            self._enough.clear()
        return self._take()

    def _put_back(self, batch: list[LogLine]) -> None:
        with self._lock:
            self._lines.extendleft(reversed(batch))
            self._chars += sum(len(line.message) for line in batch)

    async def _store(self, batch: list[LogLine]) -> None:
        pause = PAUSE_SECONDS_MIN
        for tries in range(1, TRIES_MAX + 1):
            try:
                await self._append(batch)
            except Exception as error:
                log.warning("storing %d log lines failed, try %d: %s", len(batch), tries, error)
                await self._clock.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
            else:
                return
        with self._lock:
            for line in batch:
                self._drop(line)


def _attempt(line: LogLine) -> AttemptKey:
    return line.job_id, line.node_id, line.index, line.attempt
