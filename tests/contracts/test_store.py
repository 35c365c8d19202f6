"""The contract of stores: definitions, submits, commits, events and requests."""

import asyncio

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.contracts.rows import T0, changes, event, job_row, new_job, node_row, task_row
from windlass.core.changes import CollectionChunkRow
from windlass.core.errors import CommitUnknown, JobNotFound, StaleLease, WorkflowNotFound
from windlass.core.events import Event
from windlass.core.jobs import JobState
from windlass.core.loop_state import LoopProgress
from windlass.core.states import JobStatus
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobFilter, Request

# Values as the encoder writes them, without spaces between tokens.
AWKWARD = [
    '{"text":"Grüße, 世界 🌍"}',
    '{"n":9223372036854775807,"m":-9223372036854775808,"u":18446744073709551615}',
    '{"a":{"b":[null,{"c":null}]}}',
    r'"quotes \" backslash \\ newline \n tab \t null \u0000 slash / emoji 🚀"',
    "[]",
    "{}",
    "0",
    "1.5e300",
    "-0.0",
    "false",
    '""',
    '"null"',
    '{"twice":1,"twice":2}',
]


# Definitions


async def test_a_first_definition_is_version_one(store: Store) -> None:
    stored = await store.workflows.put("flow", Raw(b'{"nodes":{}}'), "d1", T0)

    assert (stored.version, bytes(stored.definition), stored.created_at) == (1, b'{"nodes":{}}', T0)


async def test_the_same_digest_adds_no_version(store: Store) -> None:
    await store.workflows.put("flow", Raw(b"{}"), "d1", T0)

    again = await store.workflows.put("flow", Raw(b"{}"), "d1", T0 + 5)

    assert (again.version, again.created_at) == (1, T0)


async def test_another_digest_adds_a_version_and_keeps_the_old_one(store: Store) -> None:
    await store.workflows.put("flow", Raw(b'"one"'), "d1", T0)
    await store.workflows.put("flow", Raw(b'"two"'), "d2", T0)

    newest, first = await store.workflows.get("flow"), await store.workflows.get("flow", 1)

    assert (newest.version, bytes(newest.definition), bytes(first.definition)) == (
        2,
        b'"two"',
        b'"one"',
    )


async def test_returning_to_an_older_digest_adds_a_version(store: Store) -> None:
    for digest in ("d1", "d2", "d1"):
        last = await store.workflows.put("flow", Raw(b"{}"), digest, T0)

    assert last.version == 3


async def test_each_workflow_has_its_own_version_numbers(store: Store) -> None:
    await store.workflows.put("one", Raw(b"{}"), "d1", T0)

    assert (await store.workflows.put("two", Raw(b"{}"), "d1", T0)).version == 1


@pytest.mark.parametrize(
    ("workflow_id", "version"), [("nothing", None), ("flow", 2), ("flow", 0), ("flow", -1)]
)
async def test_an_unknown_version_is_not_found(
    store: Store, workflow_id: str, version: int | None
) -> None:
    await store.workflows.put("flow", Raw(b"{}"), "d1", T0)

    with pytest.raises(WorkflowNotFound, match=workflow_id):
        await store.workflows.get(workflow_id, version)


# Submits


async def test_a_submitted_job_is_pending_with_its_first_event(store: Store) -> None:
    [result] = await store.jobs.insert([new_job("j1", input='{"x":1}', priority=4)])

    job, events = await store.jobs.get("j1"), await store.jobs.events("j1")
    assert result.created
    assert result.job == job
    assert (
        job.state.status,
        job.seq,
        job.state.round,
        job.spec.priority,
        bytes(job.spec.input),
    ) == (
        "pending",
        1,
        0,
        4,
        b'{"x":1}',
    )
    assert [(e.seq, e.type, e.at) for e in events] == [(1, "job_created", T0)]
    assert msgspec.json.decode(events[0].data or b"") == {"workflow_id": "flow", "version": 1}


