"""The contract of stores: schedules, runs and deliveries."""

import pytest
from msgspec import structs

from tests.contracts.rows import T0, end, event, job_row, new_job
from tests.contracts.run_rows import PLAIN, SCHEDULED, delivery_row, put_runs, run_changes, run_row
from windlass.core.errors import (
    CommitUnknown,
    DeliveryNotFound,
    RunNotFound,
    ScheduleNotFound,
    StaleLease,
)
from windlass.core.events import Event, EventType
from windlass.core.runs.changes import ScheduleMark
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.states import RunState
from windlass.ports.store import Store
from windlass.ports.store.runs import DeliveryFilter, RunFilter, RunRequest, ScheduleFilter


async def test_a_stored_run_is_returned_unchanged(store: Store) -> None:
    row = run_row("flow:1", job_id="j1")
    await put_runs(store, row)

    assert await store.runs.get("flow:1") == row


async def test_a_run_that_is_stored_again_is_replaced(store: Store) -> None:
    epoch = await put_runs(store, run_row("flow:1"))
    ended = run_row("flow:1", "completed", completed_at=T0 + 9, job_id="j1", succeeded=True)

    await store.commit(0, epoch, run_changes(updated=[ended]))

    assert await store.runs.get("flow:1") == ended


async def test_a_second_run_under_the_id_of_a_slot_fails_the_whole_commit(store: Store) -> None:
    epoch = await put_runs(store, run_row("flow:1"))
    again = run_changes(
        inserted=[run_row("flow:1", "pending"), run_row("flow:2")], jobs=[new_job("j1")]
    )

    with pytest.raises(CommitUnknown):
        await store.commit(0, epoch, again)

    assert (await store.runs.get("flow:1")).state is RunState.RUNNING
    assert await store.jobs.unfinished(0) == []


