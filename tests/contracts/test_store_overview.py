"""The contract of stores: queries across jobs, for searches, recent jobs, activity, statistics and events of nodes."""

from collections.abc import Sequence

from msgspec import Raw, structs

from tests.contracts.rows import T0, changes, end, event, job_row, new_job, node_row
from windlass.core.changes import CollectionChunkRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobFilter
from windlass.ports.store.overview import JobBrief, NodeSpan

EXAMINED_MAX = 1_000


def ids(jobs: Sequence[JobRecord | JobBrief]) -> list[str]:
    return [job.spec.job_id if isinstance(job, JobRecord) else job.job_id for job in jobs]


def item(seq: int, index: int = 0) -> Event:
    return structs.replace(event(seq, "iteration_completed"), index=index)


async def deploy(store: Store, *workflow_ids: str) -> None:
    for workflow_id in workflow_ids:
        await store.workflows.put(workflow_id, Raw(b'{"nodes":[]}'), "d", T0)


async def found(store: Store, search: str, **wanted: object) -> list[str]:
    return ids(await store.jobs.list(structs.replace(JobFilter(search=search), **wanted)))


# Searches


async def test_jobs_are_found_by_the_start_of_their_id(store: Store) -> None:
    await store.jobs.insert(
        [new_job(name, created_at=T0 + at) for at, name in enumerate(["ab1", "abc", "xab", "b"])]
    )

    assert await found(store, "ab") == ["abc", "ab1"]
    assert await found(store, "abc") == ["abc"]
    assert await found(store, "abcd") == []


async def test_jobs_are_found_by_a_long_start_of_their_id(store: Store) -> None:
    jobs = ["1m7gjrzmd8447yh6bp63mp70", "1m7gjrzmd8447yh6bp63mp7z", "1m7gjrzmd9447yh6bp63mp70"]
    await store.jobs.insert([new_job(name, created_at=T0 + at) for at, name in enumerate(jobs)])

    assert await found(store, "1m7gjrzmd8") == [jobs[1], jobs[0]]
    assert await found(store, jobs[2]) == [jobs[2]]


async def test_jobs_are_found_by_the_start_of_their_workflow(store: Store) -> None:
    await deploy(store, "report", "repair", "other")
    flows = ["report", "repair", "other", "report"]
    await store.jobs.insert(
        [new_job(f"j{at}", created_at=T0 + at, workflow_id=flow) for at, flow in enumerate(flows)]
    )

    assert await found(store, "rep") == ["j3", "j1", "j0"]
    assert await found(store, "report") == ["j3", "j0"]
    assert await found(store, "port") == []


async def test_a_job_is_found_by_its_whole_idempotency_key(store: Store) -> None:
    await deploy(store, "a", "b")
    await store.jobs.insert(
        [
            new_job("j1", workflow_id="a", key="order-7"),
            new_job("j2", workflow_id="b", key="order-7"),
        ]
    )
    await store.jobs.insert([new_job("j3", workflow_id="a", key="order-70")])

    assert await found(store, "order-7") == ["j2", "j1"]
    assert await found(store, "order-") == []


async def test_a_search_covers_every_field_and_finds_each_job_once(store: Store) -> None:
    await deploy(store, "same", "other")
    await store.jobs.insert([new_job("same1", workflow_id="same", key="same", created_at=T0 + 1)])
    await store.jobs.insert(
        [new_job("j2", workflow_id="other", key="same"), new_job("j3", workflow_id="other")]
    )

    assert await found(store, "same") == ["same1", "j2"]


async def test_a_search_respects_the_other_filters(store: Store) -> None:
    await deploy(store, "report", "repair")
    await store.jobs.insert(
        [new_job(f"j{at}", created_at=T0 + at, workflow_id="report") for at in range(3)]
    )
    await store.jobs.insert([new_job("j3", created_at=T0 + 3, workflow_id="repair", key="k")])
    lease = await store.leases.take(0, "one")
    await end(store, "j1", lease.epoch, T0 + 9)

    assert await found(store, "rep", status="completed") == ["j1"]
    assert await found(store, "j", status="completed") == ["j1"]
    assert await found(store, "j", workflow_id="repair") == ["j3"]
    assert await found(store, "rep", workflow_id="report") == ["j2", "j1", "j0"]
    assert await found(store, "k", workflow_id="report") == []
    assert await found(store, "k", status="completed") == []


