"""The postgres handler: params, results as JSON, limits, and queries that are stopped on the server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from handler_harness import Runner, running

from tests.servers import free_port
from windlass.connections.folder import Folder
from windlass.connections.named import Connections

PATIENCE_SECONDS = 20.0
ACTIVE = (
    "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep%' "
    "and pid <> pg_backend_pid()"
)


class Database:
    """A worker, and a separate connection to its database."""

    def __init__(self, runner: Runner, url: str) -> None:
        self.runner = runner
        self.url = url

    async def query(self, query: str, params: Any = None, **rest: Any) -> Any:
        return await self.runner.output("postgres", {"query": query, "params": params, **rest})

    async def error(self, query: str, params: Any = None, **rest: Any) -> Any:
        return await self.runner.error("postgres", {"query": query, "params": params, **rest})

    async def value(self, query: str) -> Any:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    async def until(self, query: str, expected: Any) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.value(query) != expected:
                pass


@pytest.fixture
async def database(postgres_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    connections = Connections({"main_db": postgres_url}, Folder(tmp_path))
    async with running(connections=connections) as runner:
        yield Database(runner, postgres_url)
    await connections.aclose()


async def test_a_query_returns_its_rows_and_their_number(database: Database) -> None:
    assert await database.query("select n, n * 2 as twice from generate_series(1, 2) n") == {
        "rows": [{"n": 1, "twice": 2}, {"n": 2, "twice": 4}],
        "row_count": 2,
    }


async def test_params_are_bound_by_number(database: Database) -> None:
    hostile = "'; drop table users; --"

    assert (await database.query("select $1::text as a, $2::int + 1 as b", [hostile, 1]))[
        "rows"
    ] == [{"a": hostile, "b": 2}]


async def test_params_are_bound_by_name(database: Database) -> None:
    query = "select :a::text || ':a' as x, :n::int as n, :a::text as \":a\" /* :b */ -- :c\n, $$:d$$ as d"

    assert (await database.query(query, {"a": "one", "n": 5}))["rows"] == [
        {"x": "one:a", "n": 5, ":a": "one", "d": ":d"}
    ]


@pytest.mark.parametrize(
    ("kind", "given", "returned"),
    [
        ("int", "12", 12),
        ("bigint", 12.0, 12),
        ("float8", "1.5", 1.5),
        ("bool", "true", True),
        ("text", 12, "12"),
        ("text", {"a": [1]}, '{"a":[1]}'),
        ("text", True, "true"),
        ("numeric", "12345678901234567890.10", "12345678901234567890.10"),
        ("timestamptz", "2026-01-01T10:00:00+02:00", "2026-01-01T08:00:00+00:00"),
        ("timestamp", "2026-01-01 10:00:00.5", "2026-01-01T10:00:00.5"),
        ("timestamptz", "infinity", "infinity"),
        ("date", "2026-01-01", "2026-01-01"),
        ("time", "10:30", "10:30:00"),
        ("interval", "90 minutes", "01:30:00"),
        ("uuid", "7F2C1A56-7B8F-4B43-9C1D-0C2F6F0F0A11", "7f2c1a56-7b8f-4b43-9c1d-0c2f6f0f0a11"),
        ("bytea", "\\x00ff", "\\x00ff"),
        ("jsonb", {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
        ("json", "a text", "a text"),
        ("text[]", ["a", None], ["a", None]),
        ("timestamptz[]", ["2026-01-01"], ["2026-01-01T00:00:00+00:00"]),
        ("int[]", [1, 2], [1, 2]),
        ("inet", "10.0.0.1", "10.0.0.1"),
        ("int", None, None),
    ],
)
async def test_values_survive_a_round_trip(
    database: Database, kind: str, given: object, returned: object
) -> None:
    assert (await database.query(f"select $1::{kind} as x", [given]))["rows"] == [{"x": returned}]


@pytest.mark.parametrize(
    ("expression", "returned"),
    [
        ("'NaN'::float8", "NaN"),
        ("'-infinity'::float8", "-Infinity"),
        ("1.0::float4", 1.0),
        ("1.10::numeric", "1.10"),
        ("array[1.5::numeric]", ["1.5"]),
        (
            "'{\"big\": 123456789012345678901234567890}'::jsonb",
            {"big": "123456789012345678901234567890"},
        ),
        ("'{\"huge\": 1e400}'::json", '{"huge": 1e400}'),
        ("null", None),
    ],
)
async def test_results_are_converted_to_json(
    database: Database, expression: str, returned: object
) -> None:
    assert (await database.query(f"select {expression} as x"))["rows"] == [{"x": returned}]


async def test_a_statement_without_a_result_returns_the_affected_rows(database: Database) -> None:
    await database.query("create table t (n int)")

    assert await database.query("insert into t select generate_series(1, 5)") == {
        "rows": [],
        "row_count": 5,
    }
    assert await database.query("update t set n = 0 where n > $1", [3]) == {
        "rows": [],
        "row_count": 2,
    }


async def test_a_statement_with_returning_takes_effect(database: Database) -> None:
    await database.query("create table t (n int)")

    assert (await database.query("insert into t values (7) returning n"))["rows"] == [{"n": 7}]
    assert await database.value("select count(*) from t") == 1


async def test_several_statements_run_together_without_params(database: Database) -> None:
    await database.query("create table t (n int); insert into t values (1), (2)")

    assert await database.value("select count(*) from t") == 2


async def test_several_statements_with_params_are_rejected(database: Database) -> None:
    error = await database.error("select 1; select $1", [1])

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert "several statements cannot have params" in error.message


async def test_a_statement_that_cannot_run_in_a_transaction_runs(database: Database) -> None:
    assert await database.query("vacuum") == {"rows": [], "row_count": 0}


async def test_more_rows_than_allowed_are_an_error_and_undo_the_statement(
    database: Database,
) -> None:
    await database.query("create table t (n int)")

    error = await database.error(
        "insert into t select generate_series(1, 4) returning n", rows_max=3
    )

    assert (error.type, error.retryable) == ("result_too_large", False)
    assert "more than 3 rows" in error.message
    assert await database.value("select count(*) from t") == 0


async def test_as_many_rows_as_allowed_are_fine(database: Database) -> None:
    assert (await database.query("select generate_series(1, 1200) as n", rows_max=1200))[
        "row_count"
    ] == 1200


async def test_two_columns_of_one_name_are_rejected(database: Database) -> None:
    error = await database.error("select 1 as n, 2 as n")

    assert "duplicate column in the result: 'n'" in error.message


@pytest.mark.parametrize(
    ("query", "params", "said"),
    [
        ("select :nmae::text", {"name": 1}, "did you mean 'name'"),
        ("select 1", {"name": 1}, "unused param: 'name'"),
        ("select $1::int", [], "the query has 1 params, but 'params' has 0"),
        ("select 1", [1], "the query has 0 params, but 'params' has 1"),
        ("", [], "a query must have 1 to"),
    ],
)
async def test_params_that_do_not_match_are_rejected(
    database: Database, query: str, params: Any, said: str
) -> None:
    error = await database.error(query, params)

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert said in error.message


@pytest.mark.parametrize(
    ("query", "params", "said"),
    [
        ("selec 1", [], "syntax error"),
        ("select * from nothing", [], 'relation "nothing" does not exist'),
        ("select $1::int", ["many"], "invalid input for query argument $1"),
        ("select 1 / 0", [], "division by zero"),
    ],
)
async def test_errors_of_postgres_statements_are_permanent(
    database: Database, query: str, params: Any, said: str
) -> None:
    error = await database.error(query, params)

    assert (error.type, error.retryable) == ("query_refused", False)
    assert said in error.message


async def test_a_query_that_takes_too_long_is_stopped_on_the_server(database: Database) -> None:
    error = await database.error("select pg_sleep(60)", timeout=0.3)

    assert (error.type, error.retryable) == ("query_canceled", True)
    await database.until(ACTIVE, 0)


async def test_the_timeout_of_the_node_stops_the_query_on_the_server(database: Database) -> None:
    error = await database.runner.error(
        "postgres", {"query": "select pg_sleep(60)"}, timeout_seconds=0.3
    )

    assert error.type in ("timeout", "query_canceled")
    await database.until(ACTIVE, 0)


async def test_a_cancelled_query_is_stopped_on_the_server(database: Database) -> None:
    task = await database.runner.publish("postgres", {"query": "select pg_sleep(60)"})
    await database.until(ACTIVE, 1)

    await database.runner.broker.cancel([task.task_id])
    await database.runner.finished(task)

    await database.until(ACTIVE, 0)


async def test_a_server_that_is_down_is_retryable(tmp_path: Path) -> None:
    connections = Connections(
        {"main_db": f"postgresql://me:hush-hush@127.0.0.1:{free_port()}/x"}, Folder(tmp_path)
    )
    async with running(connections=connections) as runner:
        error = await runner.error("postgres", {"query": "select 1"})
    await connections.aclose()

    assert (error.type, error.retryable) == ("connection_failed", True)
    assert "hush-hush" not in error.message + (error.traceback or "")


async def test_an_unknown_connection_is_rejected_with_the_known_ones(database: Database) -> None:
    error = await database.error("select 1", connection="main")

    assert (error.type, error.retryable) == ("connection_unknown", False)
    assert "did you mean 'main_db'?" in error.message


async def test_query_and_sql_are_the_same_and_exclude_each_other(database: Database) -> None:
    assert (await database.runner.output("postgres", {"sql": "select 1 as n"}))["rows"] == [
        {"n": 1}
    ]
    assert (
        "exactly one of 'query' and 'sql'"
        in (await database.error("select 1", sql="select 2")).message
    )


async def test_a_sessions_settings_do_not_reach_the_next_query(database: Database) -> None:
    await database.query("set search_path = nowhere", timeout=5)

    assert (await database.query("select current_setting('search_path') as path"))["rows"] != [
        {"path": "nowhere"}
    ]
