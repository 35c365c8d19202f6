"""The version that a request names: a number, an alias, or the newest."""

from collections import Counter

import pytest
from msgspec import Raw

from windlass.clock import SystemClock
from windlass.core.errors import WorkflowNotFound
from windlass.engine.version_selection import VersionResolver, stable_choice
from windlass.ports.store.workflows import LATEST, AliasTarget
from windlass.stores.memory.store import MemoryStore


@pytest.fixture
async def resolver() -> VersionResolver:
    store = MemoryStore(SystemClock())
    for digest in ("one", "two", "three"):
        await store.workflows.put("flow", Raw(b"{}"), digest, 0)
    await store.workflows.put_alias("flow", "stable", [AliasTarget(1)], 0)
    await store.workflows.put_alias("flow", "split", [AliasTarget(1, 1), AliasTarget(2, 3)], 0)
    return VersionResolver(store)


def no_choice(shares: int) -> int:
    raise AssertionError(f"nothing to choose among {shares} shares")


@pytest.mark.parametrize(("wanted", "version"), [(None, 3), (LATEST, 3), (2, 2)])
async def test_a_number_or_the_newest_version_needs_no_choice(
    resolver: VersionResolver, wanted: int | str | None, version: int
) -> None:
    assert await resolver.resolve("flow", wanted, no_choice, {}) == version


@pytest.mark.parametrize(("share", "version"), [(0, 1), (1, 2), (3, 2)])
async def test_a_choice_selects_among_the_shares_of_an_alias(
    resolver: VersionResolver, share: int, version: int
) -> None:
    assert await resolver.resolve("flow", "split", lambda shares: share, {}) == version


async def test_an_alias_of_one_version_is_that_version(resolver: VersionResolver) -> None:
    assert await resolver.resolve("flow", "stable", stable_choice("key"), {}) == 1


async def test_a_stable_choice_is_the_same_for_the_same_key_and_follows_the_weights(
    resolver: VersionResolver,
) -> None:
    keys = [f"job-{number}" for number in range(400)]

    first = [await resolver.resolve("flow", "split", stable_choice(key), {}) for key in keys]
    second = [await resolver.resolve("flow", "split", stable_choice(key), {}) for key in keys]

    assert first == second
    assert 240 < Counter(first)[2] < 360


@pytest.mark.parametrize(
    ("wanted", "message"),
    [(4, "has no version 4"), (0, "has no version 0"), ("stabel", "did you mean 'stable'")],
)
async def test_a_missing_version_or_alias_is_refused(
    resolver: VersionResolver, wanted: int | str, message: str
) -> None:
    with pytest.raises(WorkflowNotFound, match=message):
        await resolver.resolve("flow", wanted, no_choice, {})
