"""Reading artifacts and parts of them: tasks that read the same artifact share it."""

import asyncio
from collections import Counter

import msgspec
import pytest

from windlass.core.artifacts import INLINE_BYTES_MAX, TaskArtifact
from windlass.core.errors import StoreUnavailable, TemplateFailed
from windlass.ports.artifact_reader import (
    CONCURRENT_ARTIFACTS_MAX,
    KEPT_PARTS_MAX,
    ArtifactReader,
)
from windlass.stores.memory.artifacts import MemoryArtifacts

PATIENCE_SECONDS = 20.0


class CountedArtifacts(MemoryArtifacts):
    """Counts what is fetched, and how many fetches wait for the test at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: Counter[str] = Counter()
        self.waiting = self.waiting_max = 0
        self.changed = asyncio.Condition()
        self.opened = asyncio.Event()
        self.opened.set()

    async def get(self, key: str) -> bytes:
        self.fetched[key] += 1
        self.waiting += 1
        self.waiting_max = max(self.waiting_max, self.waiting)
        async with self.changed:
            self.changed.notify_all()
        try:
            await self.opened.wait()
            return await super().get(key)
        finally:
            self.waiting -= 1


async def store_of(*values: object) -> tuple[CountedArtifacts, list[str]]:
    store = CountedArtifacts()
    return store, [await store.put("j", msgspec.json.encode(value)) for value in values]


async def until_waiting(store: CountedArtifacts, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), store.changed:
        await store.changed.wait_for(lambda: store.waiting >= count)


async def test_a_whole_artifact_and_parts_are_read() -> None:
    store, (key,) = await store_of({"rows": [1, {"x": "é"}]})
    reader = ArtifactReader(store)

    assert await reader.read(TaskArtifact(key)) == '{"rows":[1,{"x":"é"}]}'.encode()
    assert await reader.read(TaskArtifact(key, ("rows", 1, "x"))) == '"é"'.encode()


async def test_a_part_of_a_large_artifact_is_read() -> None:
    rows = [[number, "x" * 1_000] for number in range(3_000)]
    store, (key,) = await store_of({"rows": rows, "n": 1})

    part = await ArtifactReader(store).read(TaskArtifact(key, ("rows",)))

    assert msgspec.json.decode(part) == rows


async def test_tasks_that_read_parts_at_the_same_time_share_one_copy() -> None:
    store, (key,) = await store_of([[number] for number in range(20)])
    reader = ArtifactReader(store)
    store.opened.clear()
    reads = [asyncio.create_task(reader.read(TaskArtifact(key, (n,)))) for n in range(20)]
    await until_waiting(store, 1)
    store.opened.set()

    assert await asyncio.gather(*reads) == [b"[%d]" % number for number in range(20)]
    assert store.fetched[key] == 1


async def test_a_small_part_is_kept_and_a_large_one_is_not() -> None:
    store, (key,) = await store_of({"small": 1, "large": "x" * INLINE_BYTES_MAX})
    reader = ArtifactReader(store)
    for _ in range(3):
        await reader.read(TaskArtifact(key, ("small",)))
    assert store.fetched[key] == 1

    for _ in range(3):
        await reader.read(TaskArtifact(key, ("large",)))
    assert store.fetched[key] == 4


async def test_only_the_last_parts_are_kept() -> None:
    store, (key,) = await store_of(list(range(KEPT_PARTS_MAX + 1)))
    reader = ArtifactReader(store)
    for index in range(KEPT_PARTS_MAX + 1):
        await reader.read(TaskArtifact(key, (index,)))
    fetched = store.fetched[key]

    await reader.read(TaskArtifact(key, (1,)))
    assert store.fetched[key] == fetched
    await reader.read(TaskArtifact(key, (0,)))
    assert store.fetched[key] == fetched + 1


async def test_few_artifacts_are_in_memory_for_their_parts() -> None:
    store, keys = await store_of(*([number, number] for number in range(20)))
    reader = ArtifactReader(store)
    store.opened.clear()
    reads = [asyncio.create_task(reader.read(TaskArtifact(key, (0,)))) for key in keys]
    await until_waiting(store, CONCURRENT_ARTIFACTS_MAX)
    store.opened.set()

    assert await asyncio.gather(*reads) == [b"%d" % number for number in range(20)]
    assert store.waiting_max == CONCURRENT_ARTIFACTS_MAX


async def test_reads_that_fail_or_are_cancelled_leave_room_for_others() -> None:
    store, (key,) = await store_of({"a": 1})
    reader = ArtifactReader(store)
    for _ in range(2 * CONCURRENT_ARTIFACTS_MAX):
        with pytest.raises(TemplateFailed):
            await reader.read(TaskArtifact(key, ("b",)))
        with pytest.raises(StoreUnavailable):
            await ArtifactReader(UnavailableArtifacts()).read(TaskArtifact(key, ("a",)))
    store.opened.clear()
    for _ in range(2 * CONCURRENT_ARTIFACTS_MAX):
        read = asyncio.create_task(reader.read(TaskArtifact(key, ("a",))))
        await until_waiting(store, 1)
        read.cancel()
        await asyncio.wait([read])
    store.opened.set()

    assert await reader.read(TaskArtifact(key, ("a",))) == b"1"


class UnavailableArtifacts(MemoryArtifacts):
    async def get(self, key: str) -> bytes:
        raise StoreUnavailable("the disk is full")
