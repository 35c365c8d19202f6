"""Concurrent commits and queries of several shards are combined into one call of PostgreSQL."""

import asyncio
from collections.abc import Sequence

import asyncpg

from tests.contracts.rows import T0, changes, event, job_row, new_job
from windlass.clock import SystemClock
from windlass.core.errors import CommitUnknown, StaleLease
from windlass.ports.store.jobs import Request
from windlass.stores.postgres.commits import GROUP_MAX
from windlass.stores.postgres.store import PostgresStore

SHARDS = range(4)


async def begin(store: PostgresStore, shards: Sequence[int] = SHARDS) -> dict[int, int]:
    """Insert a job in each shard and take the shards; return their epochs."""
    await store.jobs.insert([new_job(f"j{shard}", shard=shard) for shard in shards])
    return {shard: (await store.leases.take(shard, "me")).epoch for shard in shards}


async def commit_all(
    store: PostgresStore, epochs: dict[int, int], seq: int = 2
) -> list[BaseException | None]:
    started = [
        store.commit(
            shard, epoch, changes(jobs=[job_row(f"j{shard}")], events={f"j{shard}": [event(seq)]})
        )
        for shard, epoch in epochs.items()
    ]
    return await asyncio.gather(*started, return_exceptions=True)


async def statuses(store: PostgresStore, shards: Sequence[int] = SHARDS) -> list[str]:
    return [(await store.jobs.get(f"j{shard}")).state.status for shard in shards]


async def test_commits_of_several_shards_are_one_transaction(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    epochs = await begin(store)

    assert await commit_all(store, epochs) == [None] * 4

    assert await admin.fetchval("select count(distinct xmin::text) from jobs") == 1
    assert await statuses(store) == ["running"] * 4


async def test_more_commits_than_fit_into_one_call_are_all_stored(store: PostgresStore) -> None:
    epochs = await begin(store, range(GROUP_MAX + 3))

    assert set(await commit_all(store, epochs)) == {None}

    assert set(await statuses(store, range(GROUP_MAX + 3))) == {"running"}


async def test_a_stale_epoch_fails_only_the_commit_of_its_shard(store: PostgresStore) -> None:
    epochs = await begin(store)
    await store.leases.take(2, "another")

    answers = await commit_all(store, epochs)

    assert [type(answer) for answer in answers] == [type(None), type(None), StaleLease, type(None)]
    assert "shard 2 has a new owner: epoch 2, not 1" in str(answers[2])
    assert await statuses(store) == ["running", "running", "pending", "running"]


async def test_a_rejected_commit_fails_alone(store: PostgresStore) -> None:
    epochs = await begin(store)
    bad = store.commit(1, epochs[1], changes(jobs=[job_row("missing")]))
    good = commit_all(store, {0: epochs[0], 3: epochs[3]})

    refused, others = await asyncio.gather(bad, good, return_exceptions=True)

    assert isinstance(refused, CommitUnknown)
    assert others == [None, None]
    assert await statuses(store) == ["running", "pending", "pending", "running"]


async def test_a_shard_that_was_never_owned_rejects_commits(store: PostgresStore) -> None:
    epochs = await begin(store, [0])

    answers = await commit_all(store, {**epochs, 7: 1})

    assert [type(answer) for answer in answers] == [type(None), StaleLease]


async def test_commits_of_one_shard_are_stored_one_after_the_other(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    epochs = await begin(store, [0])
    both = [
        store.commit(
            0, epochs[0], changes(jobs=[job_row("j0", status)], events={"j0": [event(seq)]})
        )
        for seq, status in [(2, "running"), (3, "completed")]
    ]

    await asyncio.gather(*both)

    assert [one.seq for one in await store.jobs.events("j0")] == [1, 2, 3]
    assert (await store.jobs.get("j0")).state.status == "completed"
    assert await admin.fetchval("select count(distinct xmin::text) from events") == 2


async def test_a_commit_that_was_cancelled_before_it_was_sent_is_not_stored(
    store: PostgresStore,
) -> None:
    epochs = await begin(store, [0, 1])
    given_up = asyncio.ensure_future(store.commit(0, epochs[0], changes(jobs=[job_row("j0")])))
    kept = asyncio.ensure_future(store.commit(1, epochs[1], changes(jobs=[job_row("j1")])))
    await asyncio.sleep(0)

    given_up.cancel()
    await kept

    assert await statuses(store, [0, 1]) == ["pending", "running"]


async def test_closing_waits_for_accepted_commits(store: PostgresStore, url: str) -> None:
    epochs = await begin(store, [0])
    committing = asyncio.ensure_future(store.commit(0, epochs[0], changes(jobs=[job_row("j0")])))
    await asyncio.sleep(0)

    await store.close()

    await committing
    other = await PostgresStore.open(url, SystemClock(), connections_max=10)
    assert await statuses(other, [0]) == ["running"]
    await other.close()


async def test_each_shard_gets_its_own_rows(store: PostgresStore) -> None:
    epochs = await begin(store)
    await store.jobs.insert([new_job("later", shard=1, created_at=T0 + 5)])
    await store.jobs.put_request(Request("r3", "j3", "cancel", T0))

    asked = [
        asyncio.gather(
            store.leases.epoch(shard),
            store.jobs.pending(shard, T0 + 1 + 9 * shard, 10),
            store.jobs.requests(shard, 10),
        )
        for shard in (*SHARDS, 9)
    ]
    epoch_of, pending, requests = zip(*await asyncio.gather(*asked), strict=True)

    assert epoch_of == (*epochs.values(), 0)
    assert pending == (["j0"], ["j1", "later"], ["j2"], ["j3"], [])
    assert [[one.request_id for one in found] for found in requests] == [[], [], [], ["r3"], []]


async def test_each_shard_has_its_own_limit(store: PostgresStore) -> None:
    await store.jobs.insert(
        [new_job(f"{name}{shard}", shard=shard) for shard in (0, 1) for name in "abc"]
    )

    found = await asyncio.gather(store.jobs.pending(0, T0 + 1, 1), store.jobs.pending(1, T0 + 1, 2))

    assert found == [["a0"], ["a1", "b1"]]


async def test_a_cancelled_query_does_not_affect_the_others_of_its_batch(
    store: PostgresStore,
) -> None:
    epochs = await begin(store, [0, 1])
    given_up, kept = (asyncio.ensure_future(store.leases.epoch(shard)) for shard in (0, 1))
    await asyncio.sleep(0)

    given_up.cancel()

    assert await kept == epochs[1]
