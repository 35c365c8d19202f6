"""One heartbeat for all leases of a process: a renewal is one round trip, and concurrent callers share it."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from windlass.ports.clock import Clock
from windlass.ports.outage_log import OUTAGES, OutageLog
from windlass.ports.store.leases import EngineRow, LeaseStore

# Renewals within the life of a lease: two may fail before it expires.
RENEWALS_PER_LEASE = 3
# The pause after a renewal that failed: the lease runs out meanwhile.
RETRY_SECONDS = 0.1

log = logging.getLogger("windlass.engine")


class LeaseOwner(Protocol):
    """What owns the shards of this process."""

    def epochs(self) -> Mapping[int, int]:
        """Return the shards that this process owns or is taking, and the epochs under which they commit."""
        ...

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        """Record that leases (shard -> epoch) are valid until then, by the clock of the event loop."""
        ...


class Renewal:
    """A renewal of leases: those that it asked for, and those that were still the engine's own."""

    def __init__(self, asked: Mapping[int, int], renewed: Mapping[int, int]) -> None:
        self.asked = asked
        self.renewed = renewed


class LeaseHeartbeat:
    """Renews the leases of an engine, again and again, and at once when a shard asks for it."""

    def __init__(
        self,
        leases: LeaseStore,
        engine: EngineRow,
        owner: LeaseOwner,
        clock: Clock,
        *,
        lease_seconds: float,
    ) -> None:
        self._leases = leases
        self._engine = engine
        self._owner = owner
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._interval_seconds = lease_seconds / RENEWALS_PER_LEASE
        self._renewing: asyncio.Future[Renewal] | None = None

    async def run(self) -> None:
        """Renew until cancelled. The interval is that between two starts: a slow answer delays no renewal."""
        outages = OutageLog(log)
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self.renew()
            except OUTAGES as error:
                outages.failed("leases cannot be renewed", error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            outages.succeeded()
            passed = asyncio.get_running_loop().time() - began
            await self._clock.sleep(max(0.0, self._interval_seconds - passed))

    async def renew(self) -> Renewal:
        """Renew all leases, or join the renewal that is under way. CommitUnknown, StoreUnavailable."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
            # Its callers may all be cancelled before it fails.
            self._renewing.add_done_callback(lambda done: done.cancelled() or done.exception())
        # A caller that is cancelled leaves the renewal to the others.
        return await asyncio.shield(self._renewing)

    async def wait_ended(self) -> None:
        """Wait for the renewal that is under way: after it, an engine that left would count as alive."""
        if self._renewing is not None and not self._renewing.done():
            await asyncio.wait({self._renewing})

    async def _renew(self) -> Renewal:
        asked = {shard: epoch for shard, epoch in self._owner.epochs().items() if epoch}
        # From before the request, because its answer may take long.
        until = asyncio.get_running_loop().time() + self._lease_seconds
        renewed = await self._leases.renew(self._engine, asked, self._lease_seconds)
        self._owner.renewed(renewed, until)
        return Renewal(asked, renewed)
