"""The handler for queries to SQLite files."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import apsw
from msgspec import Meta

from windlass.connections.failures import QueryCanceled
from windlass.connections.named import Connections
from windlass.connections.sqlite import SqliteConnection, SqliteCursor
from windlass.core.errors import ParamsInvalid
from windlass.core.templates.json_values import available, is_list, is_mapping
from windlass.handlers.sql_query import (
    ROWS_MAX,
    ROWS_MAX_LIMIT,
    TIMEOUT_SECONDS,
    ResultRows,
    json_text,
    output,
    query_text,
)
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler

_COMMENT = r"(?:--[^\n]*(?:\n|$)|/\*.*?\*/)"
_NOTHING = re.compile(rf"(?:\s|;|{_COMMENT})*", re.DOTALL)
# What no transaction may surround, or what is one itself.
_ALONE = re.compile(
    rf"(?:\s|{_COMMENT})*(begin|pragma|vacuum|savepoint|commit|end|rollback)\b", re.DOTALL | re.IGNORECASE
)

OutputStore = Sequence[object] | Mapping[str, object]


def sqlite_handler(connections: Connections) -> Handler:
    """The `sqlite` handler, for the databases that the settings name and files of the sinks' folder."""

    @handler("sqlite")
    async def sqlite(
        ctx: Context,
        connection: str | None = None,
        database: str | None = None,
        query: str | None = None,
        sql: str | None = None,
        params: list[Any] | dict[str, Any] | None = None,
        rows_max: Annotated[int, Meta(ge=1, le=ROWS_MAX_LIMIT)] = ROWS_MAX,
        timeout: Annotated[float, Meta(gt=0)] = TIMEOUT_SECONDS,
    ) -> Any:
        """Run a query with bound params; return `{"rows": […], "row_count": n}`."""
        text, values = query_text(query, sql), _bound(params or [])
        seconds = min(timeout, ctx.timeout_seconds)
        found = connections.sqlite(connection, database)
        try:
            async with asyncio.timeout(seconds):
                return await found.run(lambda session: _run(session, text, values, rows_max))
        except TimeoutError:
            raise QueryCanceled(f"{found.name}: the query did not finish within {seconds:g} s") from None

    return declared(sqlite)


def _run(connection: SqliteConnection, sql: str, values: OutputStore, rows_max: int) -> dict[str, Any]:
    is_several, is_reading = _look(connection, sql, values)
    if is_several and values:
        raise ParamsInvalid("several statements take no params: give each a node, or write the values out")
    is_ours = not _ALONE.match(sql)
    if is_ours:
        # A statement that writes must not find out half way that somebody else does.
        connection.execute("begin" if is_reading and not is_several else "begin immediate")
    before = connection.total_changes()
    cursor = connection.execute(sql, values or None)
    try:
        # Several statements may each find something else; as with PostgreSQL, nobody gets their rows.
        results = _drained(cursor) if is_several else _results(cursor, rows_max)
    finally:
        # A statement that was not read to its end would keep the connection from committing ever again.
        cursor.close(True)
    if is_ours:
        connection.execute("commit")
    return results.output() if results is not None else output([], connection.total_changes() - before)


def _results(cursor: SqliteCursor, rows_max: int) -> ResultRows | None:
    results: ResultRows | None = None
    for row in cursor:
        if results is None:
            results = ResultRows([name for name, _ in cursor.get_description()], rows_max)
        results.add(row)
    return results


def _drained(cursor: SqliteCursor) -> None:
    for _ in cursor:
        pass


def _look(connection: SqliteConnection, sql: str, values: OutputStore) -> tuple[bool, bool]:
    """Whether the text has several statements, and whether the first only reads; nothing is run."""
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
        raise ParamsInvalid(f"'params' does not fit the query: {error}") from None
    except KeyError as error:
        raise _unnamed(error, values) from None
    finally:
        cursor.close()
    first, is_reading = seen[0] if seen else (sql, True)
    return not _NOTHING.fullmatch(sql[len(first) :]), is_reading


def _bound(params: list[Any] | dict[str, Any]) -> OutputStore:
    if isinstance(params, dict):
        return {name: _converted(value) for name, value in params.items()}
    return [_converted(value) for value in params]


def _converted(value: object) -> object:
    return json_text(value) if is_mapping(value) or is_list(value) else value


def _unnamed(error: KeyError, values: OutputStore) -> ParamsInvalid:
    name = str(error.args[0])
    known = available(name, list(values)) if isinstance(values, Mapping) else ""
    return ParamsInvalid(f"the query names :{name}, which 'params' does not give; {known}")
