"""Spreads the shards over the engines that live: claims what nobody has, gives back what is more than a fair part."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol
from zlib import crc32

from windlass.ports.store import Store
from windlass.ports.store.leases import LeaseRow, Ownership

# Looks within the life of a lease: two may fail before it is lost.
LOOKS_PER_LEASE = 3
# Shards given back at one look: their jobs pause for a moment, so not all at once.
GIVEN_BACK_MAX = 4

log = logging.getLogger("windlass.engine")


class Holder(Protocol):
    """What owns shards: the engine."""

    def holds(self) -> Mapping[int, int]:
        """The shards that it has or is about to have, and the epochs under which it writes."""
        ...

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        """Note that leases (shard -> epoch) last until then, by the loop's clock."""
        ...

    def hold(self, number: int) -> None:
        """Begin to own a shard, as far as nobody else does."""
        ...

    async def give_back(self, number: int) -> None:
        """Let another engine have a shard."""
        ...


class Leases:
    """One engine's part in the spreading. Nobody leads: each looks at the same rows and takes its fair part."""

    def __init__(self, store: Store, owner: str, total: int, lease_seconds: float, holder: Holder) -> None:
        self._store = store
        self._owner = owner
        self._total = total
        self._lease_seconds = lease_seconds
        self._holder = holder
        self.look_seconds = lease_seconds / LOOKS_PER_LEASE
        # Shards on their way to others. They may take long, and all leases must be renewed meanwhile.
        self._giving: dict[int, asyncio.Future[None]] = {}

    async def look(self) -> None:
        """Renew what this engine has, then take or give back what the fair part asks for."""
        epochs = {number: epoch for number, epoch in self._holder.holds().items() if epoch}
        # From before the question: the answer may be long on its way.
        until = asyncio.get_running_loop().time() + self._lease_seconds
        seen = await self._store.leases.renew(self._owner, epochs, self._lease_seconds)
        self._holder.renewed({row.shard: row.epoch for row in seen.leases if row.owner == self._owner}, until)
        kept = [number for number in sorted(self._holder.holds()) if number not in self._giving]
        fair = -(-self._total // max(1, len(seen.engines)))
        surplus = kept[fair:]
        for number in surplus[: max(0, GIVEN_BACK_MAX - len(self._giving))]:
            self._giving[number] = asyncio.ensure_future(self._give_back(number))
        for number in self._free(seen)[: max(0, fair - len(kept))]:
            self._holder.hold(number)

    async def _give_back(self, number: int) -> None:
        try:
            await self._holder.give_back(number)
        except Exception:
            log.exception("shard %d could not be given back; its lease will end by itself", number)
        finally:
            del self._giving[number]

    async def settle(self) -> None:
        """Wait for the shards that are on their way to others."""
        await asyncio.gather(*self._giving.values())

    def _free(self, seen: Ownership) -> list[int]:
        """Shards that nobody has, in an order of this engine's own: others look at the same moment."""
        rows: dict[int, LeaseRow] = {row.shard: row for row in seen.leases}
        held = self._holder.holds()
        start = crc32(self._owner.encode()) % self._total
        order = [(start + step) % self._total for step in range(self._total)]
        return [number for number in order if number not in held and _is_free(rows.get(number))]


def _is_free(row: LeaseRow | None) -> bool:
    return row is None or row.owner is None or row.expired
