"""The sqlite handler: params, results as JSON, limits, allowed files, and queries that are stopped."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from handler_harness import Runner, running

from windlass.connections.folder import Folder
from windlass.connections.named import Connections

ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"


class Database:
    """A worker whose only connection is a file."""

    def __init__(self, runner: Runner, path: Path) -> None:
        self.runner = runner
        self.path = path

    async def query(self, query: str, params: Any = None, **rest: Any) -> Any:
        return await self.runner.output("sqlite", {"query": query, "params": params, **rest})

    async def error(self, query: str, params: Any = None, **rest: Any) -> Any:
        return await self.runner.error("sqlite", {"query": query, "params": params, **rest})


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    path = tmp_path / "main.db"
    connections = Connections({"main_db": f"sqlite:///{path}"}, Folder(tmp_path))
    async with running(connections=connections) as runner:
        yield Database(runner, path)
    await connections.aclose()


async def test_a_query_returns_its_rows_and_their_number(database: Database) -> None:
    assert await database.query(
        "select 1 as n, 'x' as t, null as z, 1.5 as f, x'00ff' as b, 9e999 as i"
    ) == {
        "rows": [{"n": 1, "t": "x", "z": None, "f": 1.5, "b": "\\x00ff", "i": "Infinity"}],
        "row_count": 1,
    }


async def test_a_query_without_rows_returns_none(database: Database) -> None:
    assert await database.query("select 1 where 0") == {"rows": [], "row_count": 0}


@pytest.mark.parametrize(
    ("query", "params"),
    [
        ("select ? as a, ? as b", ["'; --", {"x": [1]}]),
        ("select :a as a, :b as b", {"a": "'; --", "b": {"x": [1]}}),
        ("select @a as a, $b as b", {"a": "'; --", "b": {"x": [1]}}),
    ],
)
async def test_params_are_bound(database: Database, query: str, params: Any) -> None:
    assert (await database.query(query, params))["rows"] == [{"a": "'; --", "b": '{"x":[1]}'}]


async def test_a_statement_without_a_result_returns_the_affected_rows(database: Database) -> None:
    await database.query("create table t (n integer)")

    assert await database.query("insert into t values (1), (2), (?)", [3]) == {
        "rows": [],
        "row_count": 3,
    }
    assert await database.query("delete from t where n > 1") == {"rows": [], "row_count": 2}
    assert (await database.query("select n from t"))["rows"] == [{"n": 1}]


async def test_several_statements_take_effect_together_or_not_at_all(database: Database) -> None:
    await database.query(
        "create table t (n integer); insert into t values (1); select * from t, t as u;"
    )

    error = await database.error("insert into t values (2); insert into absent values (3)")

    assert "no such table: absent" in error.message
    assert (await database.query("select n from t"))["rows"] == [{"n": 1}]


async def test_several_statements_with_params_are_rejected(database: Database) -> None:
    error = await database.error("select ?; select 2", [1])

    assert (error.type, error.retryable) == ("params_invalid", False)


async def test_a_final_semicolon_and_comments_are_not_statements(database: Database) -> None:
    assert (await database.query("-- one\nselect ? as n; -- two\n /* three */ ", [1]))["rows"] == [
        {"n": 1}
    ]


async def test_a_query_may_contain_its_own_transaction(database: Database) -> None:
    await database.query("begin; create table t (n integer); insert into t values (1); commit")

    assert (await database.query("select n from t"))["rows"] == [{"n": 1}]


async def test_an_open_transaction_is_rolled_back(database: Database) -> None:
    await database.query("create table t (n integer)")
    await database.query("begin; insert into t values (1)")

    assert (await database.query("select n from t"))["rows"] == []


async def test_more_rows_than_allowed_are_an_error_and_undo_the_statement(
    database: Database,
) -> None:
    await database.query("create table t (n integer)")

    error = await database.error("insert into t values (1), (2), (3) returning n", rows_max=2)

    assert (error.type, error.retryable) == ("result_too_large", False)
    assert (await database.query("select n from t"))["rows"] == []


@pytest.mark.parametrize(
    ("query", "params", "said"),
    [
        ("select :nmae", {"name": 1}, "did you mean 'name'"),
        ("select ?, ?", [1], "uses 2 and there are 1 supplied"),
        ("select ?", {"a": 1}, "has no name"),
        ("select 1 as n, 2 as n", [], "duplicate column in the result: 'n'"),
    ],
)
async def test_params_that_do_not_match_are_rejected(
    database: Database, query: str, params: Any, said: str
) -> None:
    error = await database.error(query, params)

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert said in error.message


@pytest.mark.parametrize(
    ("query", "said"),
    [("selec 1", "syntax error"), ("select * from absent", "no such table: absent")],
)
async def test_errors_of_sqlite_statements_are_permanent(
    database: Database, query: str, said: str
) -> None:
    error = await database.error(query)

    assert (error.type, error.retryable) == ("query_refused", False)
    assert said in error.message


@pytest.mark.parametrize("statement", ["attach '{}' as other", "vacuum into '{}'"])
async def test_a_query_cannot_attach_other_files(
    database: Database, tmp_path: Path, statement: str
) -> None:
    error = await database.error(statement.format(tmp_path / "other.db"))

    assert error.type == "query_refused"
    assert not (tmp_path / "other.db").exists()


async def test_a_query_that_takes_too_long_is_stopped(database: Database) -> None:
    began = time.monotonic()

    error = await database.error(ENDLESS, timeout=0.2)

    assert (error.type, error.retryable) == ("query_canceled", True)
    assert time.monotonic() - began < 10
    assert (await database.query("select 1 as n"))["rows"] == [{"n": 1}]


async def test_the_timeout_of_the_node_stops_the_query(database: Database) -> None:
    error = await database.runner.error("sqlite", {"query": ENDLESS}, timeout_seconds=0.2)

    assert error.type in ("timeout", "query_canceled")


async def test_a_lock_held_by_another_process_is_retryable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.connections.sqlite.BUSY_SECONDS_MAX", 0.1)
    await database.query("create table t (n integer)")
    other = apsw.Connection(str(database.path))
    other.execute("begin immediate")

    error = await database.error("insert into t values (1)")

    other.close()
    assert (error.type, error.retryable) == ("connection_failed", True)


async def test_a_file_is_addressed_by_its_path(database: Database, tmp_path: Path) -> None:
    await database.query("create table t (n integer)", database="sub/other.db")

    assert (tmp_path / "sub" / "other.db").is_file()


async def test_a_path_outside_the_directory_is_rejected(database: Database) -> None:
    error = await database.error("select 1", database="../other.db")

    assert (error.type, error.retryable) == ("path_refused", False)
