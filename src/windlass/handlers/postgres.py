"""The handler for queries to PostgreSQL."""

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from windlass.connections.failures import QueryCanceled
from windlass.connections.named import Connections
from windlass.core.errors import ParamsInvalid
from windlass.core.templates.json_values import is_list, is_mapping, scalar_text
from windlass.handlers.sql_query import (
    ROWS_MAX,
    ROWS_MAX_LIMIT,
    TIMEOUT_SECONDS,
    ResultRows,
    json_text,
    output,
    positional,
    query_text,
)
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler

# For the types only: the driver is an optional extra.
if TYPE_CHECKING:
    from windlass.connections.postgres import PostgresConnection, PostgresDatabase, PreparedStatement

_INTEGERS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = frozenset({"float4", "float8"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_INTEGER = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


def postgres_handler(connections: Connections) -> Handler:
    """The `postgres` handler, for the databases that the settings name."""

    @handler("postgres")
    async def postgres(
        ctx: Context,
        connection: str | None = None,
        query: str | None = None,
        sql: str | None = None,
        params: list[Any] | dict[str, Any] | None = None,
        rows_max: Annotated[int, Meta(ge=1, le=ROWS_MAX_LIMIT)] = ROWS_MAX,
        timeout: Annotated[float, Meta(gt=0)] = TIMEOUT_SECONDS,
    ) -> Any:
        """Run a query with bound params; return `{"rows": […], "row_count": n}`."""
        text, values = query_text(query, sql), params or []
        if isinstance(values, dict):
            text, values = positional(text, values)
        seconds = min(timeout, ctx.timeout_seconds)
        database = connections.postgres(connection)
        try:
            async with asyncio.timeout(seconds):
                return await _run(database, text, values, rows_max, seconds)
        except TimeoutError:
            raise QueryCanceled(f"{database.name}: the query did not finish within {seconds:g} s") from None

    return declared(postgres)


async def _run(
    database: "PostgresDatabase", sql: str, values: Sequence[object], rows_max: int, seconds: float
) -> dict[str, Any]:
    async with database.session(runs_any=True) as session:
        # The server itself ends a query whose worker has died.
        await session.execute(f"set statement_timeout = {max(1, round(seconds * 1000))}")
        statement = await database.statement(session, sql)
        if statement is None:
            if values:
                raise ParamsInvalid("several statements take no params: give each a node, or write the values out")
            return output([], _count(await session.execute(sql)))
        bound = _bound(values, statement)
        names = [column.name for column in statement.get_attributes()]
        if not names:
            await statement.fetch(*bound)
            return output([], _count(statement.get_statusmsg()))
        return await _rows(session, statement, bound, ResultRows(names, rows_max))


async def _rows(
    session: "PostgresConnection", statement: "PreparedStatement", bound: Sequence[object], results: ResultRows
) -> dict[str, Any]:
    # A result too large undoes the statement that brought it.
    async with session.transaction():
        cursor = await statement.cursor(*bound)
        while rows := await cursor.fetch(results.room):
            for row in rows:
                results.add(tuple(row))
    return results.output()


def _bound(values: Sequence[object], statement: "PreparedStatement") -> list[object]:
    wanted = statement.get_parameters()
    if len(wanted) != len(values):
        raise ParamsInvalid(f"the query has {len(wanted)} params, but 'params' gives {len(values)}")
    return [_converted(value, kind.name) for value, kind in zip(values, wanted, strict=True)]


def _converted(value: object, kind: str) -> object:
    """A JSON value as the driver wants it for a type; what does not fit is left for the driver to refuse."""
    match value:
        case bool() | int() | float() if kind in _TEXTS:
            return scalar_text(value)
        case _ if kind in _TEXTS and (is_mapping(value) or is_list(value)):
            return json_text(value)
        case str() if kind in _INTEGERS and _INTEGER.fullmatch(value):
            return int(value)
        case float() if kind in _INTEGERS and value.is_integer():
            return int(value)
        case str() if kind in _FLOATS and _FLOAT.fullmatch(value):
            return float(value)
        case str() if kind == "bool":
            return _BOOLEANS.get(value.lower(), value)
        case _:
            return value


def _count(status: str | None) -> int:
    """The rows that a statement touched, from the server's word for it: 'INSERT 0 5', 'CREATE TABLE'."""
    last = (status or "").rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