async def test_paging_through_a_search_returns_every_match_once(store: Store) -> None:
    await deploy(store, "match", "matched", "other")
    flows = ["match", "other", "matched"]
    await store.jobs.insert(
        [new_job(f"j{n:02}", created_at=T0 + n // 4, workflow_id=flows[n % 3]) for n in range(30)]
    )
    await store.jobs.insert([new_job("match-id", created_at=T0 + 2, workflow_id="other")])

    seen, before = [], None
    while page := await store.jobs.list(JobFilter(search="match", before=before, limit=4)):
        seen += ids(page)
        before = (page[-1].spec.created_at, page[-1].spec.job_id)

    matching = [(T0 + n // 4, f"j{n:02}") for n in range(30) if n % 3 != 1] + [(T0 + 2, "match-id")]
    assert seen == [job_id for _, job_id in sorted(matching, reverse=True)]


# Recent and active jobs


async def test_the_newest_jobs_of_each_workflow_are_returned(store: Store) -> None:
    await store.jobs.insert(
        [new_job(f"j{n}", created_at=T0 + n // 2, workflow_id="ab"[n % 2]) for n in range(6)]
    )
    lease = await store.leases.take(0, "one")
    await end(store, "j5", lease.epoch, T0 + 9, "failed")

    recent = await store.overview.recent_jobs(["b", "a", "nothing"], 2)

    assert ids(recent) == ["j4", "j2", "j5", "j3"]
    assert recent[2] == JobBrief("j5", "b", 1, "failed", T0 + 2, T0 + 1, T0 + 9)
    assert list(await store.overview.recent_jobs([], 2)) == []


async def test_the_ended_jobs_of_a_workflow_are_returned_newest_first(store: Store) -> None:
    await store.jobs.insert([new_job(f"j{n}", created_at=T0 + n) for n in range(5)])
    await store.jobs.insert([new_job("elsewhere", workflow_id="other")])
    await store.jobs.insert([structs.replace(new_job("j5", created_at=T0 + 5), version=2)])
    lease = await store.leases.take(0, "one")
    for name in ("j0", "j1", "j3", "j5", "elsewhere"):
        await end(store, name, lease.epoch, T0 + 9, "cancelled")

    ended = store.overview.ended_jobs
    assert ids(await ended("flow", None, 10, EXAMINED_MAX)) == ["j5", "j3", "j1", "j0"]
    assert ids(await ended("flow", None, 2, EXAMINED_MAX)) == ["j5", "j3"]
    assert ids(await ended("flow", 1, 10, EXAMINED_MAX)) == ["j3", "j1", "j0"]
    # Of the newest three jobs, one is of version 1 and has ended.
    assert ids(await ended("flow", 1, 10, 3)) == ["j3"]


async def test_active_jobs_are_those_created_or_ended_since_an_instant(store: Store) -> None:
    await store.jobs.insert([new_job(f"j{n}", created_at=T0 + n) for n in range(5)])
    lease = await store.leases.take(0, "one")
    await end(store, "j0", lease.epoch, T0 + 50)
    await end(store, "j1", lease.epoch, T0 + 2)
    await end(store, "j4", lease.epoch, T0 + 60)

    assert ids(await store.overview.active_jobs(T0 + 3, 10)) == ["j4", "j0", "j3"]
    assert ids(await store.overview.active_jobs(T0 + 3, 2)) == ["j4", "j0"]
    assert ids(await store.overview.active_jobs(T0 + 61, 10)) == []


async def test_unfinished_jobs_are_counted_up_to_a_limit(store: Store) -> None:
    await store.jobs.insert([new_job(f"j{n}", shard=n % 2) for n in range(5)])
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(jobs=[job_row("j2")]))
    await end(store, "j0", lease.epoch, T0 + 9)

    assert await store.overview.unfinished_count(10) == 4
    assert await store.overview.unfinished_count(3) == 3


# One job


async def test_spans_have_the_times_of_the_nodes_of_several_jobs(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2"), new_job("j3")])
    lease = await store.leases.take(0, "one")
    rows = [node_row("j1", "a", output="1"), node_row("j2", "a", "failed"), node_row("j3", "a")]
    await store.commit(0, lease.epoch, changes(nodes=rows))

    spans = await store.overview.node_spans(["j2", "j1", "nothing"], 10)

    assert sorted(spans, key=lambda span: span.job_id) == [
        NodeSpan("j1", "a", "completed", 2, T0 + 2, T0 + 3),
        NodeSpan("j2", "a", "failed", 2, T0 + 2, T0 + 3),
    ]
    assert len(await store.overview.node_spans(["j1", "j2", "j3"], 2)) == 2


async def test_events_of_single_iterations_are_left_out_and_counted(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    first = [event(2), *(item(seq, seq) for seq in range(3, 9)), event(9)]
    await store.commit(0, lease.epoch, changes(events={"j1": first}))
    await store.commit(0, lease.epoch, changes(events={"j1": [item(10), event(11), item(12)]}))

    async def node_events(
        after: int, limit: int = 10, examined_max: int = EXAMINED_MAX
    ) -> tuple[list[int], int]:
        page = await store.overview.node_events("j1", after, limit, examined_max)
        return [one.seq for one in page.events], page.last_seq

    assert await node_events(0) == ([1, 2, 9, 11], 12)
    assert await node_events(4) == ([9, 11], 12)
    assert await node_events(11) == ([], 12)
    assert await node_events(12) == ([], 12)
    # A page that examined only events of iterations returns the last number that it examined.
    assert await node_events(2, examined_max=3) == ([], 5)
    assert await node_events(5, examined_max=4) == ([9], 9)


async def test_a_page_of_node_events_continues_after_the_previous_page(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    await store.commit(
        0, lease.epoch, changes(events={"j1": [event(2), item(3), item(4), event(5), event(6)]})
    )

    seen: list[int] = []
    after = 0
    while (page := await store.overview.node_events("j1", after, 2, EXAMINED_MAX)).last_seq > after:
        after = page.last_seq
        seen += [one.seq for one in page.events]

    assert seen == [1, 2, 5, 6]


async def test_an_unknown_job_has_no_events_of_nodes(store: Store) -> None:
    page = await store.overview.node_events("nothing", 7, 10, EXAMINED_MAX)

    assert (list(page.events), page.last_seq) == ([], 7)


async def test_a_range_of_chunks_of_a_collection_can_be_read(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    made = changes()
    made.chunks.extend(CollectionChunkRow("j1", 3, 0, block, b"[%d]" % block) for block in range(4))
    made.chunks.append(CollectionChunkRow("j1", 3, 1, 1, b"[9]"))
    await store.commit(0, lease.epoch, made)

    assert list(await store.overview.collection_chunks("j1", 3, 0, 1, 2)) == [b"[1]", b"[2]"]
    assert list(await store.overview.collection_chunks("j1", 3, 1, 0, 5)) == [b"[9]"]
    assert list(await store.overview.collection_chunks("j1", 4, 0, 0, 5)) == []
