"""What only the PostgreSQL store does: several processes, lost connections, migrations and values."""

import asyncio
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
from msgspec import Raw

from tests.contracts.rows import T0, changes, end, event, job_row, new_job, node_row
from tests.contracts.run_rows import put_runs, run_changes, run_row
from tests.servers import Server, drop_database, new_database, start_postgres
from windlass.clock import SystemClock
from windlass.core.changes import InFlightEntry
from windlass.core.errors import CommitUnknown, StaleLease, StoreUnavailable, StoreUnusable
from windlass.ports.handler import LogLine
from windlass.ports.store.jobs import JobFilter, Request
from windlass.ports.store.logs import LogFilter
from windlass.stores.migrator import migrations
from windlass.stores.postgres.parameters import joined_numbers, joined_texts
from windlass.stores.postgres.store import PostgresStore, migrate
from windlass.stores.queries import POSTGRES, queries

# Processes that wait for a kind of lock. Unlike pg_stat_activity, pg_locks is current inside a transaction.
WAITING = "pg_locks where locktype = $1 and not granted"


# Several processes


async def test_a_second_store_reads_the_rows_of_the_first(store: PostgresStore, url: str) -> None:
    other = await PostgresStore.open(url, SystemClock(), connections_max=10)

    await store.jobs.insert([new_job("j1")])

    assert (await other.jobs.get("j1")).state.status == "pending"
    await other.close()


async def test_stores_that_submit_the_same_keys_create_one_job_for_each(
    store: PostgresStore, url: str
) -> None:
    other = await PostgresStore.open(url, SystemClock(), connections_max=10)
    keys = [f"k{n}" for n in range(20)]
    batches = [
        one.jobs.insert([new_job(f"{turn}-{place}-{key}", key=key, digest="d") for key in order])
        for turn in range(10)
        for place, (one, order) in enumerate([(store, keys), (other, keys[::-1])])
    ]

    answers = [answer for batch in await asyncio.gather(*batches) for answer in batch]

    assert (
        sum(answer.created for answer in answers)
        == len(keys)
        == len(await store.jobs.list(JobFilter(limit=99)))
    )
    await other.close()


