"""Retention: finished jobs are removed with all their rows, in small batches."""

from windlass.ports.artifacts import Artifacts
from windlass.ports.clock import Clock
from windlass.ports.store import Store

PRUNE_EVERY_SECONDS = 600.0
PRUNE_JOBS_MAX = 100
# Batches of one turn: the rest waits for the next, so that a long history never holds the writer for long.
PRUNE_BATCHES_MAX = 1_000
# Between batches others may write.
PAUSE_SECONDS = 0.01
_DAY_MICROSECONDS = 86_400_000_000


class Pruner:
    """Removes jobs that ended more than `retention_days` ago."""

    def __init__(self, store: Store, artifacts: Artifacts, clock: Clock, retention_days: float) -> None:
        self._store = store
        self._artifacts = artifacts
        self._clock = clock
        self._retention_days = retention_days

    async def prune(self) -> int:
        """Remove what is old enough; how many jobs."""
        before = self._clock.now() - round(self._retention_days * _DAY_MICROSECONDS)
        total = 0
        for _ in range(PRUNE_BATCHES_MAX):
            gone = await self._store.jobs.prune(before, PRUNE_JOBS_MAX)
            if gone:
                # After the rows: a job that somebody retried at this very moment keeps what it needs.
                await self._artifacts.remove(gone)
            total += len(gone)
            if len(gone) < PRUNE_JOBS_MAX:
                break
            await self._clock.sleep(PAUSE_SECONDS)
        return total
