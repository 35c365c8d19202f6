"""What only the SQLite store does: one writer, migrations, the cache, and a full disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec import Raw

from tests.contracts.rows import changes, event, job_row, new_job, node_row
from tests.contracts.run_rows import put_runs, run_changes, run_row
from windlass.clock import SystemClock
from windlass.core.changes import InFlightEntry
from windlass.core.errors import CommitUnknown, StoreUnavailable, WorkflowNotFound
from windlass.core.states import JobStatus
from windlass.ports.store.jobs import JobFilter, Request
from windlass.ports.store.workflows import StoredWorkflow
from windlass.stores.migrator import migrations
from windlass.stores.queries import SQLITE, queries
from windlass.stores.rows import job_query
from windlass.stores.sqlite.store import SqliteStore
from windlass.stores.sqlite.workflow_cache import WORKFLOWS_MAX, WorkflowCache


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "windlass.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(path, SystemClock(), synchronous="off")
    yield opened
    await opened.close()


async def test_reader_refuses_a_schema_that_is_newer_than_this_version(
    store: SqliteStore, path: str
) -> None:
    with closing(apsw.Connection(path)) as connection:
        connection.execute(
            "insert into schema_version (number, name, checksum, applied_at) values (9999, 'next', 'x', 0)"
        )

    with pytest.raises(StoreUnavailable, match="schema 9999, newer than"):
        await SqliteStore.open_reader(path)


async def test_concurrent_writers_and_readers_get_no_lock_error(store: SqliteStore) -> None:
    lease = await store.leases.take(0, "one")

    async def write(writer: int) -> None:
        for n in range(200):
            job_id = f"j{writer}-{n}"
            await store.jobs.insert([new_job(job_id)])
            await store.commit(
                0, lease.epoch, changes(nodes=[node_row(job_id, "a")], events={job_id: [event(2)]})
            )
            assert (await store.jobs.get(job_id)).seq == 2

    await asyncio.gather(*(write(writer) for writer in range(16)))

    assert len(await store.jobs.unfinished(0)) == 3200


async def test_a_commit_of_many_jobs_does_not_block_the_event_loop(store: SqliteStore) -> None:
    lease = await store.leases.take(0, "one")
    await store.jobs.insert([new_job(f"j{number}") for number in range(200)])

    few = store.commit(
        0, lease.epoch, changes(nodes=[node_row("j0", "a")], events={"j0": [event(2)]})
    )
    assert few.done()
    # Dispatched nodes have no rows; their events are written.
    many = store.commit(
        0, lease.epoch, changes(events={f"j{number}": [event(3)] for number in range(200)})
    )
    assert not many.done()
    await many


async def test_a_second_store_on_the_file_waits_for_the_write_lock(
    store: SqliteStore, path: str
) -> None:
    other = await SqliteStore.open(path, SystemClock(), synchronous="off")

    await asyncio.gather(
        *(s.jobs.insert([new_job(f"{n}-{s is other}")]) for n in range(100) for s in (store, other))
    )

    assert len(await store.jobs.unfinished(0)) == 200
    await other.close()


async def test_a_reader_sees_committed_rows_only(store: SqliteStore, path: str) -> None:
    await store.jobs.insert([new_job("j1")])
    reader = await SqliteStore.open_reader(path)
    writing = apsw.Connection(path)
    writing.execute("begin immediate")
    writing.execute("update jobs set status = 'running'")

    assert (await reader.jobs.get("j1")).state.status == "pending"

    writing.execute("commit")
    assert (await reader.jobs.get("j1")).state.status == "running"
    writing.close()
    await reader.close()


async def test_a_reader_cannot_write(store: SqliteStore, path: str) -> None:
    reader = await SqliteStore.open_reader(path)

    with pytest.raises(StoreUnavailable, match="reading only"):
        await reader.jobs.insert([new_job("j1")])
    await reader.close()


async def test_a_reader_of_a_missing_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no database"):
        await SqliteStore.open_reader(str(tmp_path / "nothing.db"))


async def test_a_reader_of_an_older_database_explains_how_to_migrate_it(path: str) -> None:
    made = apsw.Connection(path)
    made.execute("create table jobs (job_id text not null primary key)")
    made.close()
    reader = await SqliteStore.open_reader(path)

    with pytest.raises(StoreUnavailable, match="windlass db migrate"):
        await reader.jobs.nodes("j1")
    await reader.close()


async def test_a_reopened_database_has_all_its_rows(store: SqliteStore, path: str) -> None:
    await store.jobs.insert([new_job("j1", input='{"é":1}')])
    await store.close()

    again = await SqliteStore.open(path, SystemClock())

    assert bytes((await again.jobs.get("j1")).spec.input) == '{"é":1}'.encode()
    await again.close()


async def test_migrations_are_applied_once(store: SqliteStore, path: str) -> None:
    await store.close()
    again = await SqliteStore.open(path, SystemClock())
    await again.close()

    applied = list(apsw.Connection(path).execute("select number, checksum from schema_version"))

    assert applied == sorted((step.number, step.checksum) for step in migrations(SQLITE))


async def test_nodes_in_flight_of_an_older_schema_keep_their_dispatch(
    store: SqliteStore, path: str
) -> None:
    lease = await store.leases.take(0, "one")
    await store.jobs.insert([new_job("j1")])
    await store.commit(0, lease.epoch, changes(events={"j1": [event(2)]}))
    [step] = [step for step in migrations(SQLITE) if step.name == "in_flight_entries"]
    database = apsw.Connection(path)
    database.execute('update events set in_flight = \'[[4,"a",2,77],[5,"b",2,78]]\'')

    database.execute(step.sql)

    entries = (InFlightEntry(4, "a", 77), InFlightEntry(5, "b", 78))
    assert (await store.jobs.restore("j1")).in_flight == entries


async def test_definitions_are_applied_again_when_they_changed(
    store: SqliteStore, path: str
) -> None:
    await store.close()
    database = apsw.Connection(path)
    database.execute("drop view node_list")
    database.execute("update schema_version set checksum = 'other' where name = 'definitions'")

    again = await SqliteStore.open(path, SystemClock())
    await again.close()

    assert list(database.execute("select * from node_list")) == []
    applied = list(database.execute("select number, checksum from schema_version"))
    assert applied == sorted((step.number, step.checksum) for step in migrations(SQLITE))


async def test_a_database_of_a_newer_version_is_refused(store: SqliteStore, path: str) -> None:
    await store.close()
    apsw.Connection(path).execute("insert into schema_version values (99, 'future', 'x', 0)")

    with pytest.raises(StoreUnavailable, match="schema 99, newer"):
        await SqliteStore.open(path, SystemClock())


async def test_a_migration_that_was_changed_afterwards_is_refused(
    store: SqliteStore, path: str
) -> None:
    await store.close()
    apsw.Connection(path).execute("update schema_version set checksum = 'other'")

    with pytest.raises(StoreUnavailable, match="was changed after"):
        await SqliteStore.open(path, SystemClock())


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    path.write_bytes(b"no database at all, and long enough to be looked at" * 100)

    with pytest.raises(StoreUnavailable, match="cannot use the database"):
        await SqliteStore.open(str(path), SystemClock())


def limit_size(store: SqliteStore, pages_more: int) -> None:
    """Make the disk full for the writer after this many more pages."""
    connection = store._connection
    assert connection is not None
    pages = next(iter(connection.execute("pragma page_count")))[0]
    connection.execute(
        f"pragma max_page_count = {pages + pages_more if pages_more >= 0 else 2**30}"
    )


async def test_a_full_disk_leaves_no_partial_commit(store: SqliteStore) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    limit_size(store, 2)

    wanted = changes(
        jobs=[job_row("j1")],
        nodes=[node_row("j1", "a", output='"' + "x" * 100_000 + '"')],
        events={"j1": [event(2)]},
    )
    with pytest.raises(CommitUnknown, match="full"):
        await store.commit(0, lease.epoch, wanted)

    restored = await store.jobs.restore("j1")
    job, nodes = restored.job, restored.nodes
    assert (job.state.status, job.seq, list(nodes)) == ("pending", 1, [])


async def test_the_store_works_again_when_the_disk_has_space(store: SqliteStore) -> None:
    lease = await store.leases.take(0, "one")
    limit_size(store, 0)
    with pytest.raises(CommitUnknown):
        await store.jobs.insert([new_job("j1", input='"' + "x" * 100_000 + '"')])
    limit_size(store, -1)

    await store.jobs.insert([new_job("j1")])
    await store.commit(0, lease.epoch, changes(events={"j1": [event(2)]}))

    assert (await store.jobs.get("j1")).seq == 2


async def test_a_full_disk_fails_all_operations_of_a_group(store: SqliteStore) -> None:
    limit_size(store, 0)
    large = '"' + "x" * 50_000 + '"'

    outcomes = await asyncio.gather(
        *(store.jobs.insert([new_job(f"j{n}", input=large)]) for n in range(20)),
        return_exceptions=True,
    )

    assert {type(outcome) for outcome in outcomes} == {CommitUnknown}
    assert list(await store.jobs.list(JobFilter())) == []


async def test_a_refused_operation_does_not_affect_its_group(store: SqliteStore) -> None:
    await store.jobs.insert([new_job("j1")])

    outcomes = await asyncio.gather(
        *(
            store.jobs.put_request(Request(f"r{n}", "j1" if n % 2 else "nothing", "cancel", n))
            for n in range(10)
        ),
        return_exceptions=True,
    )

    assert [isinstance(outcome, int) for outcome in outcomes] == [bool(n % 2) for n in range(10)]
    assert [r.request_id for r in await store.jobs.requests(0, 10)] == [
        "r1",
        "r3",
        "r5",
        "r7",
        "r9",
    ]


async def deployed(store: SqliteStore, digest: str) -> int:
    return (await store.workflows.put("w", Raw(b"{}"), digest, 1)).version


@pytest.fixture
async def alone(path: str) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(path, SystemClock(), synchronous="off", alone=True)
    await deployed(opened, "first")
    assert (await opened.workflows.get("w")).version == 1
    yield opened
    await opened.close()


async def test_a_caching_store_returns_a_new_version_immediately(alone: SqliteStore) -> None:
    await deployed(alone, "second")

    assert (await alone.workflows.get("w")).version == 2


async def test_a_caching_store_does_not_return_a_deleted_workflow(alone: SqliteStore) -> None:
    await alone.workflows.delete("w", 2, force=False)

    with pytest.raises(WorkflowNotFound):
        await alone.workflows.get("w")


async def test_a_caching_store_applies_a_change_whose_caller_was_cancelled(
    alone: SqliteStore,
) -> None:
    deploying = asyncio.create_task(deployed(alone, "second"))
    await asyncio.sleep(0)
    deploying.cancel()
    await asyncio.gather(deploying, alone.workflows.get("w"), return_exceptions=True)
    # Writes are stored in order: the change is stored before this.
    await alone.jobs.insert([new_job("j1")])

    assert (await alone.workflows.get("w")).version == 2


def test_a_version_that_was_read_before_a_change_is_not_cached() -> None:
    newest = WorkflowCache(enabled=True)
    changes_before = newest.changes
    newest.invalidate("w")

    newest.put(StoredWorkflow("w", 1, Raw(b"{}"), "first", 1), changes_before)

    assert newest.get("w") is None


def test_the_number_of_cached_workflows_is_limited() -> None:
    newest = WorkflowCache(enabled=True)
    names = [f"w{number}" for number in range(WORKFLOWS_MAX * 3)]

    for name in names:
        newest.put(StoredWorkflow(name, 1, Raw(b"{}"), "first", 1), 0)

    assert sum(newest.get(name) is not None for name in names) <= WORKFLOWS_MAX


async def test_a_store_without_a_cache_returns_versions_of_another_store(
    store: SqliteStore, path: str
) -> None:
    other = await SqliteStore.open(path, SystemClock(), synchronous="off")
    await deployed(other, "first")
    assert (await store.workflows.get("w")).version == 1

    await deployed(other, "second")

    assert (await store.workflows.get("w")).version == 2
    await other.close()


async def test_concurrent_submits_get_their_own_results(store: SqliteStore) -> None:
    groups = [[new_job(f"j{group}-{n}") for n in range(group % 7)] for group in range(60)]

    answers = await asyncio.gather(*(store.jobs.insert(group) for group in groups))

    assert [[answer.job.spec.job_id for answer in each] for each in answers] == [
        [job.job_id for job in group] for group in groups
    ]


async def test_a_cancelled_submit_does_not_affect_concurrent_ones(store: SqliteStore) -> None:
    first, second = (
        asyncio.create_task(store.jobs.insert([new_job(name)])) for name in ("j1", "j2")
    )
    await asyncio.sleep(0)

    first.cancel()

    assert [answer.job.spec.job_id for answer in await second] == ["j2"]


async def test_the_first_event_is_derived_from_the_job(store: SqliteStore, path: str) -> None:
    await store.jobs.insert([new_job("j1")])
    connection = apsw.Connection(path)
    assert list(connection.execute("select * from events")) == []

    events = await store.jobs.events("j1")

    expected = [(1, "job_created", Raw(b'{"workflow_id":"flow","version":1}'))]
    assert [(event.seq, event.type, event.data) for event in events] == expected
    shown = list(connection.execute("select job_id, seq, event_type from event_list"))
    assert shown == [("j1", 1, "job_created")]
    connection.close()


async def test_events_of_runs_have_a_view_and_are_found_by_their_key(
    store: SqliteStore, path: str
) -> None:
    epoch = await put_runs(store, run_row("flow:1"))
    written = {("flow", "flow:1"): [event(1, "run_created"), event(2, "run_state_changed")]}
    await store.commit(0, epoch, run_changes(events=written))
    connection = apsw.Connection(path)

    shown = list(
        connection.execute("select workflow_id, run_id, seq, event_type from run_event_list")
    )
    of_run = list(
        connection.execute(
            f"explain query plan {queries(SQLITE)['run_event_pages'].sql}", ("r", 0, 9)
        )
    )

    assert shown == [
        ("flow", "flow:1", 1, "run_created"),
        ("flow", "flow:1", 2, "run_state_changed"),
    ]
    assert ["SEARCH run_events USING PRIMARY KEY" in row[3] for row in of_run][:1] == [True]
    connection.close()


async def test_a_page_of_events_is_read_without_the_others(store: SqliteStore, path: str) -> None:
    connection = apsw.Connection(path)

    asked = f"explain query plan {queries(SQLITE)['event_pages'].sql}"
    plan = [row[3] for row in connection.execute(asked, ("j1", 0, 10))]

    assert "MERGE (UNION ALL)" in plan
    assert not [step for step in plan if "SCAN" in step or "TEMP" in step]
    connection.close()


@pytest.mark.parametrize("workflow_id", [None, "flow"])
@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.RUNNING])
async def test_lists_of_rare_jobs_do_not_search_the_history(
    store: SqliteStore, path: str, status: JobStatus, workflow_id: str | None
) -> None:
    name, values = job_query(JobFilter(limit=10, status=status, workflow_id=workflow_id))
    query = queries(SQLITE)[name]
    connection = apsw.Connection(path)

    asked = f"explain query plan {query.sql}"
    plan = [row[3] for row in connection.execute(asked, [values[one] for one in query.parameters])]
    connection.close()

    index = "jobs_unsuccessful_of_workflow" if workflow_id else "jobs_unsuccessful"
    if status is JobStatus.RUNNING:
        assert any("USING INDEX jobs_unfinished" in step for step in plan), plan
    else:
        assert [f"SEARCH jobs USING INDEX {index} " in step for step in plan] == [True], plan
