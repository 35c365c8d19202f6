"""Rows into SQLite tables, exactly once: the task's identity is committed with them."""

import apsw
from msgspec import Raw

from windlass.connections.failures import DatabaseRefused
from windlass.connections.named import Connections
from windlass.connections.sqlite import SqliteConnection, SqliteDatabase
from windlass.core.changes import SinkSpec
from windlass.core.templates.json_values import nearest
from windlass.ports.sink import SinkReceipt
from windlass.sinks.rows import Row, is_nested, json_text
from windlass.sinks.tables import (
    EFFECTS,
    RowBatch,
    TableUnknown,
    TableWrite,
    insert_into,
    on_conflict,
    prepared,
    refuse_unknown,
)

TABLES_COMPARED_MAX = 1_000

_MAKE_EFFECTS = f"""\
create table if not exists {EFFECTS} (
    identity text primary key,
    run_key text not null,
    rows integer not null,
    written_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid"""
_CLAIM = f"insert into {EFFECTS} (identity, run_key, rows) values (?, ?, ?) on conflict do nothing"
_COLUMNS = "select name from pragma_table_xinfo(?, ?)"
_TABLES = "select name from sqlite_schema where type in ('table', 'view') order by name limit ?"
_NO_UNIQUE_INDEX = "ON CONFLICT clause does not match"
_WAYS_OUT = (
    (_NO_UNIQUE_INDEX, "create a unique index on exactly the columns of 'key'"),
    ("UNIQUE constraint", "write with mode: upsert and that key, if rows may come again"),
    ("NOT NULL constraint", "add the column to the rows, or give it a default"),
)


class SqliteSink:
    """Writes rows in one transaction with the identity of their task."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._in_wal: set[SqliteDatabase] = set()

    async def write(self, order: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Write the rows, unless this identity has written before."""
        write = await prepared(order, output, identity)
        database = self._connections.sqlite(write.options.connection, write.options.database)
        try:
            if database not in self._in_wal and await database.run(_use_wal):
                self._in_wal.add(database)
            return await database.write(lambda connection: _write(connection, database.name, write))
        except DatabaseRefused as error:
            for known, way_out in _WAYS_OUT:
                if known in str(error):
                    raise DatabaseRefused(f"{error}: {way_out}", code=error.code) from None
            raise

    async def aclose(self) -> None:
        """Nothing to let go of: the connections belong to all."""


def _use_wal(connection: SqliteConnection) -> bool:
    """Have readers and the writer not wait for each other, which the file remembers; false while others use it."""
    try:
        connection.execute("pragma journal_mode = wal").fetchone()
    except apsw.BusyError:
        return False
    return True


def _write(connection: SqliteConnection, database: str, write: TableWrite) -> SinkReceipt:
    connection.execute(_MAKE_EFFECTS)
    if not _claimed(connection, write.identity, write.run_key, write.count):
        row = connection.execute(f"select rows from {EFFECTS} where identity = ?", (write.identity,)).fetchone()
        return SinkReceipt(row[0] if row is not None else 0, skipped=True)
    refuse_unknown(write, _columns(connection, database, write))
    if write.options.mode == "replace" and _claimed(connection, write.replace_identity, write.run_key, 0):
        connection.execute(f"delete from {write.table}")
    for batch in write.batches:
        marks = ", ".join("?" * len(batch.columns))
        statement = f"{insert_into(write, batch.columns)} values ({marks}){on_conflict(write, batch.columns)}"
        connection.executemany(statement, [_values(row, batch, write.options.json_column) for row in batch.rows])
    return SinkReceipt(write.count)


def _claimed(connection: SqliteConnection, identity: str, run_key: str, count: int) -> bool:
    before = connection.total_changes()
    connection.execute(_CLAIM, (identity, run_key, count))
    return connection.total_changes() > before


def _columns(connection: SqliteConnection, database: str, write: TableWrite) -> list[str]:
    *schema, table = write.names
    found = [row[0] for row in connection.execute(_COLUMNS, (table, schema[0] if schema else None))]
    if not found:
        tables = [row[0] for row in connection.execute(_TABLES, (TABLES_COMPARED_MAX,))]
        raise TableUnknown(database, write.options.table, nearest(table, tables))
    return found


def _values(row: Row, batch: RowBatch, whole: str | None) -> list[object]:
    values = [row[name] for name in batch.columns]
    return [json_text(value) if whole is not None or is_nested(value) else value for value in values]
