"""The lease of one shard: taking it, and proving that it is valid before anything is published or acknowledged."""

import asyncio
import math

from windlass.core.errors import StaleLease, StoreUnavailable
from windlass.engine.lease_heartbeat import LeaseHeartbeat
from windlass.ports.store.leases import EngineRow, LeaseStore

# How often a lease that may have expired is renewed before the shard gives up.
RENEWALS_MAX = 3


class ShardLease:
    """The lease of one shard, as its owner knows it."""

    def __init__(
        self,
        shard: int,
        engine: EngineRow,
        leases: LeaseStore,
        ttl_seconds: float | None,
        heartbeat: LeaseHeartbeat | None,
    ) -> None:
        self.owner = engine.owner
        # The epoch under which the shard commits; 0 before the lease is taken.
        self.epoch = 0
        # Whether the last owner lost the shard instead of giving it back: what its workers ran may be lost too.
        self.is_abandoned = False
        self._shard = shard
        self._heartbeat = heartbeat
        self._leases = leases
        # None: this owner is the only one and takes the shard from any former owner, and keeps it.
        self._ttl_seconds = ttl_seconds
        # By the clock of the event loop, which cannot be set.
        self._valid_until = math.inf

    async def take(self) -> None:
        """Take the shard under a new epoch. StaleLease if another owner has it."""
        if self._ttl_seconds is None:
            lease = await self._leases.take(self._shard, self.owner)
        else:
            now = asyncio.get_running_loop().time()
            claimed = await self._leases.claim(self._shard, self.owner, self._ttl_seconds)
            if claimed is None:
                raise StaleLease(f"shard {self._shard} has another owner")
            self._valid_until = now + self._ttl_seconds
            lease = claimed
        self.epoch = lease.epoch
        self.is_abandoned = lease.abandoned

    def renewed(self, epoch: int, until: float) -> None:
        """Record that the lease is valid until then, by the clock of the event loop."""
        if epoch == self.epoch:
            self._valid_until = until

    def _is_valid(self) -> bool:
        return asyncio.get_running_loop().time() < self._valid_until

    async def assert_valid(self) -> None:
        """Renew a lease that may have expired: a process that was paused since its commit cannot know. StaleLease."""
        if self._heartbeat is None:
            return
        epoch = self.epoch
        for _ in range(RENEWALS_MAX):
            if self._is_valid():
                return
            # Shared with the other shards. One that is under way may have begun before this shard was taken.
            renewal = await self._heartbeat.renew()
            if renewal.asked.get(self._shard) == epoch != renewal.renewed.get(self._shard):
                raise StaleLease(
                    f"shard {self._shard} has another owner; the lease of epoch {epoch} has expired"
                )
        if self._is_valid():
            return
        raise StoreUnavailable(
            f"lease of shard {self._shard} expires before its renewal is confirmed: {self._ttl_seconds:g} s; "
            "raise engine.lease_seconds"
        )

    async def check_owner(self) -> None:
        """Raise StaleLease if the shard has another owner."""
        epoch = self.epoch
        newest = await self._leases.epoch(self._shard)
        # This owner may have taken the shard again in the meantime.
        if newest != epoch == self.epoch:
            raise StaleLease(f"shard {self._shard} has a new owner (epoch {newest}, not {epoch})")

    async def release(self) -> None:
        """Give the lease back: tasks in flight were handed over, not lost."""
        await self._leases.release(self._shard, self.epoch)
