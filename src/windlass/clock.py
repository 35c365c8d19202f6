"""The clock of the machine."""

import asyncio
import time


class SystemClock:
    """Wall time and real waits."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
