"""Engines distribute the shards and renew their leases while shards are being given back."""

import asyncio
from collections.abc import Mapping

from tests.defaults import WORKER_TIMEOUT_SECONDS
from windlass.clock import SystemClock
from windlass.engine.lease_heartbeat import LeaseHeartbeat
from windlass.engine.leases import Leases
from windlass.engine.worker_timeout import WorkerTimeout
from windlass.ports.store.leases import EngineRow
from windlass.stores.memory.store import MemoryStore

TOTAL = 4
LEASE_SECONDS = 60.0


class Owner:
    """Owns shards without running them; giving one back takes as long as the test wants."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.name = name
        self.claimed: dict[int, int] = {}
        self.wanted: set[int] = set()
        self.renewals: dict[int, int] = {}
        self.may_give_back = asyncio.Event()
        self.worker_timeout = WorkerTimeout(WORKER_TIMEOUT_SECONDS)
        self.heartbeat = LeaseHeartbeat(
            store.leases,
            EngineRow(name, WORKER_TIMEOUT_SECONDS),
            self,
            SystemClock(),
            lease_seconds=LEASE_SECONDS,
        )
        self.leases = Leases(
            store,
            EngineRow(name, WORKER_TIMEOUT_SECONDS),
            self,
            total=TOTAL,
            heartbeat=self.heartbeat,
            lease_seconds=LEASE_SECONDS,
            worker_timeout=self.worker_timeout,
        )
        self._store = store

    def epochs(self) -> Mapping[int, int]:
        return {number: self.claimed.get(number, 0) for number in self.wanted}

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        self.renewals = dict(epochs)

    def hold(self, number: int) -> None:
        self.wanted.add(number)

    async def give_back(self, number: int) -> None:
        await self.may_give_back.wait()
        await self._store.leases.release(number, self.claimed[number])
        self.wanted.discard(number)

    async def rebalance(self) -> None:
        await self.leases.rebalance()
        for number in sorted(self.wanted - self.claimed.keys()):
            lease = await self._store.leases.claim(number, self.name, LEASE_SECONDS)
            assert lease is not None
            self.claimed[number] = lease.epoch


async def test_the_only_engine_takes_all_shards() -> None:
    one = Owner(MemoryStore(SystemClock()), "one")

    await one.rebalance()

    assert one.wanted == {0, 1, 2, 3}


async def test_leases_are_renewed_while_shards_are_slow_to_be_given_back() -> None:
    store = MemoryStore(SystemClock())
    one, two = Owner(store, "one"), Owner(store, "two")
    await one.rebalance()
    await two.rebalance()

    async with asyncio.timeout(5.0):
        await one.rebalance()
        await one.rebalance()

    assert one.wanted == {0, 1, 2, 3}
    one.may_give_back.set()
    await one.leases.wait_given_back()
    assert len(one.wanted) == TOTAL // 2
    await two.rebalance()
    assert one.wanted | two.wanted == {0, 1, 2, 3}


async def test_rebalancing_reports_the_leases_that_it_renewed() -> None:
    store = MemoryStore(SystemClock())
    one = Owner(store, "one")
    await one.rebalance()
    await store.leases.take(2, "two")

    await one.rebalance()

    assert one.renewals == {0: 1, 1: 1, 3: 1}
