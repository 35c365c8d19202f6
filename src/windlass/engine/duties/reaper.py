"""Returns the tasks of lost workers to their queues."""

from windlass.core.instants import MICROSECONDS
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock


class Reaper:
    """Looks for workers that sent no heartbeat for `timeout_seconds`, every `check_seconds`."""

    def __init__(
        self, broker: Broker, clock: Clock, timeout_seconds: float, check_seconds: float
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._check_seconds = check_seconds
        self._checked_at = clock.now()

    async def reap(self) -> None:
        """Return the tasks of lost workers, unless this process itself was paused and may have missed heartbeats."""
        now = self._clock.now()
        was_paused = now - self._checked_at > 2 * self._check_seconds * MICROSECONDS
        self._checked_at = now
        if not was_paused:
            await self._broker.reclaim(self._timeout_seconds)
