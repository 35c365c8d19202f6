"""Carries the lines that attempts write to the store: in order, in batches, and never in the way of who writes them."""

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

# A line waits at most so long for others before it is stored.
FLUSH_SECONDS = 0.1
BATCH_LINES_MAX = 500
# What is kept while the store is slow or away; lines beyond are counted, not kept.
KEPT_LINES_MAX = 50_000
KEPT_CHARS_MAX = 32 << 20
# Attempts whose missing lines are counted one by one; those of further ones are only counted together.
COUNTED_ATTEMPTS_MAX = 1_000
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
# A batch that the store refuses so often will never be stored, and must not hold up all that follows.
TRIES_MAX = 20
CLOSE_SECONDS_MAX = 5.0

Append = Callable[[Sequence[LogLine]], Awaitable[None]]
AttemptKey = tuple[str, str, int, int]
log = logging.getLogger(__name__)


class LogWriter:
    """A log sink. Call it with lines, from the loop or from threads; `run` stores them until `aclose`."""

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
        # The last line that went missing, and how many, of each attempt that lost some since the last batch.
        self._missing: dict[AttemptKey, tuple[LogLine, int]] = {}
        self._missing_uncounted = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first = asyncio.Event()
        self._enough = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._closing = False

    def __call__(self, line: LogLine) -> None:
        """Take a line; returns at once. Without room for it, it is dropped and counted."""
        with self._lock:
            if not self._has_room(line):
                self._miss(line)
                return
            self._lines.append(line)
            self._chars += len(line.message)
            waiting = len(self._lines)
        if waiting == 1:
            self._tell(self._first)
        elif waiting == BATCH_LINES_MAX:
            self._tell(self._enough)

    async def run(self) -> None:
        """Store what comes in, until `aclose`. Cancelling this keeps what is not stored yet for `aclose`."""
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
            # `aclose` ends a store that takes too long; nobody else is to be told of that.
            if not self._closing:
                raise
        finally:
            self._loop = None

    async def aclose(self) -> None:
        """Store what is left, within a bound of time; lines that come afterwards are lost."""
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
            log.warning("the log writer ends with %d lines not stored: the store is slow or away", len(self._lines))

    def _tell(self, event: asyncio.Event) -> None:
        loop = self._loop
        if loop is not None:
            # A thread that outlives the loop has nobody left to tell.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    # What is kept and what is missed

    def _has_room(self, line: LogLine) -> bool:
        # An attempt that misses lines goes on missing them until a notice stands in their place.
        return (
            len(self._lines) < self._kept_lines_max
            and self._chars + len(line.message) <= self._kept_chars_max
            and (not self._missing or _attempt(line) not in self._missing)
        )

    def _miss(self, line: LogLine, count: int = 1) -> None:
        key = _attempt(line)
        before = self._missing.get(key)
        if before is not None:
            self._missing[key] = (line, before[1] + count)
        elif len(self._missing) < COUNTED_ATTEMPTS_MAX:
            self._missing[key] = (line, count)
        else:
            self._missing_uncounted += count

    def _note_missing(self) -> None:
        """Put a notice where lines are missing; it comes before any later line of the same attempt."""
        for line, count in self._missing.values():
            text = f"({count} {'line is' if count == 1 else 'lines are'} missing: the log could not be stored in time)"
            notice = replace(line, at=self._clock.now(), level="warning", message=text)
            self._lines.append(notice)
            self._chars += len(text)
        self._missing.clear()
        if self._missing_uncounted:
            log.warning("%d lines of attempts are lost: the log could not be stored in time", self._missing_uncounted)
            self._missing_uncounted = 0

    # Storing

    def _take(self) -> list[LogLine]:
        with self._lock:
            if not self._lines:
                self._note_missing()
            batch = [self._lines.popleft() for _ in range(min(len(self._lines), BATCH_LINES_MAX))]
            self._chars -= sum(len(line.message) for line in batch)
            self._note_missing()
            return batch

    async def _store_all(self) -> None:
        """Store batch after batch until nothing waits. One at a time: so lines stay in order."""
        while batch := self._take_or_rest():
            try:
                await self._store(batch)
            except asyncio.CancelledError:
                self._put_back(batch)
                raise

    def _take_or_rest(self) -> list[LogLine]:
        # Before the look: a line that comes after it sets them again.
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
                log.warning("a batch of %d log lines could not be stored (%s), try %d", len(batch), error, tries)
                await self._clock.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
            else:
                return
        with self._lock:
            for line in batch:
                self._miss(line)


def _attempt(line: LogLine) -> AttemptKey:
    return line.job_id, line.node_id, line.index, line.attempt
