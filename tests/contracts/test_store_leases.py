"""The contract of stores that several engines share: expiring leases and the list of live engines."""

import asyncio
from contextlib import suppress

import pytest
from msgspec import structs

from tests.contracts.rows import T0, changes, end, event, new_job
from windlass.clock import SystemClock
from windlass.core.errors import StaleLease
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobPosition
from windlass.ports.store.leases import Deployment, EngineRow, Lease, LeaseRow

LONG = 60.0
# A lease that expires immediately, so that no test waits for the clock of a database.
NONE = 0.0
ENGINES = [f"engine-{number}" for number in range(20)]


def engine(name: str, worker_timeout_seconds: float = 15.0) -> EngineRow:
    return EngineRow(name, worker_timeout_seconds)


async def test_a_shard_without_an_owner_is_claimed(store: Store) -> None:
    assert await store.leases.claim(3, "one", LONG) == Lease(1, abandoned=False)


async def test_only_one_of_many_engines_claims_a_shard(store: Store) -> None:
    claims = await asyncio.gather(*(store.leases.claim(0, name, LONG) for name in ENGINES))

    assert [claim for claim in claims if claim is not None] == [Lease(1, abandoned=False)]


async def test_only_one_of_many_engines_claims_an_expired_lease(store: Store) -> None:
    await store.leases.claim(0, "expired", NONE)

    claims = await asyncio.gather(*(store.leases.claim(0, name, LONG) for name in ENGINES))

    assert [claim for claim in claims if claim is not None] == [Lease(2, abandoned=True)]


async def test_an_unexpired_lease_is_not_claimed_by_others(store: Store) -> None:
    await store.leases.claim(0, "one", LONG)

    assert await store.leases.claim(0, "two", LONG) is None
    assert await store.leases.epoch(0) == 1


async def test_an_owner_claims_its_own_lease_again_under_a_new_epoch(store: Store) -> None:
    await store.leases.claim(0, "one", LONG)

    again = await store.leases.claim(0, "one", LONG)

    assert again is not None
    assert again.epoch == 2


async def test_a_renewed_lease_is_not_claimed_by_others(store: Store) -> None:
    await store.leases.claim(0, "one", NONE)

    await store.leases.renew(engine("one"), {0: 1}, LONG)

    assert await store.leases.claim(0, "two", LONG) is None


async def test_a_renewal_under_an_old_epoch_has_no_effect(store: Store) -> None:
    await store.leases.claim(0, "one", NONE)
    await store.leases.claim(0, "two", NONE)

    await store.leases.renew(engine("one"), {0: 1}, LONG)

    assert await store.leases.claim(0, "three", LONG) == Lease(3, abandoned=True)


async def test_a_renewal_of_an_older_claim_of_the_same_owner_has_no_effect(store: Store) -> None:
    await store.leases.claim(0, "one", NONE)
    await store.leases.claim(0, "one", NONE)

    await store.leases.renew(engine("one"), {0: 1}, LONG)

    assert await store.leases.claim(0, "two", LONG) is not None


async def test_an_engine_cannot_renew_the_lease_of_another(store: Store) -> None:
    await store.leases.claim(0, "one", NONE)

    await store.leases.renew(engine("two"), {0: 1}, LONG)

    assert await store.leases.claim(0, "two", LONG) is not None


async def test_a_released_lease_is_claimed_and_was_not_abandoned(store: Store) -> None:
    await store.leases.claim(0, "one", LONG)
    await store.leases.release(0, 1)

    assert await store.leases.claim(0, "two", LONG) == Lease(2, abandoned=False)


async def test_a_late_renewal_does_not_undo_a_release(store: Store) -> None:
    await store.leases.claim(0, "one", LONG)
    await store.leases.release(0, 1)

    await store.leases.renew(engine("one"), {0: 1}, LONG)
    seen = await store.leases.ownership()

    assert list(seen.leases) == [LeaseRow(0, None, 1, expired=False)]


async def test_a_lease_that_was_taken_unconditionally_does_not_expire(store: Store) -> None:
    await store.leases.take(0, "one")

    assert await store.leases.claim(0, "two", LONG) is None


async def test_a_lease_is_taken_unconditionally_from_its_owner(store: Store) -> None:
    await store.leases.claim(0, "one", LONG)

    assert await store.leases.take(0, "two") == Lease(2, abandoned=True)


async def test_a_renewal_returns_the_owners_of_all_shards(store: Store) -> None:
    await store.leases.claim(2, "one", LONG)
    await store.leases.claim(0, "two", NONE)
    await store.leases.claim(1, "one", LONG)
    await store.leases.release(1, 1)
    await store.leases.take(5, "three")

    await store.leases.renew(engine("one"), {2: 1}, LONG)
    seen = await store.leases.ownership()

    assert [structs.replace(row, expires_at=None) for row in seen.leases] == [
        LeaseRow(0, "two", 1, expired=True),
        LeaseRow(1, None, 1, expired=False),
        LeaseRow(2, "one", 1, expired=False),
        LeaseRow(5, "three", 1, expired=False),
    ]


