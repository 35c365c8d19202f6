"""After which time without a heartbeat workers count as lost, in this process and in others."""

from collections.abc import Sequence

from windlass.ports.store.leases import EngineRow, LeaseStore

# How soon a process that owns no shards notices an engine with another timeout.
REFRESH_SECONDS = 0.5


class WorkerTimeout:
    """The shortest timeout of all engines that are alive; that of the settings as long as none is known."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def observe(self, engines: Sequence[EngineRow]) -> None:
        """Accept the engines that are alive. Without any, the last known timeout stays."""
        if engines:
            self.seconds = min(engine.worker_timeout_seconds for engine in engines)

    async def refresh(self, leases: LeaseStore) -> None:
        """Read the engines that are alive."""
        self.observe(await leases.engines())