async def test_a_batch_of_submits_is_answered_in_order(store: Store) -> None:
    results = await store.jobs.insert([new_job(f"j{n}") for n in range(50)])

    assert [result.job.spec.job_id for result in results] == [f"j{n}" for n in range(50)]


async def test_an_empty_batch_of_submits_is_allowed(store: Store) -> None:
    assert list(await store.jobs.insert([])) == []


async def test_a_known_idempotency_key_returns_the_first_job(store: Store) -> None:
    await store.jobs.insert([new_job("j1", key="k", digest="d")])

    [result] = await store.jobs.insert([new_job("j2", key="k", digest="d")])

    assert (result.created, result.conflict, result.job.spec.job_id) == (False, False, "j1")
    with pytest.raises(JobNotFound):
        await store.jobs.get("j2")


async def test_a_known_idempotency_key_with_another_body_is_a_conflict(store: Store) -> None:
    await store.jobs.insert([new_job("j1", key="k", digest="d")])

    [result] = await store.jobs.insert([new_job("j2", key="k", digest="other")])

    assert (result.created, result.conflict, result.job.spec.job_id) == (False, True, "j1")


async def test_duplicates_inside_one_batch_make_one_job(store: Store) -> None:
    batch = [
        new_job("j1", key="k", digest="d"),
        new_job("j2", key="k", digest="d"),
        new_job("j3", key="k", digest="x"),
    ]

    results = await store.jobs.insert(batch)

    assert [(a.job.spec.job_id, a.created, a.conflict) for a in results] == [
        ("j1", True, False),
        ("j1", False, False),
        ("j1", False, True),
    ]
    assert [job.spec.job_id for job in await store.jobs.list(JobFilter())] == ["j1"]


async def test_concurrent_duplicates_make_one_job(store: Store) -> None:
    results = await asyncio.gather(
        *(store.jobs.insert([new_job(f"j{n}", key="k", digest="d")]) for n in range(20))
    )

    assert sum(result.created for [result] in results) == 1
    assert len({result.job.spec.job_id for [result] in results}) == 1


async def test_each_workflow_has_its_own_idempotency_keys(store: Store) -> None:
    await store.jobs.insert([new_job("j1", key="k", digest="d")])

    [result] = await store.jobs.insert([new_job("j2", workflow_id="other", key="k", digest="d")])

    assert result.created


# Leases and commits


async def test_a_lease_without_a_previous_owner_was_not_abandoned(store: Store) -> None:
    lease = await store.leases.take(0, "one")

    assert (lease.epoch, lease.abandoned) == (1, False)


async def test_a_takeover_raises_the_epoch_and_returns_that_the_shard_was_abandoned(
    store: Store,
) -> None:
    first = await store.leases.take(0, "one")

    second = await store.leases.take(0, "two")

    assert second.epoch > first.epoch
    assert second.abandoned


async def test_a_released_shard_was_not_abandoned(store: Store) -> None:
    first = await store.leases.take(0, "one")
    await store.leases.release(0, first.epoch)

    second = await store.leases.take(0, "two")

    assert second.epoch > first.epoch
    assert not second.abandoned


async def test_only_the_owner_can_release(store: Store) -> None:
    first = await store.leases.take(0, "one")
    await store.leases.take(0, "two")
    await store.leases.release(0, first.epoch)

    assert (await store.leases.take(0, "three")).abandoned


async def test_each_shard_has_its_own_epoch(store: Store) -> None:
    for _ in range(3):
        await store.leases.take(0, "one")

    assert (await store.leases.take(1, "one")).epoch == 1


async def test_a_stale_epoch_is_refused_and_nothing_is_written(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    await store.jobs.put_request(Request("r1", "j1", "cancel", T0))
    stale = await store.leases.take(0, "one")
    await store.leases.take(0, "two")
    before = await store.jobs.restore("j1")

    committed = changes(
        jobs=[job_row("j1")],
        nodes=[node_row("j1", "a")],
        events={"j1": [event(2)]},
        requests=["r1"],
    )
    with pytest.raises(StaleLease, match="new owner"):
        await store.commit(0, stale.epoch, committed)

    assert await store.jobs.restore("j1") == before
    assert [e.seq for e in await store.jobs.events("j1")] == [1]
    assert [r.request_id for r in await store.jobs.requests(0, 10)] == ["r1"]


async def test_a_commit_without_any_lease_is_refused(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])

    with pytest.raises(StaleLease):
        await store.commit(0, 1, changes(jobs=[job_row("j1")]))


