"""Reports a wall clock that was set while the process runs: schedules follow it, durations do not."""

import logging

from windlass.core.instants import MICROSECONDS
from windlass.ports.clock import Clock

CHECK_SECONDS = 10.0
# A change that is smaller is of no interest to anybody.
STEP_SECONDS_MIN = 5.0

log = logging.getLogger("windlass.engine")


class ClockWatcher:
    """Compares the wall clock with the time of the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0

    async def check(self) -> None:
        """Log a step of the wall clock since the last check."""
        ahead = (self._clock.wall() - self._clock.now()) / MICROSECONDS
        step = ahead - self._ahead
        if abs(step) < STEP_SECONDS_MIN:
            return
        self._ahead = ahead
        log.warning(
            "the wall clock was set by %+.0f s; schedules follow it, and instants of jobs and runs stay by the time "
            "since the start of this process, %+.0f s from it: restart the process at a quiet moment",
            step,
            ahead,
        )
