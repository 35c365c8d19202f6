"""Distributes the shards over the live engines: claims free shards, gives back those beyond a fair part."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol
from zlib import crc32

from windlass.engine.worker_timeout import WorkerTimeout
from windlass.ports.outage_log import OutageLog
from windlass.ports.store import Store
from windlass.ports.store.leases import EngineRow, LeaseRow, Ownership

# Renewals within the life of a lease: two may fail before it expires.
RENEWALS_PER_LEASE = 3
# Shards that are given back at once: their jobs pause for a moment.
GIVEN_BACK_MAX = 4

log = logging.getLogger("windlass.engine")


class LeaseHolder(Protocol):
    """What owns the shards of this process."""

    def epochs(self) -> Mapping[int, int]:
        """Return the shards that this process owns or is taking, and the epochs under which they commit."""
        ...

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        """Record that leases (shard -> epoch) are valid until then, by the clock of the event loop."""
        ...

    def hold(self, number: int) -> None:
        """Start to own a shard, unless another engine has it."""
        ...

    async def give_back(self, number: int) -> None:
        """Finish the current batch of a shard and release its lease."""
        ...


class Leases:
    """One engine's part in the distribution. There is no leader: every engine reads the same rows."""

    def __init__(
        self,
        store: Store,
        engine: EngineRow,
        holder: LeaseHolder,
        *,
        total: int,
        lease_seconds: float,
        worker_timeout: WorkerTimeout,
    ) -> None:
        self.interval_seconds = lease_seconds / RENEWALS_PER_LEASE
        self._store = store
        self._engine = engine
        self._owner = engine.owner
        self._total = total
        self._lease_seconds = lease_seconds
        self._holder = holder
        self._worker_timeout = worker_timeout
        # Shards that are being given back. It may take long, and all leases must be renewed meanwhile.
        self._giving_back: dict[int, asyncio.Future[None]] = {}

    async def rebalance(self) -> None:
        """Renew the leases of this engine, then claim or give back shards to own a fair part of them."""
        epochs = {number: epoch for number, epoch in self._holder.epochs().items() if epoch}
        # From before the query, because its answer may take long.
        until = asyncio.get_running_loop().time() + self._lease_seconds
        seen = await self._store.leases.renew(self._engine, epochs, self._lease_seconds)
        self._worker_timeout.observe(seen.engines)
        self._holder.renewed(
            {row.shard: row.epoch for row in seen.leases if row.owner == self._owner}, until
        )
        kept = [
            number for number in sorted(self._holder.epochs()) if number not in self._giving_back
        ]
        fair = -(-self._total // max(1, len(seen.engines)))
        surplus = kept[fair:]
        for number in surplus[: max(0, GIVEN_BACK_MAX - len(self._giving_back))]:
            self._giving_back[number] = asyncio.ensure_future(self._give_back(number))
        for number in self._free(seen)[: max(0, fair - len(kept))]:
            self._holder.hold(number)

    async def _give_back(self, number: int) -> None:
        try:
            await self._holder.give_back(number)
        except Exception as error:
            OutageLog(log).failed(
                f"shard {number} could not be given back; its lease will expire", error
            )
        finally:
            del self._giving_back[number]

    async def wait_given_back(self) -> None:
        """Wait for the shards that are being given back."""
        await asyncio.gather(*self._giving_back.values())

    def _free(self, seen: Ownership) -> list[int]:
        """Return the shards without an owner, starting at a different one in each engine to avoid collisions."""
        rows: dict[int, LeaseRow] = {row.shard: row for row in seen.leases}
        own = self._holder.epochs()
        start = crc32(self._owner.encode()) % self._total
        order = [(start + step) % self._total for step in range(self._total)]
        return [number for number in order if number not in own and _is_free(rows.get(number))]


def _is_free(row: LeaseRow | None) -> bool:
    return row is None or row.owner is None or row.expired
