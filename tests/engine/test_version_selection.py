"""The version that a request names: a number, an alias, or the newest."""

from collections import Counter

import pytest

from windlass.clock import SystemClock
from windlass.core.errors import WorkflowNotFound
from windlass.engine.plan_cache import Plans
from windlass.engine.version_selection import VersionCache, VersionResolver, stable_choice
from windlass.factory import compile_stored
from windlass.ports.store.workflows import LATEST, AliasTarget
from windlass.spec.definition import Definition, NodeDefinition
from windlass.spec.stored_form import definition_json, digest
from windlass.stores.memory.store import MemoryStore


@pytest.fixture
async def resolver() -> VersionResolver:
    store = await store_with(default_alias=None)
    await store.workflows.put_alias("flow", "stable", [AliasTarget(1)], 0)
    await store.workflows.put_alias("flow", "split", [AliasTarget(1, 1), AliasTarget(2, 3)], 0)
    return resolver_of(store)


async def store_with(default_alias: str | None) -> MemoryStore:
    """Return a store with three versions; the newest declares a default alias."""
    store = MemoryStore(SystemClock())
    for number, alias in enumerate((None, None, default_alias)):
        nodes = [NodeDefinition(id=f"a{number}", handler="echo")]
        definition = Definition(workflow_id="flow", nodes=nodes, default_alias=alias)
        stored = definition_json(definition)
        await store.workflows.put("flow", stored, digest(stored), 0)
    return store


def resolver_of(store: MemoryStore) -> VersionResolver:
    return VersionResolver(store, Plans(store, compile_stored))


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


async def test_the_default_alias_of_the_newest_version_applies_to_requests_without_a_version() -> (
    None
):
    store = await store_with(default_alias="stable")
    resolver = resolver_of(store)

    before = await resolver.resolve("flow", None, no_choice, {})
    await store.workflows.put_alias("flow", "stable", [AliasTarget(1)], 0)
    wanted = (None, LATEST, 2)
    found = [await resolver.resolve("flow", one, stable_choice("key"), {}) for one in wanted]

    assert (before, found) == (3, [1, 3, 2])


async def test_each_request_of_a_batch_is_a_choice_of_its_own_in_a_split_default_alias() -> None:
    store = await store_with(default_alias="split")
    await store.workflows.put_alias("flow", "split", [AliasTarget(1, 1), AliasTarget(2, 3)], 0)
    resolver, cache = resolver_of(store), VersionCache()

    versions = [
        await resolver.resolve("flow", None, lambda _, share=share: share, cache)
        for share in range(4)
    ]

    assert versions == [1, 2, 2, 2]
    assert resolver.names_alias("flow", None, cache)


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