async def test_a_lease_has_an_expiry_unless_it_was_taken_unconditionally(store: Store) -> None:
    await store.leases.claim(0, "one", LONG)
    await store.leases.take(1, "two")

    ends_at = {row.shard: row.expires_at for row in (await store.leases.ownership()).leases}

    assert ends_at[1] is None
    assert abs((ends_at[0] or 0) - SystemClock().now() - LONG * 1e6) < 60e6


async def test_a_renewal_returns_the_live_engines(store: Store) -> None:
    for name in ("b", "a", "c"):
        await store.leases.renew(engine(name), {}, LONG)
    await store.leases.renew(engine("expired"), {}, NONE)

    await store.leases.renew(engine("b"), {}, LONG)
    seen = await store.leases.ownership()

    assert list(seen.engines) == [engine("a"), engine("b"), engine("c")]


async def test_a_deregistered_engine_is_not_live(store: Store) -> None:
    await store.leases.renew(engine("one"), {}, LONG)
    await store.leases.deregister("one")

    assert await store.leases.renew(engine("two"), {}, LONG) == {}
    assert list(await store.leases.engines()) == [engine("two")]


async def test_engines_that_renew_concurrently_are_all_live(store: Store) -> None:
    for number, name in enumerate(ENGINES):
        await store.leases.claim(number, name, LONG)

    await asyncio.gather(
        *(
            store.leases.renew(engine(name), {number: 1}, LONG)
            for number, name in enumerate(ENGINES)
        )
    )

    await store.leases.renew(engine(ENGINES[0]), {0: 1}, LONG)
    seen = await store.leases.ownership()
    assert list(seen.engines) == [engine(name) for name in sorted(ENGINES)]
    assert [row.expired for row in seen.leases] == [False] * len(ENGINES)


async def test_live_engines_are_listed_with_their_worker_timeouts(store: Store) -> None:
    await store.leases.renew(engine("one", 15.0), {}, LONG)
    await store.leases.renew(engine("two", 6.5), {}, LONG)
    await store.leases.renew(engine("expired", 1.0), {}, NONE)

    assert list(await store.leases.engines()) == [engine("one", 15.0), engine("two", 6.5)]


async def test_a_restarted_engine_has_its_new_worker_timeout(store: Store) -> None:
    await store.leases.renew(engine("one", 15.0), {}, LONG)
    await store.leases.renew(engine("one", 6.0), {}, LONG)

    assert list(await store.leases.engines()) == [engine("one", 6.0)]
    assert list((await store.leases.ownership()).engines) == [engine("one", 6.0)]


async def test_the_first_number_of_shards_is_recorded(store: Store) -> None:
    joined = await asyncio.gather(
        *(
            store.leases.join_deployment(Deployment(installation_id, shards))
            for installation_id, shards in (("a", 32), ("b", 8), ("c", 32))
        )
    )

    assert joined[0] in {Deployment("a", 32), Deployment("b", 8), Deployment("c", 32)}
    assert joined == [joined[0]] * 3
    assert await store.leases.join_deployment(Deployment("d", 99)) == joined[0]


async def test_an_owner_with_an_expired_lease_commits_until_another_engine_claims_the_shard(
    store: Store,
) -> None:
    await store.jobs.insert([new_job("j1")])
    await store.leases.claim(0, "one", NONE)
    await store.commit(0, 1, changes(events={"j1": [event(2)]}))
    await store.leases.claim(0, "two", LONG)

    with pytest.raises(StaleLease, match="new owner"):
        await store.commit(0, 1, changes(events={"j1": [event(3)]}))

    assert [one.seq for one in await store.jobs.events("j1")] == [1, 2]


async def test_no_commit_of_the_old_owner_is_stored_after_a_claim_has_returned(
    store: Store,
) -> None:
    await store.jobs.insert([new_job("j1")])
    await store.leases.claim(0, "one", NONE)

    begun = asyncio.Event()

    async def write() -> None:
        for seq in range(2, 1_000):
            await store.commit(0, 1, changes(events={"j1": [event(seq)]}))
            begun.set()
            await asyncio.sleep(0)

    writing = asyncio.ensure_future(write())
    await begun.wait()

    await store.leases.claim(0, "two", LONG)
    seen = (await store.jobs.get("j1")).seq

    with suppress(StaleLease):
        await writing
    assert (await store.jobs.get("j1")).seq == seen < 999


async def test_positions_are_returned_for_each_known_job(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2"), new_job("j3")])
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(events={"j1": [event(2), event(3)]}))
    await end(store, "j2", lease.epoch, T0)

    found = await store.jobs.positions(["j2", "nothing", "j1"])

    assert sorted(found, key=lambda one: one.job_id) == [
        JobPosition("j1", 3, "pending"),
        JobPosition("j2", 1, "completed"),
    ]
    assert list(await store.jobs.positions([])) == []


async def test_probe_writes_as_often_as_it_is_called(store: Store) -> None:
    await store.leases.probe(1)
    await store.leases.probe(2)


async def test_renewal_returns_the_leases_that_are_still_the_engines_own(store: Store) -> None:
    for shard in range(3):
        await store.leases.claim(shard, "one", LONG)
    await store.leases.take(1, "two")

    renewed = await store.leases.renew(engine("one"), {0: 1, 1: 1, 2: 7}, LONG)

    assert renewed == {0: 1}
