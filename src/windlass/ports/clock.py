"""The clock port, which lets tests and the simulator control time."""

from typing import Protocol


class Clock(Protocol):
    """The source of the current time outside the core."""

    def now(self) -> int:
        """Return the current time in microseconds since the epoch, UTC.

        It never steps while the process lives, whatever happens to the wall clock: for durations, and for the instants
        from which durations are counted.
        """
        ...

    def wall(self) -> int:
        """Return the wall clock in microseconds since the epoch, UTC: for instants that people and schedules name."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait in this clock's time."""
        ...
