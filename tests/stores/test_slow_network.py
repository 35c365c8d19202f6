"""Leases on a PostgreSQL server that is far away."""

import asyncio
from collections.abc import Mapping

from tests.defaults import WORKER_TIMEOUT_SECONDS
from tests.delaying_proxy import delayed
from windlass.clock import SystemClock
from windlass.engine.lease_heartbeat import LeaseHeartbeat
from windlass.engine.shard_lease import ShardLease
from windlass.ports.store.leases import EngineRow
from windlass.stores.postgres.store import PostgresStore

ROUND_TRIP_SECONDS = 0.5
LEASE_SECONDS = 1.5
SHARDS = 32
RENEWALS = 8
ENGINE = EngineRow("far", WORKER_TIMEOUT_SECONDS)


class Owner:
    """Owns shards, and records for how long each renewal was known before the lease expired."""

    def __init__(self) -> None:
        self.leases: list[ShardLease] = []
        self.seconds_left: list[float] = []
        self.asked = 0
        self.valid_until: float | None = None
        self.done = asyncio.Event()

    def epochs(self) -> Mapping[int, int]:
        self.asked += 1
        return {number: lease.epoch for number, lease in enumerate(self.leases)}

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        for number, epoch in epochs.items():
            self.leases[number].renewed(epoch, until)
        if self.valid_until is not None:
            self.seconds_left.append(self.valid_until - asyncio.get_running_loop().time())
        self.valid_until = until
        if len(self.seconds_left) >= RENEWALS:
            self.done.set()


async def test_renewals_are_known_before_the_leases_expire(store: PostgresStore, url: str) -> None:
    async with delayed(url, ROUND_TRIP_SECONDS) as far:
        remote = await PostgresStore.open(far, SystemClock(), connections_max=4)
        owner = Owner()
        heartbeat = LeaseHeartbeat(
            remote.leases, ENGINE, owner, SystemClock(), lease_seconds=LEASE_SECONDS
        )
        # As an engine does before it takes shards. It prepares the statement.
        await heartbeat.renew()
        owner.valid_until = None
        for number in range(SHARDS):
            lease = ShardLease(number, ENGINE, store.leases, LEASE_SECONDS, heartbeat)
            await lease.take()
            owner.leases.append(lease)

        running = asyncio.create_task(heartbeat.run())
        async with asyncio.timeout(60.0):
            await owner.done.wait()
            # Each shard asks at the same time, when its lease is valid no longer.
            before = owner.asked
            for lease in owner.leases:
                lease.renewed(lease.epoch, 0.0)
            await asyncio.gather(*(lease.assert_valid() for lease in owner.leases))
            asked = owner.asked - before
        running.cancel()
        await asyncio.wait({running})
        await remote.close()

    assert min(owner.seconds_left) > 0
    assert asked <= 2
