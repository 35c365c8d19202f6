"""Named queries: how they are loaded, and that each of them is valid in its dialect."""

from importlib.resources import files

import asyncpg
import pytest

from windlass.stores.migrator import migrate_sqlite
from windlass.stores.postgres.store import migrate
from windlass.stores.queries import POSTGRES, SQLITE, Dialect, filled, queries
from windlass.stores.sqlite.connection import connect


def test_every_query_is_valid_in_sqlite() -> None:
    connection = connect(":memory:")
    migrate_sqlite(connection, 0)

    for query in queries(SQLITE).values():
        count = len(query.parameters) or query.sql.count("?")
        connection.execute(f"explain {query.sql}", [None] * count)


async def test_every_query_is_valid_in_postgres(url: str) -> None:
    await migrate(url, 0)
    connection = await asyncpg.connect(url)

    for query in queries(POSTGRES).values():
        await connection.prepare(query.sql)
    await connection.close()


def test_parameters_become_numbered_placeholders_in_the_order_of_their_first_use() -> None:
    sqlite, postgres = queries(SQLITE)["run_list"], queries(POSTGRES)["run_list"]

    assert (
        sqlite.parameters
        == postgres.parameters
        == ("workflow_id", "state", "before_at", "before_id", "limit")
    )
    assert "workflow_id = ?1 or ?1 is null" in sqlite.sql
    assert "workflow_id = $1 or $1 is null" in postgres.sql


def test_values_are_given_by_the_names_of_the_parameters() -> None:
    query = queries(SQLITE)["workflow_version"]

    assert query.values({"version": 2, "workflow_id": "w"}) == ["w", 2]
    with pytest.raises(KeyError):
        query.values({"version": 2})
    with pytest.raises(KeyError):
        query.values({"version": 2, "workflow": "w"})


@pytest.mark.parametrize(("text", "dialect", "expected"), [
    ("{chunk_columns}", SQLITE, "job_id, number, generation, chunk, body"),
    ("{chunk_columns c}", SQLITE, "c.job_id, c.number, c.generation, c.chunk, c.body"),
    ("{chunk_placeholders}", SQLITE, "?, ?, ?, ?, ?"),
    ("{chunk_nulls}", POSTGRES, "null, null, null, null, null"),
    ("{schedule_mark_assignments mark}", SQLITE, "slot_at = mark.slot_at, seq = mark.seq"),
    ("{schedule_mark_record}", POSTGRES, "workflow_id text, slot_at bigint, seq bigint"),
    ("{schedule_mark_arrays given}", POSTGRES, "windlass_texts(given[1]), given[2]::bigint[], given[3]::bigint[]"),
    ("a {in_texts :ids}", SQLITE, "a in (select value from json_each(:ids))"),
    ("a {in_integers :ids}", POSTGRES, "a = any (:ids::integer[])"),
    ("{greatest}(1, 2)", SQLITE, "max(1, 2)"),
    ("array '{}'", POSTGRES, "array '{}'"),
])  # fmt: skip
def test_tokens_are_replaced(text: str, dialect: Dialect, expected: str) -> None:
    assert filled(text, dialect) == expected


def test_queries_that_are_equal_in_both_dialects_are_shared() -> None:
    stores = files("windlass.stores")
    shared = "".join(
        path.read_text() for path in (stores / "sql").iterdir() if path.name.endswith(".sql")
    )
    sqlite, postgres = queries(SQLITE), queries(POSTGRES)
    of_both = {
        name for name in sqlite.keys() & postgres.keys() if f"-- name: {name}\n" not in shared
    }

    copies = {name for name in of_both if sqlite[name].sql.replace("?", "$") == postgres[name].sql}

    assert of_both
    assert copies == set()


def test_a_view_has_the_columns_of_the_nodes_table() -> None:
    connection = connect(":memory:")
    migrate_sqlite(connection, 0)
    columns = [
        [row[1] for row in connection.execute(f"pragma table_info({name})")]
        for name in ("nodes", "node_list")
    ]

    assert sorted(columns[0]) == sorted(columns[1])


def test_a_list_of_jobs_is_filtered_by_every_value_that_is_set() -> None:
    assert "(:status is null or status = :status)" in filled("{job_filter}", SQLITE)
    assert "(:status::text is null or status = :status::text)" in filled("{job_filter}", POSTGRES)
    assert ":status is null" in filled("{job_filter_is_unset}", SQLITE)
    assert "workflow_id" not in filled("{job_filter} {job_filter_is_unset}", SQLITE)
