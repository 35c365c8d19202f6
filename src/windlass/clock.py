"""The system clock."""

import asyncio
import time


class SystemClock:
    """Wall clock time."""

    def now(self) -> int:
        """Return microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
