"""What only the PostgreSQL sink does: types, permissions, deadlocks, lost connections and unavailable servers."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.servers import free_port
from tests.sinks.targets import RETENTION_DAYS, Target, Writer, raw, sink_spec
from windlass.connections.failures import DatabaseRefused, DatabaseUnavailable
from windlass.connections.folder import Folder
from windlass.connections.named import Connections, ConnectionUnknown
from windlass.sinks.postgres import PostgresSink
from windlass.sinks.rows import OptionsInvalid

PATIENCE_SECONDS = 20.0
BLOCKED = "select pid from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'windlass'"


@asynccontextmanager
async def holding(url: str, statement: str) -> AsyncIterator[asyncpg.Connection]:
    """Execute a statement as another client, without committing it."""
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(statement)
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


async def blocked(target: Target) -> int:
    """Wait until a statement waits for a lock and return its server process."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if found := await target.rows(BLOCKED):
                return found[0]["pid"]


async def test_texts_and_numbers_become_the_types_of_their_columns(postgres: Target) -> None:
    await postgres.execute(
        "create type mood as enum ('calm', 'busy');"
        "create table things (id uuid, at timestamptz, day date, price numeric(10, 2), count bigint, ratio float8,"
        " ok boolean, tags text[], body jsonb, plain json, mood mood, raw bytea, note text, span interval)"
    )
    things = Writer(postgres, table="things")

    await things.write(
        {
            "id": "7f2c1a56-7b8f-4b43-9c1d-0c2f6f0f0a11",
            "at": "2026-01-31T10:00:00+02:00",
            "day": "2026-02-28",
            "price": "19.90",
            "count": "9007199254740993",
            "ratio": 1e-7,
            "ok": True,
            "tags": ["a", "b,c"],
            "body": {"b": 1, "a": [None]},
            "plain": {"b": 1, "a": 2},
            "mood": "busy",
            "raw": "\\x00ff",
            "note": 12.5,
            "span": "1 day 02:00",
        }
    )

    text = "select row_to_json(things)::text as row, at at time zone 'UTC' as at, count + 1 as more from things"
    found = (await postgres.rows(text))[0]
    assert str(found["at"]) == "2026-01-31 08:00:00"
    assert found["more"] == 9007199254740994
    for part in (
        '"price":19.90',
        '"tags":["a","b,c"]',
        '"plain":{"b":1,"a":2}',
        '"note":"12.5"',
        '"raw":"\\\\x00ff"',
    ):
        assert part in found["row"]


async def test_a_time_without_a_zone_is_utc(postgres: Target, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    await postgres.execute(
        f"alter database {name} set timezone = 'Asia/Tokyo'; create table times (at timestamptz)"
    )
    times = Writer(postgres, table="times")

    await times.write({"at": "2026-01-01 12:00"})

    found = await postgres.rows("select at at time zone 'UTC' as at from times")
    assert str(found[0]["at"]) == "2026-01-01 12:00:00"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"n": "many"}, 'invalid input syntax for type integer: "many"'),
        ({"n": 2**40}, "out of range for type integer"),
        ({"word": "abcd"}, "value too long"),
        ({"must": None, "n": 1}, r"add the column to the rows, or define a default"),
        ({"n": 7}, r"mode: upsert"),
        ({"twice": 1}, "leave the column out of the rows"),
        ({"note": "a\0b"}, "NUL"),
    ],
)
async def test_values_of_the_wrong_type_fail_permanently(
    postgres: Target, value: dict[str, Any], message: str
) -> None:
    await postgres.execute(
        "create table narrow (n integer unique, word varchar(3), must integer not null default 1, note text,"
        " twice integer generated always as (n * 2) stored); insert into narrow (n) values (7)"
    )
    with pytest.raises(DatabaseRefused, match=message):
        await Writer(postgres, table="narrow").write(value)


async def test_a_lost_connection_is_retryable(postgres: Target, postgres_url: str) -> None:
    await postgres.execute("create table marks (mark integer)")
    marks = Writer(postgres, table="marks")
    async with holding(postgres_url, "lock table marks"):
        writing = asyncio.create_task(marks.write({"mark": 1}))
        await postgres.execute(f"select pg_terminate_backend({await blocked(postgres)})")

        with pytest.raises(DatabaseUnavailable):
            await writing

    assert await marks.write({"mark": 1}) is not None
    assert await marks.table() == [{"mark": 1}]


async def test_a_cancelled_write_leaves_nothing_and_frees_its_connection(
    postgres: Target, postgres_url: str
) -> None:
    await postgres.execute("create table marks (mark integer)")
    marks = Writer(postgres, table="marks")
    async with holding(postgres_url, "lock table marks"):
        writing = asyncio.create_task(marks.write({"mark": 1}))
        await blocked(postgres)
        writing.cancel()

        with pytest.raises(asyncio.CancelledError):
            await writing

        assert await postgres.rows(BLOCKED) == []
    assert not (await marks.write({"mark": 1})).skipped


async def test_a_duplicate_waits_for_the_first_and_writes_when_that_one_fails(
    postgres: Target, postgres_url: str
) -> None:
    await postgres.execute("create table marks (mark integer)")
    marks = Writer(postgres, table="marks")
    await marks.write([], identity="makes the table of identities")
    claim = "insert into windlass_effects (identity, run_key, rows) values ('task-1', '', 0)"
    async with holding(postgres_url, claim):
        writing = asyncio.create_task(marks.write({"mark": 1}))
        await blocked(postgres)

    assert not (await writing).skipped
    assert await marks.table() == [{"mark": 1}]


