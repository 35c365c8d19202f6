"""The clock port, which lets tests and the simulator control time."""

from typing import Protocol


class Clock(Protocol):
    """The source of the current time outside the core."""

    def now(self) -> int:
        """Return the current time in microseconds since the epoch, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait in this clock's time."""
        ...
