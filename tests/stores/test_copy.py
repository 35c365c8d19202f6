"""An embedded database is copied to PostgreSQL completely or not at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import asyncpg
import pytest
from msgspec import Raw, structs

from tests.contracts.rows import T0, changes, end, event, new_job, node_row, task_row
from tests.contracts.run_rows import SCHEDULED, delivery_row, run_changes, run_row
from tests.contracts.stores import emptied
from tests.servers import Server, new_database
from windlass.clock import SystemClock
from windlass.core.changes import CallOutputRow, CollectionChunkRow
from windlass.core.errors import CommitUnknown, RequestRefused, StoreUnavailable
from windlass.core.messages import Succeeded, TaskFinished
from windlass.core.shards import shard_of
from windlass.ports.handler import LogLine
from windlass.ports.store.jobs import JobFilter, Request, StoredResult
from windlass.ports.store.leases import Deployment, EngineRow
from windlass.ports.store.logs import LogFilter
from windlass.ports.store.runs import RunFilter, RunRequest
from windlass.ports.store.workflows import AliasTarget
from windlass.stores.copy import TABLES, copy_database
from windlass.stores.postgres.store import PostgresStore
from windlass.stores.sqlite.store import SqliteStore

SHARDS = 8
AWKWARD = r'{"é世🌍":"quote \" backslash \\ null \u0000","n":18446744073709551615}'


@pytest.fixture(scope="session")
def copy_database_url(postgres_server: Server) -> str:
    return new_database(postgres_server.url, "copies")


@pytest.fixture
async def target(copy_database_url: str) -> str:
    return await emptied(copy_database_url)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "windlass.db")


@pytest.fixture
async def source(path: str) -> AsyncIterator[SqliteStore]:
    """A store with rows in every table."""
    store = await SqliteStore.open(path, SystemClock(), synchronous="off")
    await store.workflows.put("flow", Raw(AWKWARD.encode()), "d1", T0)
    await store.workflows.put("flow", Raw(b"{}"), "d2", T0)
    await store.workflows.put("old", Raw(b"{}"), "d", T0)
    await store.workflows.delete("old", T0, force=False)
    await store.workflows.put_alias("flow", "stable", [AliasTarget(1, 90), AliasTarget(2, 10)], T0)
    await store.jobs.insert(
        [
            new_job(f"j{n}", input=AWKWARD, key=f"k{n}", digest="d", created_at=T0 + n)
            for n in range(450)
        ]
    )
    lease = await store.leases.take(0, "one")
    looping = structs.replace(
        node_row("j1", "a", "running"), number=3, progress=Raw(b'{"total":10,"begun":4}')
    )
    written = changes(
        nodes=[looping, node_row("j1", "b", output=AWKWARD, error="null", meta="{}")],
        events={"j1": [event(n, data=AWKWARD) for n in range(2, 900)]},
        tasks=[task_row("j1", 0, output=AWKWARD), task_row("j1", 1, "failed")],
    )
    written.call_outputs.append(CallOutputRow("j1", 3, 0, 2, 1, Raw(b'["page"]')))
    written.chunks.append(CollectionChunkRow("j1", 3, 0, 0, b"[1,2,3]"))
    await store.commit(0, lease.epoch, written)
    await end(store, "j2", lease.epoch, T0 + 5, "failed")
    await store.jobs.put_request(Request("r1", "j1", "cancel", T0, "not\0needed", "a"))
    message = TaskFinished("j1", "a", 1, "w", T0, T0, Succeeded(Raw(b"1")), result_id="t1")
    await store.jobs.put_result(StoredResult("t1", 0, message, T0))
    await store.logs.append([LogLine("j1", "a", 0, 1, T0, "info", f"line {n}\0") for n in range(3)])
    await store.workflows.put("timed", SCHEDULED, "d", T0)
    await store.runs.put_request(RunRequest("r2", "timed", 0, "cancel", T0, "timed:1", "no\0need"))
    runs = [
        run_row("timed:1", workflow_id="timed"),
        run_row("timed:2", "failed", workflow_id="timed", completed_at=T0, succeeded=False),
    ]
    events = {
        ("timed", "timed:1"): [event(1, "run_created", None)],
        ("timed", ""): [event(1, "slots_missed", None)],
    }
    await store.commit(
        0, lease.epoch, run_changes(inserted=runs, deliveries=[delivery_row("d1")], events=events)
    )
    yield store
    await store.close()


async def copied(source: SqliteStore, path: str, target: str) -> PostgresStore:
    await copy_database(path, target, SHARDS, T0)
    return await PostgresStore.open(target, SystemClock(), connections_max=10)


async def test_schedules_runs_and_deliveries_are_copied(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await copied(source, path, target)

    shard = shard_of("timed", SHARDS)
    assert await store.runs.schedule("timed") == await source.runs.schedule("timed")
    runs = [structs.replace(row, shard=shard) for row in await source.runs.list(RunFilter())]
    assert list(await store.runs.list(RunFilter())) == runs
    assert [row.request_id for row in await store.runs.requests([shard], 10)] == ["r2"]
    assert await store.runs.delivery("d1") == await source.runs.delivery("d1")
    assert (
        list(await store.runs.events("timed:1")) == list(await source.runs.events("timed:1")) != []
    )
    assert (
        list(await store.runs.schedule_events("timed"))
        == list(await source.runs.schedule_events("timed"))
        != []
    )
    await store.close()


async def rows_in(target: str) -> dict[str, int]:
    connection = await asyncpg.connect(target)
    counts = {name: await connection.fetchval(f"select count(*) from {name}") for name in TABLES}
    await connection.close()
    return counts


async def test_every_copied_job_is_restored_unchanged(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await copied(source, path, target)

    jobs = await source.jobs.list(JobFilter(limit=1_000))
    assert len(jobs) == 450
    for job_id in (job.spec.job_id for job in jobs):
        before, after = await source.jobs.restore(job_id), await store.jobs.restore(job_id)
        assert structs.replace(after.job.spec, shard=0) == before.job.spec
        assert (after.job.state, after.job.seq) == (before.job.state, before.job.seq)
        assert sorted(after.nodes, key=lambda row: row.number) == sorted(
            before.nodes, key=lambda row: row.number
        )
        assert list(after.loops) == list(before.loops)
        assert list(await store.jobs.events(job_id, 0, 2_000)) == list(
            await source.jobs.events(job_id, 0, 2_000)
        )
    await store.close()


async def test_definitions_aliases_requests_results_and_logs_are_copied(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await copied(source, path, target)

    shard = shard_of("j1", SHARDS)
    assert list(await store.workflows.versions("flow")) == list(
        await source.workflows.versions("flow")
    )
    assert list(await store.workflows.versions("old")) == list(
        await source.workflows.versions("old")
    )
    assert await store.workflows.aliases("flow") == await source.workflows.aliases("flow")
    assert list(await store.jobs.requests(shard, 9)) == [
        Request("r1", "j1", "cancel", T0, "not\ufffdneeded", "a")
    ]
    assert [one.message for one in await store.jobs.results(shard, 9)] == [
        one.message for one in await source.jobs.results(0, 9)
    ]
    assert [(one.log_id, one.line.message) for one in await store.logs.list(LogFilter("j1"))] == [
        (n, f"line {n - 1}\ufffd") for n in (1, 2, 3)
    ]
    await store.close()


async def test_jobs_are_distributed_over_the_shards_of_the_new_database(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await copied(source, path, target)

    for shard in range(SHARDS):
        unfinished = list(await store.jobs.unfinished(shard))
        assert unfinished
        assert all(shard_of(job_id, SHARDS) == shard for job_id in unfinished)
    await store.close()


async def test_the_new_database_records_its_number_of_shards(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await copied(source, path, target)

    joined = await store.leases.join_deployment(Deployment("other", SHARDS + 1))
    assert (joined.shard_count, joined.installation_id != "other") == (SHARDS, True)
    await store.close()


async def test_jobs_of_runs_are_copied_to_the_shard_of_their_workflow_with_their_requests_and_results(
    source: SqliteStore, path: str, target: str
) -> None:
    jobs = [structs.replace(new_job(f"of-run-{n}"), shard_key="timed") for n in range(5)]
    await source.jobs.insert(jobs)
    for job in jobs:
        await source.jobs.put_request(Request(f"of-{job.job_id}", job.job_id, "cancel", T0))
        message = TaskFinished(
            job.job_id, "a", 1, "w", T0, T0, Succeeded(Raw(b"1")), result_id=f"t-{job.job_id}"
        )
        await source.jobs.put_result(StoredResult(f"t-{job.job_id}", 0, message, T0))

    store = await copied(source, path, target)

    shard = shard_of("timed", SHARDS)
    job_ids = {job.job_id for job in jobs}
    assert {(await store.jobs.get(job_id)).spec.shard for job_id in job_ids} == {shard}
    assert job_ids <= {request.job_id for request in await store.jobs.requests(shard, 100)}
    assert job_ids <= {result.message.job_id for result in await store.jobs.results(shard, 100)}
    await store.close()


async def test_the_new_database_continues_where_the_old_one_ended(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await copied(source, path, target)
    shard = shard_of("j1", SHARDS)
    lease = await store.leases.claim(shard, "one", 60.0)
    assert lease is not None

    await store.commit(shard, lease.epoch, changes(events={"j1": [event(900)]}))
    await store.logs.append([LogLine("j1", "a", 0, 1, T0, "info", "further")])

    assert (await store.jobs.get("j1")).seq == 900
    assert (await store.logs.list(LogFilter("j1")))[-1].log_id == 4
    [again] = await store.jobs.insert([new_job("other", key="k7", digest="d")])
    assert again.job.spec.job_id == "j7"
    await store.close()


async def test_the_copy_returns_the_copied_tables(
    source: SqliteStore, path: str, target: str
) -> None:
    copied = await copy_database(path, target, SHARDS, T0)

    assert {one.name: one.rows for one in copied} == await rows_in(target)
    assert [one.name for one in copied] == list(TABLES)
    assert all(one.rows for one in copied)


async def test_a_database_that_is_not_empty_is_refused(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await PostgresStore.open(target, SystemClock(), connections_max=10)
    await store.workflows.put("mine", Raw(b"{}"), "d", T0)
    await store.close()

    with pytest.raises(RequestRefused, match="rows in workflows"):
        await copy_database(path, target, SHARDS, T0)

    assert sum((await rows_in(target)).values()) == 1


async def test_a_database_that_an_engine_uses_is_refused(
    source: SqliteStore, path: str, target: str
) -> None:
    store = await PostgresStore.open(target, SystemClock(), connections_max=10)
    await store.leases.renew(EngineRow("engine-7", 15.0), {}, 60.0)

    with pytest.raises(RequestRefused, match="engine-7"):
        await copy_database(path, target, SHARDS, T0)
    await store.close()


async def test_an_interrupted_copy_leaves_the_target_empty(
    source: SqliteStore, path: str, target: str
) -> None:
    watching = await asyncpg.connect(target)
    # The copy waits at the last table until it is interrupted.
    await watching.execute(
        "create function stop() returns trigger language plpgsql as "
        "$$ begin perform pg_advisory_xact_lock(1); return new; end $$;"
        "create trigger stop before insert on logs for each row execute function stop()"
    )
    await watching.execute("select pg_advisory_lock(1)")
    copying = asyncio.ensure_future(copy_database(path, target, SHARDS, T0))
    waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
    while not await watching.fetchval(f"select pg_terminate_backend(pid) from ({waiting}) as one"):
        pass

    with pytest.raises(CommitUnknown, match="interrupted"):
        await copying

    await watching.execute("drop function stop cascade")
    await watching.close()
    assert sum((await rows_in(target)).values()) == 0


async def test_a_table_that_differs_from_its_source_fails_the_copy(
    source: SqliteStore, path: str, target: str
) -> None:
    connection = await asyncpg.connect(target)
    await connection.execute(
        "create function damage() returns trigger language plpgsql as "
        "$$ begin new.output := '\"spoiled\"'; return new; end $$;"
        "create trigger damage before insert on nodes for each row execute function damage()"
    )
    try:
        with pytest.raises(CommitUnknown, match="verification of table nodes failed"):
            await copy_database(path, target, SHARDS, T0)
    finally:
        await connection.execute("drop function damage cascade")
        await connection.close()
    assert sum((await rows_in(target)).values()) == 0


async def test_copying_a_missing_database_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(StoreUnavailable, match="no database at"):
        await copy_database(str(tmp_path / "nothing.db"), target, SHARDS, T0)

    assert not (tmp_path / "nothing.db").exists()


async def test_every_table_of_an_embedded_database_is_known_to_the_copy(
    source: SqliteStore, path: str
) -> None:
    tables = {
        row[0]
        for row in apsw.Connection(path).execute(
            "select name from sqlite_schema where type = 'table'"
        )
    }

    # Leases, the number of shards, probes and the history of the schema are not copied.
    assert tables - {
        "deployment",
        "shards",
        "engines",
        "schema_version",
        "sqlite_sequence",
        "write_probes",
        "run_heartbeats",
    } == set(TABLES)


@pytest.mark.parametrize("table", TABLES)
async def test_every_column_of_an_embedded_database_is_known_to_the_copy(
    source: SqliteStore, path: str, table: str
) -> None:
    columns = {row[1] for row in apsw.Connection(path).execute(f"pragma table_info({table})")}

    assert columns == set(TABLES[table])
