"""Time as a port, so that tests and the simulator can hold it."""

from typing import Protocol


class Clock(Protocol):
    """The only source of instants outside the core."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait, in this clock's time."""
        ...