async def test_a_commit_under_an_old_epoch_stores_no_run(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    await store.leases.take(0, "two")

    with pytest.raises(StaleLease):
        await store.commit(
            0, lease.epoch, run_changes(inserted=[run_row("flow:1")], jobs=[new_job("j1")])
        )

    assert await store.runs.existing(["flow:1"]) == []
    assert await store.jobs.unfinished(0) == []


async def test_a_job_is_created_by_the_commit_of_its_run(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    made = new_job("j1", input='{"x":1}')

    await store.commit(
        0, lease.epoch, run_changes(inserted=[run_row("flow:1", job_id="j1")], jobs=[made])
    )

    job = await store.jobs.get("j1")
    assert (job.state.status, bytes(job.spec.input), job.seq) == ("pending", b'{"x":1}', 1)
    assert [one.type for one in await store.jobs.events("j1")] == ["job_created"]


async def test_a_job_may_be_created_and_changed_in_one_commit(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    both = run_changes(inserted=[run_row("flow:1")], jobs=[new_job("j1")])
    both.jobs.update([job_row("j1", "cancelled", completed_at=T0 + 5)])
    both.events["j1"] = [event(2, "job_cancelled", None)]

    await store.commit(0, lease.epoch, both)

    assert (await store.jobs.get("j1")).state.status == "cancelled"


def run_event(seq: int, type: EventType = EventType.RUN_STATE_CHANGED) -> Event:
    return event(seq, type, None, data='{"state":"pending"}')


async def test_events_of_runs_are_read_page_by_page(store: Store) -> None:
    epoch = await put_runs(store, run_row("flow:1"), run_row("flow:2"))
    written = [run_event(1, EventType.RUN_CREATED), *(run_event(seq) for seq in range(2, 8))]
    await store.commit(0, epoch, run_changes(events={("flow", "flow:1"): written[:3]}))
    await store.commit(0, epoch, run_changes(events={("flow", "flow:1"): written[3:]}))
    await store.commit(0, epoch, run_changes(events={("flow", "flow:2"): [run_event(1)]}))

    first = await store.runs.events("flow:1", limit=4)
    rest = await store.runs.events("flow:1", after_seq=first[-1].seq)

    assert [*first, *rest] == written
    assert len(first) == 4


async def test_events_of_runs_are_not_events_of_jobs(store: Store) -> None:
    epoch = await put_runs(store, run_row("flow:1"))

    await store.commit(0, epoch, run_changes(events={("flow", "flow:1"): [run_event(1)]}))

    assert await store.jobs.events("flow:1") == []


async def test_an_unknown_run_has_no_events(store: Store) -> None:
    assert await store.runs.events("flow:1") == []


async def test_events_of_schedules_are_kept_by_workflow(store: Store) -> None:
    epoch = await put_runs(store, run_row("flow:1"))
    missed = [run_event(1, EventType.SLOTS_MISSED), run_event(2, EventType.SCHEDULE_STOPPED)]
    written = {
        ("flow", ""): missed,
        ("other", ""): [run_event(1)],
        ("flow", "flow:1"): [run_event(1)],
    }

    await store.commit(0, epoch, run_changes(events=written))

    assert await store.runs.schedule_events("flow") == missed
    assert await store.runs.schedule_events("flow", after_seq=1) == missed[1:]
    assert await store.runs.schedule_events("flow", limit=1) == missed[:1]


async def test_a_second_event_of_a_run_with_the_same_number_fails_the_whole_commit(
    store: Store,
) -> None:
    epoch = await put_runs(store, run_row("flow:1"))
    await store.commit(0, epoch, run_changes(events={("flow", "flow:1"): [run_event(1)]}))

    again = run_changes(events={("flow", "flow:1"): [run_event(1)]}, inserted=[run_row("flow:2")])
    with pytest.raises(CommitUnknown):
        await store.commit(0, epoch, again)

    assert await store.runs.existing(["flow:2"]) == []


async def test_the_workflow_that_decides_about_a_job_is_kept(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    submitted = structs.replace(new_job("j1"), shard_key="flow")
    created = structs.replace(new_job("j2"), shard_key="other", scheduled_at=T0 + 5)

    await store.jobs.insert([submitted])
    await store.commit(0, lease.epoch, run_changes(jobs=[created]))

    assert [(await store.jobs.get(job_id)).spec for job_id in ("j1", "j2")] == [submitted, created]


async def test_a_planned_run_can_be_withdrawn(store: Store) -> None:
    epoch = await put_runs(store, run_row("flow:1", "pre_run"))

    await store.commit(0, epoch, run_changes(withdrawn=["flow:1"]))

    with pytest.raises(RunNotFound, match="flow:1"):
        await store.runs.get("flow:1")


async def test_active_runs_are_those_of_the_shard_that_have_not_ended_oldest_slot_first(
    store: Store,
) -> None:
    await put_runs(
        store,
        run_row("flow:3", scheduled_at=T0 + 3),
        run_row("flow:1", scheduled_at=T0 + 1),
        run_row("flow:2", "failed", completed_at=T0 + 2),
        run_row("flow:4", shard=1),
    )

    assert [row.run_id for row in await store.runs.unfinished(0)] == ["flow:1", "flow:3"]


async def test_the_newest_run_of_a_job_is_found(store: Store) -> None:
    first = run_row("flow:j1", "failed", completed_at=T0, job_id="j1")
    again = structs.replace(run_row("flow:j1.1", job_id="j1"), created_at=T0 + 5)
    await put_runs(store, first, again)

    assert await store.runs.of_job("j1") == again


async def test_a_job_without_a_run_has_none(store: Store) -> None:
    assert await store.runs.of_job("j1") is None


async def test_runs_are_listed_newest_slot_first_page_by_page(store: Store) -> None:
    await put_runs(store, *(run_row(f"flow:{n}", scheduled_at=T0 + n) for n in range(5)))

    page = await store.runs.list(RunFilter(limit=2))
    rest = await store.runs.list(RunFilter(before=(page[-1].scheduled_at, page[-1].run_id)))

    assert [row.run_id for row in (*page, *rest)] == [
        "flow:4",
        "flow:3",
        "flow:2",
        "flow:1",
        "flow:0",
    ]


async def test_runs_are_listed_by_workflow_and_state(store: Store) -> None:
    await put_runs(
        store,
        run_row("flow:1"),
        run_row("flow:2", "completed", completed_at=T0),
        run_row("other:1", workflow_id="other"),
    )

    found = await store.runs.list(RunFilter(workflow_id="flow", state="completed"))

    assert [row.run_id for row in found] == ["flow:2"]


async def test_runs_are_counted_by_workflow_and_state(store: Store) -> None:
    await put_runs(
        store, run_row("flow:1"), run_row("flow:2"), run_row("flow:3", "failed", completed_at=T0)
    )

    assert dict(await store.runs.counts()) == {("flow", "running"): 2, ("flow", "failed"): 1}


async def test_the_success_of_the_last_run_that_counts_is_returned(store: Store) -> None:
    await put_runs(
        store,
        run_row("flow:1", "completed", completed_at=T0 + 1, succeeded=True),
        run_row("flow:2", "failed", completed_at=T0 + 2, succeeded=False),
        run_row("flow:3", "completed", completed_at=T0 + 3),
        run_row("other:1", workflow_id="other"),
    )

    assert dict(await store.runs.last_successes(["flow", "other"])) == {"flow": False}


async def test_a_deployed_schedule_starts_at_the_deployment(store: Store) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)

    expected = ScheduleRow("flow", 1, is_paused=False, slot_at=T0, created_at=T0, changed_at=T0)
    assert await store.runs.schedule("flow") == expected


async def test_a_workflow_without_a_schedule_has_none(store: Store) -> None:
    await store.workflows.put("flow", PLAIN, "d1", T0)

    with pytest.raises(ScheduleNotFound, match="flow"):
        await store.runs.schedule("flow")


async def test_a_new_version_keeps_the_position_of_the_schedule(store: Store) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)

    await store.workflows.put("flow", SCHEDULED, "d2", T0 + 5)

    row = await store.runs.schedule("flow")
    assert (row.version, row.slot_at, row.changed_at) == (2, T0, T0 + 5)


async def test_a_version_without_a_schedule_removes_it_and_a_later_one_starts_again(
    store: Store,
) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)
    await store.workflows.put("flow", PLAIN, "d2", T0 + 5)
    [gone] = await store.runs.changed_schedules(T0 + 5, 10)

    await store.workflows.put("flow", SCHEDULED, "d3", T0 + 9)

    assert gone.is_gone
    assert (await store.runs.schedule("flow")).slot_at == T0 + 9


async def test_a_deleted_workflow_has_no_schedule(store: Store) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)

    await store.workflows.delete("flow", T0 + 5, force=False)

    assert await store.runs.schedules(ScheduleFilter()) == []
    assert [row.is_gone for row in await store.runs.changed_schedules(T0 + 5, 10)] == [True]