async def test_a_commit_stores_everything(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    await store.jobs.put_request(Request("r1", "j1", "cancel", T0))
    lease = await store.leases.take(0, "one")

    committed = changes(
        jobs=[job_row("j1", error='{"type":"x"}', round=2)],
        nodes=[node_row("j1", "a", output="1"), node_row("j1", "b")],
        events={"j1": [event(2), event(3)]},
        requests=["r1"],
    )
    await store.commit(0, lease.epoch, committed)

    restored = await store.jobs.restore("j1")
    job, nodes = restored.job, restored.nodes
    assert (
        job.state.status,
        job.seq,
        job.state.round,
        job.state.started_at,
        job.state.deadline_at,
    ) == (
        "running",
        3,
        2,
        T0 + 1,
        T0 + 9,
    )
    assert bytes(job.state.error or b"") == b'{"type":"x"}'
    assert sorted(nodes, key=lambda row: row.node_id) == [
        node_row("j1", "a", output="1"),
        node_row("j1", "b"),
    ]
    assert [e.seq for e in await store.jobs.events("j1")] == [1, 2, 3]
    assert list(await store.jobs.requests(0, 10)) == []


async def test_restoring_several_jobs_equals_restoring_each(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2"), new_job("j3")])
    lease = await store.leases.take(0, "one")
    rows = [node_row("j1", "a", output="1"), node_row("j3", "a"), node_row("j3", "b")]
    await store.commit(
        0, lease.epoch, changes(nodes=rows, events={"j1": [event(2)], "j3": [event(2)]})
    )

    found = await store.jobs.restore_all(["j3", "unknown", "j1", "j2"])

    assert {one.job.spec.job_id: one for one in found} == {
        job_id: await store.jobs.restore(job_id) for job_id in ("j1", "j2", "j3")
    }


async def test_several_jobs_are_restored_with_their_loops(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    lease = await store.leases.take(0, "one")
    progress = Raw(msgspec.json.encode(LoopProgress(total=3, begun=2)))
    loops = [
        replace(node_row(job_id, "a", "running"), progress=progress) for job_id in ("j1", "j2")
    ]
    written = changes(nodes=loops, events={"j1": [event(2)], "j2": [event(2)]})
    for row in (task_row("j1", 0), task_row("j2", 0), task_row("j2", 1, "failed")):
        written.iterations[row.job_id, row.number, row.index] = replace(row, number=loops[0].number)
    written.chunks += [
        CollectionChunkRow(job_id, loops[0].number, 0, 0, b"[1,2,3]") for job_id in ("j1", "j2")
    ]
    await store.commit(0, lease.epoch, written)

    found = {one.job.spec.job_id: one for one in await store.jobs.restore_all(["j1", "j2"])}

    assert found == {job_id: await store.jobs.restore(job_id) for job_id in ("j1", "j2")}
    seen = {
        job_id: [(list(loop.completed), len(loop.others)) for loop in one.loops]
        for job_id, one in found.items()
    }
    assert seen == {"j1": [([0], 0)], "j2": [([0], 1)]}


async def test_a_completed_loop_with_failures_is_restored(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    progress = Raw(msgspec.json.encode(LoopProgress(total=2, begun=2)))
    node = replace(node_row("j1", "a", "completed"), progress=progress, first_started_at=7)
    written = changes(nodes=[node], events={"j1": [event(2)]})
    written.jobs["j1"] = JobState(JobStatus.COMPLETED, failures=1, ignored=Raw(b"[[0,-1,1]]"))
    for row in (task_row("j1", 0), task_row("j1", 1, "failed")):
        written.iterations[row.job_id, row.number, row.index] = replace(row, number=node.number)
    written.chunks.append(CollectionChunkRow("j1", node.number, 0, 0, b"[1,2]"))
    await store.commit(0, lease.epoch, written)

    found = await store.jobs.restore("j1")

    assert (found.job.state.failures, found.job.state.ignored) == (1, Raw(b"[[0,-1,1]]"))
    assert found.nodes[0].first_started_at == 7
    assert [(list(loop.completed), len(loop.others)) for loop in found.loops] == [([0], 1)]


async def test_a_commit_that_cannot_be_stored_writes_nothing(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(events={"j2": [event(2)]}))

    committed = changes(
        jobs=[job_row("j1")],
        nodes=[node_row("j1", "a")],
        events={"j1": [event(2)], "j2": [event(2)]},
    )
    with pytest.raises(CommitUnknown):
        await store.commit(0, lease.epoch, committed)

    restored = await store.jobs.restore("j1")
    job, nodes = restored.job, restored.nodes
    assert (job.state.status, job.seq, list(nodes)) == ("pending", 1, [])


async def test_a_failed_commit_does_not_stop_the_next(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, changes(events={"j1": [event(2)]}))
    with pytest.raises(CommitUnknown):
        await store.commit(0, lease.epoch, changes(events={"j1": [event(2)]}))

    await store.commit(0, lease.epoch, changes(events={"j1": [event(3)]}))

    assert (await store.jobs.get("j1")).seq == 3


async def test_a_refused_commit_does_not_affect_concurrent_ones(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    stale = await store.leases.take(0, "one")
    lease = await store.leases.take(0, "two")

    outcomes = await asyncio.gather(
        store.commit(0, lease.epoch, changes(events={"j1": [event(2)]})),
        store.commit(0, stale.epoch, changes(events={"j1": [event(3, "wrong")]})),
        store.commit(0, lease.epoch, changes(events={"j1": [event(3, "right")]})),
        store.jobs.insert([new_job("j2")]),
        return_exceptions=True,
    )

    assert isinstance(outcomes[1], StaleLease)
    assert [e.type for e in await store.jobs.events("j1")] == ["job_created", "node_ready", "right"]
    assert (await store.jobs.get("j2")).state.status == "pending"


async def test_a_row_written_again_replaces_the_first(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    await store.commit(
        0, lease.epoch, changes(nodes=[node_row("j1", "a", output='"old"', error="{}", meta="{}")])
    )

    await store.commit(0, lease.epoch, changes(nodes=[node_row("j1", "a", "pending")]))

    assert list(await store.jobs.nodes("j1")) == [node_row("j1", "a", "pending")]


# Values


@pytest.mark.parametrize("text", AWKWARD)
async def test_values_are_returned_byte_for_byte(store: Store, text: str) -> None:
    await store.jobs.insert([new_job("j1", input=text)])
    lease = await store.leases.take(0, "one")
    row = node_row("j1", "a", output=text, error=text, meta=text)
    stored_event = Event(
        2, "e", "a", 7, T0, Raw(text.encode()), Raw(text.encode()), Raw(text.encode()), 1
    )

    committed = changes(
        jobs=[job_row("j1", error=text)], nodes=[row], events={"j1": [stored_event]}
    )
    await store.commit(0, lease.epoch, committed)

    restored = await store.jobs.restore("j1")
    job, nodes = restored.job, restored.nodes
    assert bytes(job.spec.input) == bytes(job.state.error or b"") == text.encode()
    assert list(nodes) == [row]
    assert list(await store.jobs.events("j1", 1)) == [stored_event]


async def test_a_null_output_differs_from_no_output(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")

    await store.commit(
        0, lease.epoch, changes(nodes=[node_row("j1", "a", output="null"), node_row("j1", "b")])
    )

    rows = {row.node_id: row.output for row in await store.jobs.nodes("j1")}
    assert (rows["a"], rows["b"]) == (Raw(b"null"), None)


async def test_a_large_value_is_stored_complete(store: Store) -> None:
    text = '"' + "é" * 1_000_000 + '"'
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")

    await store.commit(0, lease.epoch, changes(nodes=[node_row("j1", "a", output=text)]))

    assert bytes((await store.jobs.nodes("j1"))[0].output or b"") == text.encode()


# Events


async def with_events(store: Store, *pages: int) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    seq = 1
    for count in pages:
        await store.commit(
            0, lease.epoch, changes(events={"j1": [event(seq + n + 1) for n in range(count)]})
        )
        seq += count


@pytest.mark.parametrize(("after", "limit", "expected"), [
    (0, 1000, range(1, 12)), (0, 3, range(1, 4)), (3, 4, range(4, 8)), (10, 5, range(11, 12)), (11, 5, range(0)),
    (99, 5, range(0)), (5, 1, range(6, 7)),
])  # fmt: skip
async def test_events_are_read_in_order_across_pages(
    store: Store, after: int, limit: int, expected: range
) -> None:
    await with_events(store, 2, 5, 1, 2)

    assert [e.seq for e in await store.jobs.events("j1", after, limit)] == list(expected)


async def test_paging_with_a_cursor_returns_every_event_once(store: Store) -> None:
    await with_events(store, 700, 1, 1300)

    seen, last = [], 0
    while page := await store.jobs.events("j1", last, 97):
        seen += [e.seq for e in page]
        last = seen[-1]

    assert seen == list(range(1, 2003))


async def test_an_unknown_job_has_no_events_and_no_nodes(store: Store) -> None:
    assert (list(await store.jobs.events("nothing")), list(await store.jobs.nodes("nothing"))) == (
        [],
        [],
    )


# Requests


async def test_requests_wait_oldest_first_until_applied(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("elsewhere", shard=1)])
    lease = await store.leases.take(0, "one")
    for request_id, at in (("r3", 30), ("r1", 10), ("r2", 20)):
        await store.jobs.put_request(Request(request_id, "j1", "retry", T0 + at, "why", "a", 2))
    await store.jobs.put_request(Request("other", "elsewhere", "cancel", T0))
    await store.commit(0, lease.epoch, changes(requests=["r2"]))

    waiting = await store.jobs.requests(0, 10)

    assert list(waiting) == [
        Request("r1", "j1", "retry", T0 + 10, "why", "a", 2),
        Request("r3", "j1", "retry", T0 + 30, "why", "a", 2),
    ]
    assert [r.request_id for r in await store.jobs.requests(0, 1)] == ["r1"]
    assert [r.request_id for r in await store.jobs.requests(1, 10)] == ["other"]


async def test_a_request_of_an_unknown_job_is_not_found(store: Store) -> None:
    with pytest.raises(JobNotFound, match="nothing"):
        await store.jobs.put_request(Request("r1", "nothing", "cancel", T0))

    assert list(await store.jobs.requests(0, 10)) == []


async def test_a_request_stored_twice_is_one_request(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    for _ in range(2):
        await store.jobs.put_request(Request("r1", "j1", "cancel", T0))

    assert len(await store.jobs.requests(0, 10)) == 1


async def test_an_applied_request_stored_again_stays_applied(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    await store.jobs.put_request(Request("r1", "j1", "cancel", T0))
    await store.commit(0, lease.epoch, changes(requests=["r1"]))

    await store.jobs.put_request(Request("r1", "j1", "cancel", T0))

    assert list(await store.jobs.requests(0, 10)) == []


# Closing


async def test_writes_accepted_before_closing_are_stored(store: Store) -> None:
    accepted = [asyncio.ensure_future(store.jobs.insert([new_job(f"j{n}")])) for n in range(20)]
    await asyncio.sleep(0)

    await store.close()

    assert all(result.created for [result] in await asyncio.gather(*accepted))


async def test_a_closed_store_writes_nothing(store: Store) -> None:
    await store.close()

    with pytest.raises(CommitUnknown, match="closed"):
        await store.jobs.insert([new_job("j1")])
