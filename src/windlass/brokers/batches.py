"""Splitting large calls into several smaller ones."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

# Items with a body per call. A script of Redis blocks the server while it runs: a few milliseconds at most.
BATCH_MAX = 500
BATCH_BYTES_MAX = 4 * 1024 * 1024
# Ids per call.
LOOKUP_MAX = 5_000

Item = TypeVar("Item")


def batches(
    items: Iterable[Item], size_of: Callable[[Item], int], count_max: int
) -> Iterable[list[Item]]:
    """Split items into lists of at most `count_max` items and about BATCH_BYTES_MAX bytes."""
    batch: list[Item] = []
    batch_size = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) >= count_max or batch_size + size > BATCH_BYTES_MAX):
            yield batch
            batch, batch_size = [], 0
        batch.append(item)
        batch_size += size
    if batch:
        yield batch


def slices(items: Sequence[Item], count_max: int) -> Iterable[Sequence[Item]]:
    """Split a sequence into slices of at most `count_max` items."""
    for start in range(0, len(items), count_max):
        yield items[start : start + count_max]
