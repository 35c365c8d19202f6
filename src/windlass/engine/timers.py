"""Timers of a shard's jobs and runs, in memory: rows hold the instants, and recovery sets them again.

Those that end durations run by a clock that never steps, those at slots and at starts that a caller named by the wall
clock.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable

from windlass.core.changes import Timer
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunTimer
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock

# Timers are checked at least this often, so that a wall clock that was set delays those that follow it no longer.
CHECK_SECONDS_MAX = 30.0

AnyTimer = Timer | RunTimer


class _TimerHeap:
    """Timers by one clock."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._heap: list[tuple[int, int, AnyTimer]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, timer: AnyTimer) -> bool:
        """Add a timer; return whether it is the first one that is due."""
        self._count += 1
        entry = (timer.due_at, self._count, timer)
        heapq.heappush(self._heap, entry)
        return self._heap[0] is entry

    def clear(self) -> None:
        """Discard all timers."""
        self._heap.clear()

    def pop_due(self) -> list[AnyTimer]:
        """Remove and return the timers that are due."""
        now = self._now()
        due: list[AnyTimer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def seconds_left(self) -> float:
        """Return the time until the first timer is due."""
        if not self._heap:
            return math.inf
        return max(0.0, (self._heap[0][0] - self._now()) / MICROSECONDS)


class Timers:
    """Sends a message to the shard's inbox when a timer is due. The message of an obsolete timer changes nothing."""

    def __init__(self, shard: int, broker: Broker, clock: Clock) -> None:
        self._shard = shard
        self._broker = broker
        self._clock = clock
        self._durations = _TimerHeap(clock.now)
        self._instants = _TimerHeap(clock.wall)
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        return len(self._durations) + len(self._instants)

    def set(self, timers: Iterable[AnyTimer]) -> None:
        """Add timers."""
        for timer in timers:
            heap = self._instants if timer.follows_wall_clock else self._durations
            if heap.add(timer):
                self._earlier.set()

    def clear(self) -> None:
        """Discard all timers, before the shard's memory is rebuilt."""
        self._durations.clear()
        self._instants.clear()

    async def run(self) -> None:
        """Fire due timers until cancelled."""
        while True:
            self._earlier.clear()
            due = [*self._durations.pop_due(), *self._instants.pop_due()]
            if due:
                await self._fire(due)
            await self._wait()

    async def _fire(self, due: list[AnyTimer]) -> None:
        sent = False
        try:
            await self._broker.send(self._shard, [timer.message() for timer in due])
            sent = True
        finally:
            if not sent:
                self.set(due)

    async def _wait(self) -> None:
        seconds = min(
            CHECK_SECONDS_MAX, self._durations.seconds_left(), self._instants.seconds_left()
        )
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        waiting = asyncio.ensure_future(self._earlier.wait())
        try:
            await asyncio.wait((sleeping, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()
