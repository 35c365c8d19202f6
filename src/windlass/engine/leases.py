"""Distributes the shards over the live engines: claims free shards, gives back those beyond a fair part."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol
from zlib import crc32

from windlass.engine.lease_heartbeat import RENEWALS_PER_LEASE, LeaseHeartbeat
from windlass.engine.worker_timeout import WorkerTimeout
from windlass.ports.outage_log import OutageLog
from windlass.ports.store import Store
from windlass.ports.store.leases import EngineRow, LeaseRow, Ownership

# Shards that are given back at once: their jobs pause for a moment.
GIVEN_BACK_MAX = 4

log = logging.getLogger("windlass.engine")


class LeaseHolder(Protocol):
    """What takes and gives back the shards of this process."""

    def epochs(self) -> Mapping[int, int]:
        """Return the shards that this process owns or is taking, and the epochs under which they commit."""
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
        heartbeat: LeaseHeartbeat,
        lease_seconds: float,
        worker_timeout: WorkerTimeout,
    ) -> None:
        self.interval_seconds = lease_seconds / RENEWALS_PER_LEASE
        self._store = store
        self._heartbeat = heartbeat
        self._owner = engine.owner
        self._total = total
        self._holder = holder
        self._worker_timeout = worker_timeout
        # Shards that are being given back. It may take long, and all leases must be renewed meanwhile.
        self._giving_back: dict[int, asyncio.Future[None]] = {}

    async def rebalance(self) -> None:
        """Claim or give back shards to own a fair part of them, after a renewal of the leases."""
        await self._heartbeat.renew()
        seen = await self._store.leases.ownership()
        self._worker_timeout.observe(seen.engines)
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
