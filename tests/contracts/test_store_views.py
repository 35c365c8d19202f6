"""The contract of stores: views of jobs, with nodes by number, briefs without outputs, and counts of iterations."""

from collections.abc import Sequence

from msgspec import Raw, structs

from tests.contracts.rows import T0, changes, event, job_row, new_job, node_row, task_row
from windlass.core.changes import InFlightEntry, IterationRow, NodeRow
from windlass.ports.store import Store
from windlass.ports.store.jobs import IterationFilter, NodeBrief
from windlass.stores.rows import PAGE_EVENTS_MAX

LOOP = IterationFilter("j1", 3, 0)
PROGRESS = Raw(b'{"total":10,"begun":8}')


async def commit(
    store: Store, nodes: Sequence[NodeRow] = (), tasks: Sequence[IterationRow] = ()
) -> None:
    lease = await store.leases.take(0, "one")
    if lease.epoch == 1:
        await store.jobs.insert([new_job("j1"), new_job("j2")])
    await store.commit(0, lease.epoch, changes(nodes=nodes, tasks=tasks))


async def test_a_snapshot_has_the_job_and_its_nodes_but_no_loops(store: Store) -> None:
    looping = structs.replace(node_row("j1", "a", "running"), number=3, progress=PROGRESS)
    await commit(store, nodes=[looping], tasks=[task_row("j1", 0)])

    found = await store.jobs.snapshot("j1")

    assert (found.job.spec.job_id, list(found.nodes), list(found.loops)) == ("j1", [looping], [])


async def test_nodes_are_read_by_their_numbers(store: Store) -> None:
    rows = [structs.replace(node_row("j1", f"n{number}"), number=number) for number in (7, 2, 3, 5)]
    await commit(store, nodes=[*rows, structs.replace(node_row("j2", "other"), number=3)])

    assert [row.node_id for row in await store.jobs.node_page("j1", 3, 4)] == ["n3", "n5"]
    assert list(await store.jobs.node_page("j1", 8, 100)) == []


async def test_a_brief_describes_a_node_without_its_output(store: Store) -> None:
    long = structs.replace(
        node_row("j1", "a", output='"' + "é" * 400 + '"', meta='{"m":1}'), number=1
    )
    none = structs.replace(
        node_row("j1", "b", "running"), number=2, completed_at=None, progress=PROGRESS
    )
    await commit(store, nodes=[long, none, structs.replace(node_row("j1", "c"), number=3)])

    found = sorted(await store.jobs.node_briefs("j1", [2, 1, 9]), key=lambda brief: brief.number)

    assert found == [
        NodeBrief(1, "completed", T0 + 3, '"' + "é" * 31, Raw(b'{"m":1}')),
        NodeBrief(2, "running", progress=PROGRESS),
    ]


async def test_nodes_in_flight_without_a_row_are_listed_and_restored_as_if_they_had_one(
    store: Store,
) -> None:
    lease = await store.leases.take(0, "one")
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    out = (InFlightEntry(2, "b", T0 + 4), InFlightEntry(5, "e", T0 + 6))
    row = structs.replace(node_row("j1", "a"), number=1)
    # More events than fit into one page: only the last page counts.
    events = [event(seq) for seq in range(2, 2 + 2 * PAGE_EVENTS_MAX)]
    await store.commit(
        0, lease.epoch, changes(nodes=[row], events={"j1": events}, in_flight={"j1": out})
    )

    expected = [row, *(one.row("j1") for one in out)]
    found = await store.jobs.restore("j1")
    assert (list(found.nodes), tuple(found.in_flight)) == ([row], out)
    assert [
        one.in_flight
        for one in await store.jobs.restore_all(["j1", "j2"])
        if one.job.spec.job_id == "j1"
    ] == [out]
    assert (await store.jobs.snapshot("j1")).all_nodes() == expected
    assert sorted(await store.jobs.nodes("j1"), key=lambda node: node.number) == expected
    assert list(await store.jobs.nodes("j1", "e")) == expected[2:]
    assert list(await store.jobs.node_page("j1", 2, 3)) == expected[1:2]
    assert list(await store.jobs.node_briefs("j1", [5])) == [NodeBrief(5, "dispatched")]
    spans = await store.overview.node_spans(["j1", "j2"], 10)
    assert sorted((span.node_id, span.status) for span in spans) == [
        ("a", "completed"),
        ("b", "dispatched"),
        ("e", "dispatched"),
    ]
    assert list(await store.jobs.nodes("j2")) == []


async def test_only_the_newest_page_names_the_nodes_in_flight_without_a_row(store: Store) -> None:
    lease = await store.leases.take(0, "one")
    await store.jobs.insert([new_job("j1")])
    out = {"j1": (InFlightEntry(1, "a", T0), InFlightEntry(2, "b", T0))}
    await store.commit(0, lease.epoch, changes(events={"j1": [event(2)]}, in_flight=out))
    back = structs.replace(node_row("j1", "a"), number=1)
    await store.commit(
        0,
        lease.epoch,
        changes(nodes=[back], events={"j1": [event(3)]}, in_flight={"j1": out["j1"][1:]}),
    )
    # A commit without events of the job.
    await store.commit(0, lease.epoch, changes(jobs=[job_row("j1", "running")]))

    assert sorted(await store.jobs.nodes("j1"), key=lambda node: node.number) == [
        back,
        out["j1"][1].row("j1"),
    ]

    last = structs.replace(node_row("j1", "b"), number=2)
    await store.commit(0, lease.epoch, changes(nodes=[last], events={"j1": [event(4)]}))

    assert (await store.jobs.restore("j1")).in_flight == ()
    assert sorted(await store.jobs.nodes("j1"), key=lambda node: node.number) == [back, last]


async def test_iterations_are_counted_by_status_within_their_loop(store: Store) -> None:
    here = [
        task_row("j1", index, status)
        for index, status in enumerate(["completed", "failed", "completed"])
    ]
    elsewhere = [
        task_row("j1", 0, "failed", number=4),
        task_row("j1", 0, "failed", generation=1),
        task_row("j2", 0),
    ]
    await commit(store, tasks=here)
    await commit(store, tasks=elsewhere[:1])
    await commit(store, tasks=elsewhere[1:])

    assert dict(await store.jobs.iteration_counts("j1", 3, 0)) == {"completed": 2, "failed": 1}
    assert dict(await store.jobs.iteration_counts("j1", 5, 0)) == {}


async def test_iterations_without_a_row_are_found_between_those_with_one(store: Store) -> None:
    await commit(store, tasks=[task_row("j1", index) for index in (1, 2, 5, 9)])

    assert list(await store.jobs.unrecorded_iterations(LOOP, 8)) == [0, 3, 4, 6, 7]
    assert list(
        await store.jobs.unrecorded_iterations(structs.replace(LOOP, after=3, limit=2), 8)
    ) == [4, 6]
    assert list(await store.jobs.unrecorded_iterations(structs.replace(LOOP, after=7), 8)) == []


async def test_all_started_iterations_of_a_loop_without_rows_are_in_flight(store: Store) -> None:
    await commit(store)

    assert list(
        await store.jobs.unrecorded_iterations(structs.replace(LOOP, limit=3), 100_000)
    ) == [0, 1, 2]


async def test_a_loop_with_a_row_for_every_iteration_has_none_in_flight(store: Store) -> None:
    await commit(store, tasks=[task_row("j1", index) for index in range(4)])

    assert list(await store.jobs.unrecorded_iterations(LOOP, 4)) == []
