"""The batcher: which calls share a batch, the order of batches, and which calls failures and cancellations affect."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass.concurrency.batcher import Batcher


class Batches:
    """Records batches. Each waits until the test releases it, and returns the double of every item."""

    def __init__(self) -> None:
        self.started: list[list[int]] = []
        self.ended: list[list[int]] = []
        self.failures: dict[int, Exception] = {}
        self._releases: list[asyncio.Event] = []

    async def run(self, items: Sequence[int]) -> Sequence[int]:
        release = asyncio.Event()
        self._releases.append(release)
        self.started.append(list(items))
        await release.wait()
        self.ended.append(list(items))
        for item in items:
            if item in self.failures:
                raise self.failures[item]
        return [2 * item for item in items]

    def release(self, number: int) -> None:
        self._releases[number].set()


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def calls(batcher: Batcher[int, int], *items: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(batcher.call(item)) for item in items]


async def test_concurrent_calls_share_a_batch_and_each_gets_its_own_result() -> None:
    batches = Batches()
    batcher = Batcher(batches.run, batch_max=10, in_flight_max=1)

    made = calls(batcher, 1, 2, 3)
    await settle()
    batches.release(0)

    assert await asyncio.gather(*made) == [2, 4, 6]
    assert batches.started == [[1, 2, 3]]


async def test_calls_during_a_batch_form_the_next_one() -> None:
    batches = Batches()
    batcher = Batcher(batches.run, batch_max=10, in_flight_max=1)

    made = calls(batcher, 1)
    await settle()
    made += calls(batcher, 2, 3)
    await settle()
    assert batches.started == [[1]]
    batches.release(0)
    await settle()

    assert batches.started == [[1], [2, 3]]
    batches.release(1)
    assert await asyncio.gather(*made) == [2, 4, 6]


async def test_a_caller_can_call_again_as_soon_as_it_has_its_result() -> None:
    async def run(items: Sequence[int]) -> Sequence[int]:
        return [2 * item for item in items]

    batcher = Batcher(run, batch_max=10, in_flight_max=1)

    async with asyncio.timeout(5):
        assert [await batcher.call(item) for item in (1, 2, 3)] == [2, 4, 6]


async def test_a_batch_has_at_most_batch_max_items_in_the_order_of_the_calls() -> None:
    batches = Batches()
    batcher = Batcher(batches.run, batch_max=2, in_flight_max=1)

    made = calls(batcher, *range(5, 0, -1))
    for number in range(3):
        await settle()
        batches.release(number)

    assert await asyncio.gather(*made) == [10, 8, 6, 4, 2]
    assert batches.started == [[5, 4], [3, 2], [1]]


async def test_no_more_than_in_flight_max_batches_run_and_they_end_in_any_order() -> None:
    batches = Batches()
    batcher = Batcher(batches.run, batch_max=10, in_flight_max=2)

    made: list[asyncio.Task[int]] = []
    for item in (1, 2, 3, 4):
        made += calls(batcher, item)
        await settle()
    assert batches.started == [[1], [2]]
    batches.release(1)
    await settle()

    assert batches.ended == [[2]]
    assert batches.started == [[1], [2], [3, 4]]
    batches.release(0)
    batches.release(2)
    assert await asyncio.gather(*made) == [2, 4, 6, 8]


async def test_a_failing_batch_fails_its_callers_and_no_others() -> None:
    batches = Batches()
    batches.failures[1] = ValueError("refused")
    batcher = Batcher(batches.run, batch_max=2, in_flight_max=1)

    made = calls(batcher, 1, 2, 3)
    for number in range(2):
        await settle()
        batches.release(number)

    for failed in made[:2]:
        with pytest.raises(ValueError, match="refused"):
            await failed
    assert await made[2] == 6


async def test_a_cancelled_caller_does_not_affect_the_others_of_its_batch() -> None:
    batches = Batches()
    batcher = Batcher(batches.run, batch_max=10, in_flight_max=1)

    made = calls(batcher, 1, 2, 3)
    await settle()
    made[0].cancel()
    await settle()
    batches.release(0)

    assert await asyncio.gather(*made[1:]) == [4, 6]
    assert made[0].cancelled()
    assert batches.ended == [[1, 2, 3]]


async def test_a_call_cancelled_before_its_batch_starts_is_not_in_it() -> None:
    batches = Batches()
    batcher = Batcher(batches.run, batch_max=10, in_flight_max=1)

    first = calls(batcher, 1)
    await settle()
    waiting = calls(batcher, 2, 3)
    await settle()
    waiting[0].cancel()
    batches.release(0)
    await settle()
    batches.release(1)

    assert await asyncio.gather(*first, waiting[1]) == [2, 6]
    assert batches.started == [[1], [3]]


async def test_a_wrong_number_of_results_fails_the_batch() -> None:
    async def run(items: Sequence[int]) -> Sequence[int]:
        return [1]

    batcher = Batcher(run, batch_max=10, in_flight_max=1)

    for outcome in await asyncio.gather(*calls(batcher, 1, 2), return_exceptions=True):
        assert str(outcome) == "wrong number of results: 1 for 2 items"


async def test_callers_are_cancelled_when_their_batch_is() -> None:
    async def run(items: Sequence[int]) -> Sequence[int]:
        raise asyncio.CancelledError

    batcher = Batcher(run, batch_max=10, in_flight_max=1)

    [made] = calls(batcher, 1)
    await asyncio.wait([made])
    assert made.cancelled()
