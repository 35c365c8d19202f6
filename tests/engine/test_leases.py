"""Engines spread the shards, and go on saying that they live while a shard takes its time to change hands."""

import asyncio
from collections.abc import Mapping

from windlass.clock import SystemClock
from windlass.engine.leases import Leases
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
        self.may_give = asyncio.Event()
        self.leases = Leases(store, name, self, total=TOTAL, lease_seconds=LEASE_SECONDS)
        self._store = store

    def epochs(self) -> Mapping[int, int]:
        return {number: self.claimed.get(number, 0) for number in self.wanted}

    def renewed(self, epochs: Mapping[int, int], until: float) -> None:
        self.renewals = dict(epochs)

    def hold(self, number: int) -> None:
        self.wanted.add(number)

    async def give_back(self, number: int) -> None:
        await self.may_give.wait()
        await self._store.leases.release(number, self.claimed[number])
        self.wanted.discard(number)

    async def look(self) -> None:
        await self.leases.rebalance()
        for number in sorted(self.wanted - self.claimed.keys()):
            lease = await self._store.leases.claim(number, self.name, LEASE_SECONDS)
            assert lease is not None
            self.claimed[number] = lease.epoch


async def test_an_engine_alone_takes_all_shards() -> None:
    one = Owner(MemoryStore(SystemClock()), "one")

    await one.look()

    assert one.wanted == {0, 1, 2, 3}


async def test_an_engine_looks_on_while_shards_are_slow_to_be_given_back() -> None:
    store = MemoryStore(SystemClock())
    one, two = Owner(store, "one"), Owner(store, "two")
    await one.look()
    await two.look()

    async with asyncio.timeout(5.0):
        await one.look()
        await one.look()

    assert one.wanted == {0, 1, 2, 3}
    one.may_give.set()
    await one.leases.wait_given_back()
    assert len(one.wanted) == TOTAL // 2
    await two.look()
    assert one.wanted | two.wanted == {0, 1, 2, 3}


async def test_a_look_tells_which_leases_it_renewed() -> None:
    store = MemoryStore(SystemClock())
    one = Owner(store, "one")
    await one.look()
    await store.leases.take(2, "two")

    await one.look()

    assert one.renewals == {0: 1, 1: 1, 3: 1}
