"""Timers of a shard's jobs and runs, in memory: rows hold the instants, and recovery sets them again."""

import asyncio
import heapq
from collections.abc import Iterable

from windlass.core.changes import Timer
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunTimer
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock

# A distant timer is checked again this often, so that a clock that was set does not delay it.
CHECK_SECONDS_MAX = 30.0

AnyTimer = Timer | RunTimer


class Timers:
    """Sends a message to the shard's inbox when a timer is due. The message of an obsolete timer changes nothing."""

    def __init__(self, shard: int, broker: Broker, clock: Clock) -> None:
        self._shard = shard
        self._broker = broker
        self._clock = clock
        self._heap: list[tuple[int, int, AnyTimer]] = []
        self._count = 0
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, timers: Iterable[AnyTimer]) -> None:
        """Add timers."""
        for timer in timers:
            if not self._heap or timer.due_at < self._heap[0][0]:
                self._earlier.set()
            self._count += 1
            heapq.heappush(self._heap, (timer.due_at, self._count, timer))

    def clear(self) -> None:
        """Discard all timers, before the shard's memory is rebuilt."""
        self._heap.clear()

    async def run(self) -> None:
        """Fire due timers until cancelled."""
        while True:
            self._earlier.clear()
            now = self._clock.now()
            due: list[AnyTimer] = []
            while self._heap and self._heap[0][0] <= now:
                due.append(heapq.heappop(self._heap)[2])
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
        seconds = CHECK_SECONDS_MAX
        if self._heap:
            seconds = min(seconds, max(0.0, (self._heap[0][0] - self._clock.now()) / MICROSECONDS))
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        waiting = asyncio.ensure_future(self._earlier.wait())
        try:
            await asyncio.wait((sleeping, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()
