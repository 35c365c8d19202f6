"""The handler for queries to PostgreSQL."""

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.connections.failures import QueryCanceled
from windlass.core.errors import ParamsInvalid
from windlass.core.templates.json_values import is_list, is_mapping, scalar_text
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
    positional,
    query_text,
)
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

# For the types only: the driver is an optional extra.
if TYPE_CHECKING:
    from windlass.connections.postgres import (
        PostgresConnection,
        PostgresDatabase,
        PreparedStatement,
    )

_INTEGERS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = frozenset({"float4", "float8"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_LAST_NUMBER = re.compile(r"\b[0-9]+\Z")
_INTEGER = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


@handler("postgres")
async def postgres(
    ctx: Context,
    config: HandlerConfig,
    connection: Connection = None,
    query: Query = None,
    sql: Sql = None,
    params: QueryParams = None,
    rows_max: RowsMax = ROWS_MAX,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Any:
    """Run a query on PostgreSQL with bound params; return `{"rows": […], "row_count": n}`."""
    text, values = query_text(query, sql), params or []
    if isinstance(values, dict):
        text, values = positional(text, values)
    seconds = min(timeout, ctx.timeout_seconds)
    database = config.connections.postgres(connection)
    try:
        async with asyncio.timeout(seconds):
            return await _run(database, text, values, rows_max, seconds)
    except TimeoutError:
        raise QueryCanceled(
            f"{database.name}: the query did not finish within {seconds:g} s"
        ) from None


async def _run(
    database: "PostgresDatabase", sql: str, values: Sequence[object], rows_max: int, seconds: float
) -> dict[str, Any]:
    async with database.session(runs_any=True) as session:
        # The server itself cancels a query whose worker has died.
        await session.execute(f"set statement_timeout = {max(1, round(seconds * 1000))}")
        statement = await database.statement(session, sql)
        if statement is None:
            if values:
                raise ParamsInvalid(
                    "several statements cannot have params; use a node for each, or write the values out"
                )
            return output([], _count(await session.execute(sql)))
        bound = _bound(values, statement)
        names = [column.name for column in statement.get_attributes()]
        if not names:
            await statement.fetch(*bound)
            return output([], _count(statement.get_statusmsg()))
        return await _rows(session, statement, bound, ResultRows(names, rows_max))


async def _rows(
    session: "PostgresConnection",
    statement: "PreparedStatement",
    bound: Sequence[object],
    results: ResultRows,
) -> dict[str, Any]:
    # A result that is too large rolls back the statement.
    async with session.transaction():
        cursor = await statement.cursor(*bound)
        while rows := await cursor.fetch(results.fetch_count):
            for row in rows:
                results.add(tuple(row))
    return results.output()


def _bound(values: Sequence[object], statement: "PreparedStatement") -> list[object]:
    parameters = statement.get_parameters()
    if len(parameters) != len(values):
        raise ParamsInvalid(
            f"the query has {len(parameters)} params, but 'params' has {len(values)}"
        )
    return [_convert(value, kind.name) for value, kind in zip(values, parameters, strict=True)]


def _convert(value: object, kind: str) -> object:
    """Convert a JSON value to what the driver expects for a type; the driver rejects what does not match."""
    if kind in _TEXTS:
        return _to_text(value)
    if kind in _INTEGERS:
        return _to_integer(value)
    if isinstance(value, str):
        if kind in _FLOATS and _FLOAT.fullmatch(value):
            return float(value)
        if kind == "bool":
            return _BOOLEANS.get(value.lower(), value)
    return value


def _to_text(value: object) -> object:
    if isinstance(value, bool | int | float):
        return scalar_text(value)
    if is_mapping(value) or is_list(value):
        return json_text(value)
    return value


def _to_integer(value: object) -> object:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _count(status: str | None) -> int:
    """Return the number of affected rows from a command tag such as 'INSERT 0 5' or 'CREATE TABLE'."""
    count = _LAST_NUMBER.search(status or "")
    if count is None:
        return 0
    return int(count[0])