async def test_schedules_are_listed_by_workflow_page_by_page(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.workflows.put(name, SCHEDULED, "d", T0)

    page = await store.runs.schedules(ScheduleFilter(limit=2))
    rest = await store.runs.schedules(ScheduleFilter(after=page[-1].workflow_id))

    assert [row.workflow_id for row in (*page, *rest)] == ["a", "b", "c"]


async def test_a_resumed_schedule_continues_after_the_pause(store: Store) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)
    paused = await store.runs.pause_schedule("flow", paused=True, now=T0 + 5)

    resumed = await store.runs.pause_schedule("flow", paused=False, now=T0 + 9)

    assert (paused.is_paused, paused.slot_at, paused.changed_at) == (True, T0, T0 + 5)
    assert (resumed.is_paused, resumed.slot_at, resumed.changed_at) == (False, T0 + 9, T0 + 9)


async def test_a_pause_of_a_paused_schedule_changes_nothing(store: Store) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)
    first = await store.runs.pause_schedule("flow", paused=True, now=T0 + 5)

    assert await store.runs.pause_schedule("flow", paused=True, now=T0 + 9) == first


async def test_a_missing_schedule_cannot_be_paused(store: Store) -> None:
    with pytest.raises(ScheduleNotFound, match="flow"):
        await store.runs.pause_schedule("flow", paused=True, now=T0)


async def test_a_mark_never_moves_a_schedule_back(store: Store) -> None:
    await store.workflows.put("flow", SCHEDULED, "d1", T0)
    lease = await store.leases.take(0, "one")

    await store.commit(0, lease.epoch, run_changes(marks=[ScheduleMark("flow", T0 + 60, 3)]))
    await store.commit(0, lease.epoch, run_changes(marks=[ScheduleMark("flow", T0 + 30, 2)]))

    row = await store.runs.schedule("flow")
    assert (row.slot_at, row.seq) == (T0 + 60, 3)


async def test_a_request_waits_until_a_commit_applies_it(store: Store) -> None:
    asked = RunRequest("r1", "flow", 0, "backfill", T0, since=T0, until=T0 + 5)
    await store.runs.put_request(asked)
    await store.runs.put_request(RunRequest("r2", "flow", 1, "cancel", T0, "flow:1", "not needed"))
    waiting = await store.runs.requests([0], 10)
    unapplied = await store.jobs.unapplied_requests(["r1", "r2", "r3"])
    lease = await store.leases.take(0, "one")

    await store.commit(0, lease.epoch, run_changes(requests=["r1"]))

    assert waiting == [asked]
    assert sorted(unapplied) == ["r1", "r2"]
    assert await store.jobs.unapplied_requests(["r1", "r2"]) == ["r2"]


async def test_a_shard_that_was_never_owned_has_no_heartbeat(store: Store) -> None:
    assert await store.runs.heartbeat_age_seconds(0) is None


