"""Leases and engines in dictionaries."""

from collections.abc import Mapping, Sequence

from windlass.core.instants import MICROSECONDS
from windlass.ports.store.leases import Deployment, EngineRow, Lease, LeaseRow, Ownership
from windlass.stores.memory.tables import Tables


class MemoryLeases:
    """The LeaseStore contract in the memory of one process."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._epochs: dict[int, int] = {}
        self._owners: dict[int, str] = {}
        self._expiries: dict[int, int] = {}
        # With their expiries, by owner.
        self._engines: dict[str, tuple[EngineRow, int]] = {}
        self._deployment: Deployment | None = None

    def newest_epoch(self, shard: int) -> int | None:
        """Return the epoch of the shard's newest lease, if there was one."""
        return self._epochs.get(shard)

    async def take(self, shard: int, owner: str) -> Lease:
        self._tables.check_open()
        return self._own(shard, owner)

    async def claim(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        self._tables.check_open()
        now = self._tables.clock.now()
        if self._owners.get(shard, owner) != owner and not self._is_expired(shard, now):
            return None
        lease = self._own(shard, owner)
        self._expiries[shard] = now + round(ttl_seconds * MICROSECONDS)
        return lease

    async def renew(
        self, engine: EngineRow, leases: Mapping[int, int], ttl_seconds: float
    ) -> Mapping[int, int]:
        self._tables.check_open()
        expires_at = self._tables.clock.now() + round(ttl_seconds * MICROSECONDS)
        self._engines[engine.owner] = (engine, expires_at)
        renewed: dict[int, int] = {}
        for shard, epoch in leases.items():
            if self._owners.get(shard) == engine.owner and self._epochs.get(shard) == epoch:
                self._expiries[shard] = expires_at
                renewed[shard] = epoch
        return renewed

    async def release(self, shard: int, epoch: int) -> None:
        self._tables.check_open()
        if self._epochs.get(shard) == epoch:
            self._owners.pop(shard, None)
            self._expiries.pop(shard, None)

    async def epoch(self, shard: int) -> int:
        return self._epochs.get(shard, 0)

    async def ownership(self) -> Ownership:
        self._tables.check_open()
        now = self._tables.clock.now()
        leases: list[LeaseRow] = []
        for shard, epoch in sorted(self._epochs.items()):
            owner = self._owners.get(shard)
            expired = self._is_expired(shard, now)
            leases.append(
                LeaseRow(shard, owner, epoch, expired=expired, expires_at=self._expiries.get(shard))
            )
        return Ownership(await self.engines(), leases)

    async def engines(self) -> Sequence[EngineRow]:
        self._tables.check_open()
        now = self._tables.clock.now()
        return [engine for _, (engine, expiry) in sorted(self._engines.items()) if expiry > now]

    async def join_deployment(self, deployment: Deployment) -> Deployment:
        self._tables.check_open()
        if self._deployment is None:
            self._deployment = deployment
        return self._deployment

    async def probe(self, now: int) -> None:
        self._tables.check_open()

    async def deregister(self, owner: str) -> None:
        self._tables.check_open()
        self._engines.pop(owner, None)

    def _own(self, shard: int, owner: str) -> Lease:
        abandoned = shard in self._owners
        self._owners[shard] = owner
        self._expiries.pop(shard, None)
        epoch = self._epochs[shard] = self._epochs.get(shard, 0) + 1
        return Lease(epoch, abandoned=abandoned)

    def _is_expired(self, shard: int, now: int) -> bool:
        return shard in self._owners and self._expiries.get(shard, now + 1) <= now
