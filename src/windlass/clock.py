"""The system clock."""

import asyncio
import time

# Counts the time that a machine is suspended, too, where the system offers such a clock.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The time of one process: the wall clock when it was created, and the time that has passed since (ADR 33)."""

    def __init__(self) -> None:
        self._start_at = time.time_ns() - time.clock_gettime_ns(_STEADY)

    def now(self) -> int:
        """Return microseconds since 1970, UTC. Setting the wall clock does not change it."""
        return (self._start_at + time.clock_gettime_ns(_STEADY)) // 1000

    def wall(self) -> int:
        """Return the wall clock in microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