async def test_heartbeats_are_counted_for_each_shard(store: Store) -> None:
    counted = [await store.runs.put_heartbeat(shard) for shard in (0, 3, 0)]

    assert counted == [1, 1, 2]
    assert await store.runs.heartbeats() == {0: 2, 3: 1}


async def test_a_heartbeat_resets_its_age(store: Store) -> None:
    await store.runs.put_heartbeat(0)

    age_seconds = await store.runs.heartbeat_age_seconds(0)

    assert age_seconds is not None
    assert 0 <= age_seconds < 60


async def test_deliveries_are_listed_newest_first_and_by_outcome(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    rows = [
        delivery_row("d1"),
        delivery_row("d2", sent_at=T0 + 2),
        delivery_row("d3", sent_at=T0 + 3, outcome="failed"),
    ]

    await store.commit(0, lease.epoch, run_changes(deliveries=rows))

    assert await store.runs.deliveries(DeliveryFilter(limit=2)) == [rows[2], rows[1]]
    assert await store.runs.deliveries(DeliveryFilter(outcome="failed", job_id="j1")) == [rows[2]]
    assert await store.runs.deliveries(
        DeliveryFilter(before=(T0 + 2, "d2"), workflow_id="flow")
    ) == [rows[0]]
    assert await store.runs.delivery("d2") == rows[1]


async def test_an_unknown_delivery_is_not_found(store: Store) -> None:
    with pytest.raises(DeliveryNotFound, match="d1"):
        await store.runs.delivery("d1")


async def test_old_runs_are_deleted_with_their_events_except_the_last_one_that_counts(
    store: Store,
) -> None:
    epoch = await put_runs(
        store,
        run_row("flow:1", "completed", completed_at=T0 + 1, succeeded=True),
        run_row("flow:2", "failed", completed_at=T0 + 2, succeeded=False),
        run_row("flow:3", "cancelled", completed_at=T0 + 3),
        run_row("flow:4", "completed", completed_at=T0 + 50, succeeded=None),
        run_row("flow:5"),
    )
    kept = {("flow", "flow:2"): [run_event(1)]}
    old = {("flow", "flow:1"): [run_event(1)], ("flow", ""): [run_event(1)]}
    new = structs.replace(run_event(2), at=T0 + 20)
    await store.commit(0, epoch, run_changes(events={**old, **kept}))
    await store.commit(0, epoch, run_changes(events={("flow", ""): [new]}))

    await store.jobs.prune(T0 + 10, 100)

    assert [row.run_id for row in await store.runs.list(RunFilter())] == [
        "flow:5",
        "flow:4",
        "flow:2",
    ]
    assert await store.runs.events("flow:1") == []
    assert await store.runs.events("flow:2") == [run_event(1)]
    assert await store.runs.schedule_events("flow") == [new]


async def test_the_job_of_a_run_that_has_not_ended_is_kept(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    epoch = await put_runs(store, run_row("flow:1", "retrying", job_id="j1"))
    await end(store, "j1", epoch, T0 + 1, "failed")
    await end(store, "j2", epoch, T0 + 1, "failed")

    assert await store.jobs.prune(T0 + 10, 100) == ["j2"]


async def test_deliveries_are_removed_with_their_jobs(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    lease = await store.leases.take(0, "one")
    rows = [delivery_row("d1", job_id="j1"), delivery_row("d2", job_id="j2")]
    await store.commit(0, lease.epoch, run_changes(deliveries=rows))
    await end(store, "j1", lease.epoch, T0 + 1)

    await store.jobs.prune(T0 + 10, 100)

    assert [row.delivery_id for row in await store.runs.deliveries(DeliveryFilter())] == ["d2"]


async def test_the_runs_of_slots_are_found_by_their_instants(store: Store) -> None:
    first = structs.replace(run_row("flow:1"), scheduled_at=T0 + 1)
    second = structs.replace(run_row("flow:1.2"), scheduled_at=T0 + 1)
    other = structs.replace(run_row("flow:2"), scheduled_at=T0 + 2)
    await put_runs(store, first, second, other)

    found = await store.runs.of_slots("flow", [T0 + 1, T0 + 3])

    assert [row.run_id for row in found] == ["flow:1", "flow:1.2"]
    assert await store.runs.of_slots("none", [T0 + 1]) == []


async def test_events_of_a_schedule_are_found_after_older_ones_were_deleted(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    late = structs.replace(run_event(5_000), at=T0 + 20)
    await store.commit(0, lease.epoch, run_changes(events={("flow", ""): [late]}))

    assert await store.runs.schedule_events("flow", 0, 10) == [late]