async def test_a_takeover_waits_for_a_running_commit(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    # The commit has checked its epoch and waits for the lock on the job's row.
    holding = admin.transaction()
    await holding.start()
    await admin.execute("select from jobs where job_id = 'j1' for update")
    committing = asyncio.ensure_future(store.commit(0, lease.epoch, changes(jobs=[job_row("j1")])))
    while not await admin.fetchval(f"select count(*) from {WAITING}", "transactionid"):
        pass

    taking = asyncio.ensure_future(store.leases.take(0, "two"))
    while not await admin.fetchval(f"select count(*) from {WAITING}", "advisory"):
        pass
    assert not taking.done()
    await holding.rollback()

    await committing
    assert (await taking).epoch == 2
    assert (await store.jobs.get("j1")).state.status == "running"


async def test_a_commit_that_waited_for_a_takeover_finds_the_new_epoch(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    taking = admin.transaction()
    await taking.start()
    await admin.fetch("select * from windlass_take_lease(0, 'two', null)")
    committing = asyncio.ensure_future(store.commit(0, lease.epoch, changes(jobs=[job_row("j1")])))
    while not await admin.fetchval(f"select count(*) from {WAITING}", "advisory"):
        pass

    await taking.commit()

    with pytest.raises(StaleLease):
        await committing
    assert (await store.jobs.get("j1")).state.status == "pending"


async def test_log_lines_become_visible_in_order(store: PostgresStore, url: str) -> None:
    other = await PostgresStore.open(url, SystemClock(), connections_max=10)
    lines = [LogLine("j1", "a", 0, 1, T0, "info", str(n)) for n in range(20)]
    writing = asyncio.gather(*((store if n % 2 else other).logs.append(lines) for n in range(40)))
    seen: list[int] = []
    while len(seen) < 800:
        found = await store.logs.list(LogFilter("j1", after=seen[-1] if seen else 0, limit=1_000))
        seen += [one.log_id for one in found]

    await writing

    assert len(seen) == 800
    await other.close()


# Lost connections and restarts


async def test_a_read_is_repeated_after_a_lost_connection(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    await admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'windlass' "
        "and datname = current_database()"
    )

    assert (await store.jobs.get("j1")).state.status == "pending"


async def test_a_commit_whose_connection_is_lost_is_unknown_and_the_next_one_succeeds(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    holding = admin.transaction()
    await holding.start()
    await admin.execute("select from jobs where job_id = 'j1' for update")
    committing = asyncio.ensure_future(store.commit(0, lease.epoch, changes(jobs=[job_row("j1")])))
    while not await admin.fetchval(
        f"select pg_terminate_backend(pid) from {WAITING}", "transactionid"
    ):
        pass

    with pytest.raises(CommitUnknown):
        await committing

    await holding.rollback()
    await store.commit(0, lease.epoch, changes(jobs=[job_row("j1")]))
    assert (await store.jobs.get("j1")).state.status == "running"


async def test_a_store_survives_a_restart_of_its_server(tmp_path: Path) -> None:
    first = start_postgres(tmp_path)
    store = await PostgresStore.open(first.url, SystemClock(), connections_max=10)
    await store.jobs.insert([new_job("j1")])
    await asyncio.to_thread(first.stop)
    with pytest.raises(StoreUnavailable, match="cannot reach"):
        await store.jobs.get("j1")
    with pytest.raises(StoreUnavailable, match="cannot reach"):
        await store.jobs.insert([new_job("j2")])
    with pytest.raises(CommitUnknown, match="cannot reach"):
        await store.commit(0, 1, changes(jobs=[job_row("j1")]))

    second = await started_again(first)

    assert (await store.jobs.get("j1")).state.status == "pending"
    assert (await store.leases.take(0, "one")).epoch == 1
    await store.close()
    await asyncio.to_thread(second.stop)


async def started_again(server: Server) -> Server:
    process = await asyncio.to_thread(
        subprocess.Popen,
        server.process.args,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    while True:
        with suppress(OSError, asyncpg.PostgresError):
            await (await asyncpg.connect(server.url)).close()
            return server._replace(process=process)


async def test_a_transaction_is_repeated_after_a_deadlock(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    await admin.execute(
        "create sequence tries;"
        "create function deadlock() returns trigger language plpgsql as $$ begin "
        "if nextval('tries') < 3 then raise exception 'deadlock' using errcode = '40P01'; end if; return new; end $$;"
        "create trigger deadlock before update on jobs for each row execute function deadlock()"
    )
    try:
        await store.commit(0, lease.epoch, changes(jobs=[job_row("j1")], events={"j1": [event(2)]}))
    finally:
        await admin.execute("drop function deadlock cascade; drop sequence tries")

    assert ((await store.jobs.get("j1")).state.status, (await store.jobs.get("j1")).seq) == (
        "running",
        2,
    )


async def test_a_commit_of_a_deleted_job_stores_nothing(store: PostgresStore) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")

    with pytest.raises(CommitUnknown, match="only 1 found"):
        await store.commit(
            0,
            lease.epoch,
            changes(jobs=[job_row("j1"), job_row("deleted")], nodes=[node_row("j1", "a")]),
        )

    assert ((await store.jobs.get("j1")).state.status, list(await store.jobs.nodes("j1"))) == (
        "pending",
        [],
    )


async def test_a_statement_that_takes_too_long_is_cancelled(
    url: str, admin: asyncpg.Connection
) -> None:
    store = await PostgresStore.open(url, SystemClock(), connections_max=10, statement_seconds=0.2)
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "one")
    holding = admin.transaction()
    await holding.start()
    await admin.execute("select from jobs where job_id = 'j1' for update")

    with pytest.raises(CommitUnknown, match="statement timeout"):
        await store.commit(0, lease.epoch, changes(jobs=[job_row("j1")]))

    await holding.rollback()
    await store.close()


async def test_pruning_skips_a_locked_job(store: PostgresStore, admin: asyncpg.Connection) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    lease = await store.leases.take(0, "one")
    for job_id in ("j1", "j2"):
        await end(store, job_id, lease.epoch, T0)
    async with admin.transaction():
        await admin.execute("select from jobs where job_id = 'j1' for update")

        assert list(await store.jobs.prune(T0 + 9, 10)) == ["j2"]

    assert list(await store.jobs.prune(T0 + 9, 10)) == ["j1"]


# Migrations


async def test_nodes_in_flight_of_an_older_schema_keep_their_dispatch(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    lease = await store.leases.take(0, "one")
    await store.jobs.insert([new_job("j1")])
    await store.commit(0, lease.epoch, changes(events={"j1": [event(2)]}))
    [step] = [step for step in migrations(POSTGRES) if step.name == "in_flight_entries"]
    await admin.execute('update events set in_flight = \'[[4,"a",2,77],[5,"b",2,78]]\'')

    await admin.execute(step.sql)

    entries = (InFlightEntry(4, "a", 77), InFlightEntry(5, "b", 78))
    assert (await store.jobs.restore("j1")).in_flight == entries


async def test_processes_that_start_concurrently_migrate_once(postgres_server: Server) -> None:
    empty = new_database(postgres_server.url, "migrated")

    steps = await asyncio.gather(*(migrate(empty, T0) for _ in range(6)))

    assert sorted(steps) == [0, 0, 0, 0, 0, len(migrations(POSTGRES))]
    drop_database(postgres_server.url, "migrated")


@pytest.mark.parametrize(("damage", "repair", "said"), [
    ("insert into schema_version values (99, 'future', 'x', 0)", "delete from schema_version where number = 99",
     "schema 99, newer"),
    ("update schema_version set checksum = 'x' || checksum",
     "update schema_version set checksum = substr(checksum, 2)", "was changed after"),
])  # fmt: skip
async def test_a_schema_of_another_version_is_refused(
    url: str, admin: asyncpg.Connection, damage: str, repair: str, said: str
) -> None:
    await admin.execute(damage)
    try:
        with pytest.raises(StoreUnavailable, match=said):
            await PostgresStore.open(url, SystemClock(), connections_max=10)
    finally:
        await admin.execute(repair)


async def test_a_role_without_the_right_to_create_tables_can_open_an_up_to_date_database(
    url: str, admin: asyncpg.Connection
) -> None:
    await admin.execute(
        "create role app login; grant select, insert, update, delete on all tables in schema public to app"
    )
    try:
        store = await PostgresStore.open(
            url.replace("windlass@", "app@"), SystemClock(), connections_max=10
        )
        await store.jobs.insert([new_job("j1")])
        await store.close()
    finally:
        await admin.execute("drop owned by app; drop role app")


async def test_definitions_are_applied_again_when_they_changed(
    url: str, admin: asyncpg.Connection
) -> None:
    await admin.execute("update schema_version set checksum = 'other' where name = 'definitions'")

    assert (await migrate(url, T0), await migrate(url, T0)) == (1, 0)


@pytest.mark.parametrize(
    "wrong", ["postgresql://windlass@127.0.0.1:1/none", "postgresql://windlass@127.0.0.1:x/none"]
)
async def test_the_error_about_an_unreachable_server_has_no_password(wrong: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot use the database") as caught:
        await PostgresStore.open(
            wrong.replace("windlass@", "windlass:geheim@"), SystemClock(), connections_max=10
        )

    assert "geheim" not in str(caught.value)


async def test_a_database_of_another_encoding_is_refused(
    postgres_server: Server, admin: asyncpg.Connection
) -> None:
    await admin.execute("create database ascii encoding 'SQL_ASCII' locale 'C' template template0")
    try:
        with pytest.raises(StoreUnavailable, match="SQL_ASCII"):
            await PostgresStore.open(
                postgres_server.url.rsplit("/", 1)[0] + "/ascii", SystemClock(), connections_max=10
            )
    finally:
        await admin.execute("drop database ascii with (force)")


async def test_a_standby_is_refused(url: str, admin: asyncpg.Connection) -> None:
    await admin.execute("alter database particular set default_transaction_read_only = on")
    try:
        with pytest.raises(StoreUnavailable, match="cannot use"):
            await PostgresStore.open(url, SystemClock(), connections_max=10)
    finally:
        await admin.execute(
            "set default_transaction_read_only = off; alter database particular reset all"
        )


# Values


async def test_characters_that_postgres_cannot_store_are_replaced(store: PostgresStore) -> None:
    await store.jobs.insert([new_job("j1")])
    messages = ("a\0b", "a\x1fb\x1ec", "")
    await store.logs.append([LogLine("j1", "a", 0, 1, T0, "info", message) for message in messages])
    await store.jobs.put_request(Request("r1", "j1", "cancel", T0, "why\0"))

    stored = [one.line.message for one in await store.logs.list(LogFilter("j1"))]
    assert stored == ["a\ufffdb", "a\ufffdb\ufffdc", ""]
    assert (await store.jobs.requests(0, 9))[0].reason == "why\ufffd"


@pytest.mark.parametrize(
    "column",
    [[], [""], ["", ""], [None], ["a", None], [None, "a"], ["a", "", None], ["é🌍", '{},"']],
)
async def test_columns_of_texts_arrive_unchanged(
    admin: asyncpg.Connection, column: list[str | None]
) -> None:
    arrived = await admin.fetchval("select windlass_texts($1)", joined_texts(column))

    # unnest fills up a null column, beside others.
    assert arrived == (column if any(one is not None for one in column) else None)


@pytest.mark.parametrize("column", [[], [1], [None, 2], [-1, 2**62, None], [None]])
async def test_columns_of_numbers_arrive_unchanged(
    admin: asyncpg.Connection, column: list[int | None]
) -> None:
    arrived = await admin.fetchval("select $1::text::bigint[]", joined_numbers(column))

    assert arrived == (column if any(one is not None for one in column) else None)


async def test_columns_of_truth_values_arrive_unchanged(admin: asyncpg.Connection) -> None:
    column = [True, None, False]

    assert await admin.fetchval("select $1::text::boolean[]", joined_numbers(column)) == column


@pytest.mark.parametrize(
    "value",
    [b"null", b'"text"', rb'"\u0000"', rb'["\\u0000"]', b'{"b": 1, "a":1.00, "b":2}', b"1e400"],
)
async def test_json_values_of_a_commit_are_stored_byte_for_byte(
    store: PostgresStore, value: bytes
) -> None:
    lease = await store.leases.take(0, "one")
    await store.jobs.insert([new_job("j1")])
    row = node_row("j1", "a", output=value.decode())
    await store.commit(0, lease.epoch, changes(nodes=[row]))

    [stored] = (await store.jobs.snapshot("j1")).nodes
    assert stored == row


async def test_updates_of_hot_rows_stay_in_their_pages(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await admin.execute("select pg_stat_force_next_flush(), pg_stat_reset()")
    lease = await store.leases.take(0, "one")
    ids = [f"j{n}" for n in range(300)]
    await store.jobs.insert([new_job(job_id) for job_id in ids])
    for status in ("dispatched", "running"):
        jobs = [job_row(job_id) for job_id in ids]
        await store.commit(
            0, lease.epoch, changes(jobs=jobs, nodes=[node_row(one, "a", status) for one in ids])
        )
    await store.close()

    query = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'nodes'"
    found = (0, 0)
    while found[0] < 300:
        found = tuple(await admin.fetchrow(query) or found)

    assert found[1] >= 270


async def test_the_first_event_is_derived_from_the_job(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    assert await admin.fetchval("select count(*) from events") == 0

    events = await store.jobs.events("j1")

    expected = [(1, "job_created", Raw(b'{"workflow_id":"flow","version":1}'))]
    assert [(event.seq, event.type, event.data) for event in events] == expected
    shown = await admin.fetch("select job_id, seq, event_type from event_list")
    assert [tuple(row) for row in shown] == [("j1", 1, "job_created")]


async def test_events_of_runs_have_a_view(store: PostgresStore, admin: asyncpg.Connection) -> None:
    epoch = await put_runs(store, run_row("flow:1"))
    written = {("flow", "flow:1"): [event(1, "run_created"), event(2, "run_state_changed")]}
    await store.commit(0, epoch, run_changes(events=written))

    shown = await admin.fetch(
        "select workflow_id, run_id, seq, event_type from run_event_list order by seq"
    )

    expected = [("flow", "flow:1", 1, "run_created"), ("flow", "flow:1", 2, "run_state_changed")]
    assert [tuple(row) for row in shown] == expected


async def test_a_page_of_events_is_read_without_the_others(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    await store.jobs.insert([new_job("j1")])
    await admin.execute(
        "insert into events (job_id, first_seq, last_seq, body) select 'j1', n, n, '[]' from generate_series(2, 5000) n"
    )
    await admin.execute("analyze events")
    text = queries(POSTGRES)["event_pages"].sql.replace("$1", "'j1'")

    for after in (0, 2500):
        asked = text.replace("$2", str(after)).replace("$3", "10")
        plan = await admin.fetch(f"explain (analyze, costs off, timing off, buffers off) {asked}")
        read = [
            int(float(rows)) for row in plan for rows in re.findall(r"actual rows=([\d.]+)", row[0])
        ]
        assert max(read) <= 11, plan


# Rights


async def test_role_without_the_right_to_write_is_refused_for_good(
    store: PostgresStore, url: str, admin: asyncpg.Connection
) -> None:
    # Roles belong to the server, which tests share.
    role = f"reader_{uuid4().hex}"
    await admin.execute(f"create role {role} login password 'reader'")
    try:
        await admin.execute(f"grant select on all tables in schema public to {role}")
        parts = urlsplit(url)
        readable = parts._replace(netloc=f"{role}:reader@{parts.hostname}:{parts.port}").geturl()
        other = await PostgresStore.open(readable, SystemClock(), connections_max=2)

        with pytest.raises(StoreUnusable, match="permission denied"):
            await other.leases.take(0, "one")
        await other.close()
    finally:
        await admin.execute(f"drop owned by {role}")
        await admin.execute(f"drop role {role}")