async def test_a_write_that_loses_a_deadlock_is_retried(
    postgres: Target, postgres_url: str
) -> None:
    await postgres.execute(
        "create table pairs (id integer primary key, n integer); insert into pairs values (1), (2)"
    )
    name = postgres_url.rpartition("/")[2]
    await postgres.execute(f"alter database {name} set deadlock_timeout = '200ms'")
    pairs = Writer(postgres, table="pairs", mode="upsert", key="id")
    async with holding(
        postgres_url, "set deadlock_timeout = '1min'; update pairs set n = 0 where id = 2"
    ) as other:
        writing = asyncio.create_task(pairs.write([{"id": 1, "n": 1}, {"id": 2, "n": 1}]))
        await blocked(postgres)

        await other.execute("update pairs set n = 0 where id = 1")

    await writing
    assert await pairs.table() == [{"id": 1, "n": 1}, {"id": 2, "n": 1}]


async def test_a_server_that_is_down_is_retryable(tmp_path: Path) -> None:
    url = f"postgresql://someone:hush-hush@127.0.0.1:{free_port()}/nowhere"
    connections = Connections({"main_db": url}, Folder(tmp_path))

    with pytest.raises(DatabaseUnavailable, match="main_db: cannot be reached") as caught:
        await PostgresSink(connections, RETENTION_DAYS).write(
            sink_spec("postgres", table="t"), raw([]), "task-1"
        )

    assert "hush-hush" not in str(caught.value)
    await connections.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:hush-hush@127.0.0.1:port/x",
        "postgresql://someone:hush-hush@[::1/x",
        "postgresql://someone:hush-hush@127.0.0.1:1/x?sslmode=hush-hush",
    ],
)
async def test_a_url_that_cannot_be_used_is_not_repeated(tmp_path: Path, url: str) -> None:
    connections = Connections({"main_db": url}, Folder(tmp_path))

    with pytest.raises(DatabaseRefused, match="invalid URL") as caught:
        await PostgresSink(connections, RETENTION_DAYS).write(
            sink_spec("postgres", table="t"), raw([]), "task-1"
        )

    assert "hush-hush" not in str(caught.value)
    await connections.aclose()


async def test_a_url_in_place_of_a_name_is_rejected_without_being_repeated(
    postgres: Target,
) -> None:
    with pytest.raises(ConnectionUnknown, match="is a URL, not a name") as caught:
        await Writer(postgres, table="t", connection="postgresql://me:hush-hush@host/x").write([])

    assert "hush-hush" not in str(caught.value)


async def test_several_connections_need_a_name(postgres_url: str, tmp_path: Path) -> None:
    connections = Connections({"one": postgres_url, "two": postgres_url}, Folder(tmp_path))

    with pytest.raises(
        ConnectionUnknown, match="several postgres connections; set 'connection' to one of one, two"
    ):
        await PostgresSink(connections, RETENTION_DAYS).write(
            sink_spec("postgres", table="t"), raw([]), "task-1"
        )


async def test_a_connection_of_another_kind_is_rejected(tmp_path: Path) -> None:
    connections = Connections({"files": "sqlite:///files.db"}, Folder(tmp_path))

    with pytest.raises(ConnectionUnknown, match="'files' is sqlite, not postgres"):
        await PostgresSink(connections, RETENTION_DAYS).write(
            sink_spec("postgres", table="t", connection="files"), raw([]), "task-1"
        )


async def test_the_schema_may_be_a_separate_option(postgres: Target) -> None:
    await postgres.execute("create schema sales; create table sales.orders (id integer)")

    await Writer(postgres, table="orders", schema="sales").write({"id": 1})

    assert await postgres.rows("select id from sales.orders") == [{"id": 1}]


async def test_the_postgres_sink_rejects_a_database_file(postgres: Target) -> None:
    with pytest.raises(OptionsInvalid, match="connection: NAME"):
        await Writer(postgres, table="t", database="x.db").write([])


async def test_a_role_without_permissions_gets_a_hint(
    postgres: Target, postgres_url: str, tmp_path: Path
) -> None:
    await postgres.execute(
        "drop role if exists reader; create role reader login; create table marks (mark integer);"
        "grant insert on marks to reader"
    )
    connections = Connections(
        {"main_db": postgres_url.replace("windlass@", "reader@")}, Folder(tmp_path)
    )

    with pytest.raises(DatabaseRefused, match=r"permission denied .*windlass_effects"):
        await PostgresSink(connections, RETENTION_DAYS).write(
            sink_spec("postgres", table="marks"), raw({"mark": 1}), "task-1"
        )
    await connections.aclose()


async def test_a_dropped_effects_table_is_created_again(postgres: Target) -> None:
    await postgres.execute("create table marks (mark integer)")
    marks = Writer(postgres, table="marks")
    await marks.write({"mark": 1})
    await postgres.execute("drop table windlass_effects")

    await marks.write({"mark": 2}, identity="task-2")

    assert await marks.table() == [{"mark": 1}, {"mark": 2}]


async def test_a_json_column_of_text_holds_json(postgres: Target) -> None:
    await postgres.execute("create table documents (body text)")

    await Writer(postgres, table="documents", json_column="body").write(["word", {"a": 1}])

    assert await postgres.rows("select body from documents order by 1") == [
        {"body": '"word"'},
        {"body": '{"a":1}'},
    ]


def test_without_the_driver_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from pathlib import Path\n"
        "from windlass.connections.folder import Folder\n"
        "from windlass.connections.named import Connections\n"
        "try: Connections({'main_db': 'postgresql://host/x'}, Folder(Path())).postgres(None)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "DriverMissing" in done.stdout
    assert "pip install 'windlass[postgres]'" in done.stdout


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, windlass.sinks.postgres, windlass.sinks.http, windlass.sinks.file, windlass.handlers as handlers\n"
        "handlers.builtin_handlers()\n"
        "print([name for name in ('asyncpg', 'httpx2', 'pyarrow') if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
