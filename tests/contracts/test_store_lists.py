"""The contract of stores: lists of jobs and retention."""

from collections.abc import Sequence

import pytest

from tests.contracts.rows import T0, changes, end, event, job_row, new_job, node_row
from windlass.core.errors import JobNotFound
from windlass.core.jobs import JobRecord
from windlass.core.states import JobStatus
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobFilter, Request


def ids(jobs: Sequence[JobRecord]) -> list[str]:
    return [job.spec.job_id for job in jobs]


# Lists


async def test_unfinished_jobs_are_listed_oldest_first(store: Store) -> None:
    await store.jobs.insert(
        [
            new_job("c", created_at=T0 + 3),
            new_job("b", created_at=T0 + 1),
            new_job("a", created_at=T0),
        ]
    )
    await store.jobs.insert(
        [new_job("d", created_at=T0 + 1), new_job("elsewhere", shard=1), new_job("done")]
    )
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(jobs=[job_row("b")]))
    await end(store, "done", lease.epoch, T0 + 5)

    assert list(await store.jobs.unfinished(0)) == ["a", "b", "d", "c"]


async def test_pending_jobs_are_those_that_have_not_started(store: Store) -> None:
    await store.jobs.insert([new_job(name, created_at=T0 + at) for at, name in enumerate("edcba")])
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(jobs=[job_row("d")]))

    assert list(await store.jobs.pending(0, T0 + 3, 10)) == ["e", "c"]
    assert list(await store.jobs.pending(0, T0 + 9, 2)) == ["e", "c"]
    assert list(await store.jobs.pending(1, T0 + 9, 2)) == []


async def test_lists_show_the_newest_first_and_follow_their_filters(store: Store) -> None:
    await store.jobs.insert(
        [new_job(f"j{n}", created_at=T0 + n // 2, workflow_id="ab"[n % 2]) for n in range(6)]
    )
    lease = await store.leases.take(0, "one")
    await end(store, "j4", lease.epoch, T0 + 9)

    assert ids(await store.jobs.list(JobFilter())) == ["j5", "j4", "j3", "j2", "j1", "j0"]
    assert ids(await store.jobs.list(JobFilter(workflow_id="a"))) == ["j4", "j2", "j0"]
    assert ids(await store.jobs.list(JobFilter(workflow_id="a", status=JobStatus.PENDING))) == [
        "j2",
        "j0",
    ]
    assert ids(await store.jobs.list(JobFilter(status=JobStatus.COMPLETED))) == ["j4"]
    assert ids(await store.jobs.list(JobFilter(limit=2))) == ["j5", "j4"]


async def test_paging_through_a_list_returns_every_job_once(store: Store) -> None:
    await store.jobs.insert([new_job(f"j{n:02}", created_at=T0 + n // 7) for n in range(40)])

    seen, before = [], None
    while page := await store.jobs.list(JobFilter(before=before, limit=3)):
        seen += ids(page)
        before = (page[-1].spec.created_at, page[-1].spec.job_id)

    assert seen == [f"j{n:02}" for n in reversed(range(40))]


async def test_a_single_node_can_be_read(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(nodes=[node_row("j1", "a"), node_row("j1", "b")]))

    assert [row.node_id for row in await store.jobs.nodes("j1", "b")] == ["b"]
    assert list(await store.jobs.nodes("j1", "c")) == []


@pytest.mark.parametrize("method", ["get", "restore"])
async def test_an_unknown_job_is_not_found(store: Store, method: str) -> None:
    with pytest.raises(JobNotFound, match="nothing"):
        await getattr(store.jobs, method)("nothing")


# Retention


async def test_pruning_deletes_all_rows_of_a_job(store: Store) -> None:
    await store.jobs.insert([new_job("old", key="k", digest="d")])
    lease = await store.leases.take(0, "one")
    await store.jobs.put_request(Request("r1", "old", "cancel", T0))
    await store.commit(
        0, lease.epoch, changes(nodes=[node_row("old", "a")], events={"old": [event(2)]})
    )
    await end(store, "old", lease.epoch, T0 + 5)

    assert len(await store.jobs.prune(T0 + 6, 10)) == 1

    assert (list(await store.jobs.events("old")), list(await store.jobs.nodes("old"))) == ([], [])
    assert list(await store.jobs.requests(0, 10)) == []
    with pytest.raises(JobNotFound):
        await store.jobs.get("old")
    [answer] = await store.jobs.insert([new_job("new", key="k", digest="d")])
    assert answer.created


async def test_pruning_leaves_active_and_recent_jobs(store: Store) -> None:
    await store.jobs.insert(
        [new_job("pending"), new_job("running"), new_job("recent"), new_job("old")]
    )
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(jobs=[job_row("running", completed_at=T0)]))
    await end(store, "recent", lease.epoch, T0 + 6)
    await end(store, "old", lease.epoch, T0 + 5, "failed")

    assert len(await store.jobs.prune(T0 + 6, 10)) == 1

    assert sorted(ids(await store.jobs.list(JobFilter()))) == ["pending", "recent", "running"]


async def test_pruning_deletes_the_oldest_jobs_up_to_the_limit(store: Store) -> None:
    await store.jobs.insert([new_job(f"j{n}") for n in range(5)])
    lease = await store.leases.take(0, "one")
    for n in range(5):
        await end(store, f"j{n}", lease.epoch, T0 + 10 - n, "cancelled")

    assert len(await store.jobs.prune(T0 + 99, 2)) == 2

    assert sorted(ids(await store.jobs.list(JobFilter()))) == ["j0", "j1", "j2"]
