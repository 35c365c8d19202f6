"""The handler for queries to SQLite files."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import apsw
from msgspec import Meta

from windlass.connections.failures import QueryCanceled
from windlass.connections.sqlite import SqliteConnection, SqliteCursor
from windlass.core.errors import ParamsInvalid
from windlass.core.templates.json_values import is_list, is_mapping
from windlass.handlers.config import HandlerConfig
from windlass.handlers.sql_query import (
    ROWS_MAX,
    TIMEOUT_SECONDS,
    Connection,
    Query,
    QueryParams,
    ResultRows,
    RowsMax,
    Sql,
    Timeout,
    json_text,
    output,
    query_text,
    unknown_param,
)
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

_COMMENT = r"(?:--[^\n]*(?:\n|$)|/\*.*?\*/)"
_EMPTY = re.compile(rf"(?:\s|;|{_COMMENT})*", re.DOTALL)
# Statements that cannot run inside a transaction, or that start or end one.
_NOT_IN_TRANSACTION = re.compile(
    rf"(?:\s|{_COMMENT})*(begin|pragma|vacuum|savepoint|commit|end|rollback)\b",
    re.DOTALL | re.IGNORECASE,
)

BoundValues = Sequence[object] | Mapping[str, object]


@handler("sqlite")
async def sqlite(
    ctx: Context,
    config: HandlerConfig,
    connection: Connection = None,
    database: Annotated[
        str | None,
        Meta(description="in place of `connection`: a path below the setting `sinks.folder`"),
    ] = None,
    query: Query = None,
    sql: Sql = None,
    params: QueryParams = None,
    rows_max: RowsMax = ROWS_MAX,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Any:
    """Run a query on a SQLite file with bound params; return `{"rows": […], "row_count": n}`."""
    text, values = query_text(query, sql), _convert_params(params or [])
    seconds = min(timeout, ctx.timeout_seconds)
    found = config.connections.sqlite(connection, database)
    try:
        async with asyncio.timeout(seconds):
            return await found.run(lambda opened: _run(opened, text, values, rows_max))
    except TimeoutError:
        raise QueryCanceled(
            f"{found.name}: the query did not finish within {seconds:g} s"
        ) from None


def _run(
    connection: SqliteConnection, sql: str, values: BoundValues, rows_max: int
) -> dict[str, Any]:
    is_several, is_readonly = _inspect(connection, sql, values)
    if is_several and values:
        raise ParamsInvalid(
            "several statements cannot have params; use a node for each, or write the values out"
        )
    in_transaction = not _NOT_IN_TRANSACTION.match(sql)
    if in_transaction and is_readonly and not is_several:
        connection.execute("begin")
    elif in_transaction:
        # A write takes its lock first, so that it cannot fail half way because of another writer.
        connection.execute("begin immediate")
    before = connection.total_changes()
    cursor = connection.execute(sql, values or None)
    try:
        if is_several:
            # As with PostgreSQL, several statements return no rows.
            results = _discard(cursor)
        else:
            results = _read(cursor, rows_max)
    finally:
        # A statement that was not read to its end would prevent the connection from committing.
        cursor.close(True)
    if in_transaction:
        connection.execute("commit")
    if results is None:
        return output([], connection.total_changes() - before)
    return results.output()


def _read(cursor: SqliteCursor, rows_max: int) -> ResultRows | None:
    results: ResultRows | None = None
    for row in cursor:
        if results is None:
            results = ResultRows([name for name, _ in cursor.get_description()], rows_max)
        results.add(row)
    return results


def _discard(cursor: SqliteCursor) -> None:
    for _ in cursor:
        pass


def _inspect(connection: SqliteConnection, sql: str, values: BoundValues) -> tuple[bool, bool]:
    """Return whether the text has several statements and whether the first only reads; run nothing."""
    seen: list[tuple[str, bool]] = []

    def stop(cursor: Any, statement: str, bindings: object) -> bool:
        seen.append((statement, bool(cursor.is_readonly)))
        return False

    cursor = connection.cursor()
    cursor.exec_trace = stop
    try:
        with suppress(apsw.ExecTraceAbort):
            cursor.execute(sql, values or None)
    except apsw.BindingsError as error:
        raise ParamsInvalid(f"'params' does not match the query: {error}") from None
    except KeyError as error:
        # Only named params are looked up, so the values have names.
        raise unknown_param(str(error.args[0]), list(map(str, values))) from None
    finally:
        cursor.close()
    first, is_readonly = next(iter(seen), (sql, True))
    is_several = _EMPTY.fullmatch(sql[len(first) :]) is None
    return is_several, is_readonly


def _convert_params(params: list[Any] | dict[str, Any]) -> BoundValues:
    if isinstance(params, dict):
        return {name: _convert(value) for name, value in params.items()}
    return [_convert(value) for value in params]


def _convert(value: object) -> object:
    if is_mapping(value) or is_list(value):
        return json_text(value)
    return value
