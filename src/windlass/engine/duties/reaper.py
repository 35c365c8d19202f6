"""Returns the tasks of lost workers to their queues, and forgets workers that were stale for long."""

from windlass.core.instants import MICROSECONDS
from windlass.engine.config import Duties
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock


class Reaper:
    """Looks for workers without heartbeats every `worker_check_seconds`."""

    def __init__(self, broker: Broker, clock: Clock, settings: Duties) -> None:
        self._broker = broker
        self._clock = clock
        self._settings = settings
        self._checked_at = clock.now()

    async def reap(self) -> None:
        """Return the tasks of lost workers, unless this process itself was paused and may have missed heartbeats."""
        now = self._clock.now()
        was_paused = now - self._checked_at > 2 * self._settings.worker_check_seconds * MICROSECONDS
        self._checked_at = now
        if not was_paused:
            await self._broker.reclaim(self._settings.worker_timeout_seconds)
            await self._broker.forget_workers(self._settings.worker_retention_seconds)
