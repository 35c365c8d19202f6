"""Retention: finished jobs and runs are deleted with all their rows, in small batches."""

from windlass.ports.artifacts import Artifacts
from windlass.ports.clock import Clock
from windlass.ports.store import Store

PRUNE_EVERY_SECONDS = 600.0
PRUNE_JOBS_MAX = 100
# Batches of one call. The next one follows at once: retention keeps up with every rate at which jobs end.
PRUNE_BATCHES_MAX = 1_000
# Other writers run between two batches.
PAUSE_SECONDS = 0.01
_DAY_MICROSECONDS = 86_400_000_000


class Pruner:
    """Deletes jobs that ended more than `retention_days` ago."""

    def __init__(
        self, store: Store, artifacts: Artifacts, clock: Clock, retention_days: float
    ) -> None:
        self._store = store
        self._artifacts = artifacts
        self._clock = clock
        self._retention_days = retention_days

    async def prune(self) -> bool:
        """Delete what is old enough, up to a bound; return whether there may be more."""
        before = self._clock.now() - round(self._retention_days * _DAY_MICROSECONDS)
        for _ in range(PRUNE_BATCHES_MAX):
            deleted = await self._store.jobs.prune(before, PRUNE_JOBS_MAX)
            if deleted:
                # After the rows: a job that is retried at the same time keeps its artifacts.
                await self._artifacts.remove(deleted)
            if len(deleted) < PRUNE_JOBS_MAX:
                return False
            await self._clock.sleep(PAUSE_SECONDS)
        return True
