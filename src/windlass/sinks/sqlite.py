"""Writes rows to SQLite tables, exactly once: the task's identity is committed in the same transaction."""

import apsw
from msgspec import Raw

from windlass.connections.failures import DatabaseRefused
from windlass.connections.named import Connections
from windlass.connections.sqlite import SqliteConnection, SqliteDatabase
from windlass.core.changes import SinkSpec
from windlass.core.templates.json_values import nearest
from windlass.ports.sink import SinkReceipt
from windlass.sinks.identity_pruner import IdentityPruner
from windlass.sinks.rows import Row, is_nested, json_text
from windlass.sinks.tables import (
    EFFECTS,
    RowBatch,
    TableUnknown,
    TableWrite,
    insert_into,
    on_conflict,
    prepare_write,
    reject_unknown_columns,
)

TABLES_COMPARED_MAX = 1_000

_CREATE_EFFECTS = f"""\
create table if not exists {EFFECTS} (
    identity text primary key,
    run_key text not null,
    rows integer not null,
    written_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid"""
_CLAIM = f"insert into {EFFECTS} (identity, run_key, rows) values (?, ?, ?) on conflict do nothing"
# Identities begin with the id of their job and so with its time: the first ones are the oldest, and need no index.
_DELETE_OLD = f"""\
delete from {EFFECTS}
 where identity in (select identity from {EFFECTS} order by identity limit ?)
   and written_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)"""
# The replacement of a table stays known as long as its task writes.
_KEEP = f"""\
update {EFFECTS} set written_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
 where identity = ? and written_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')"""
_COLUMNS = "select name from pragma_table_xinfo(?, ?)"
_TABLES = "select name from sqlite_schema where type in ('table', 'view') order by name limit ?"
_NO_UNIQUE_INDEX = "ON CONFLICT clause does not match"
_HINTS = (
    (_NO_UNIQUE_INDEX, "create a unique index on exactly the columns of 'key'"),
    ("UNIQUE constraint", "write with mode: upsert and that key, if rows may be repeated"),
    ("NOT NULL constraint", "add the column to the rows, or define a default"),
)


class SqliteSink:
    """Writes rows and the identity of their task in one transaction."""

    def __init__(self, connections: Connections, identity_retention_days: float) -> None:
        self._connections = connections
        self._identities = IdentityPruner(identity_retention_days)
        self._in_wal: set[SqliteDatabase] = set()

    async def write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Write the rows, unless this identity has written them before."""
        write = await prepare_write(spec, output, identity)
        database = self._connections.sqlite(write.options.connection, write.options.database)
        try:
            if database not in self._in_wal and await database.run(_use_wal):
                self._in_wal.add(database)
            receipt = await database.write(
                lambda connection: _write(connection, database.name, write)
            )
        except DatabaseRefused as error:
            for known, hint in _HINTS:
                if known in str(error):
                    raise DatabaseRefused(f"{error}; {hint}", code=error.code) from None
            raise

        async def delete(limit: int, seconds: float) -> int:
            return await database.write(lambda connection: _delete_old(connection, limit, seconds))

        await self._identities.prune(database.name, delete)
        return receipt

    async def aclose(self) -> None:
        """Do nothing: the connections are shared."""


def _use_wal(connection: SqliteConnection) -> bool:
    """Switch the file to write-ahead logging permanently; return false while other connections use it."""
    try:
        connection.execute("pragma journal_mode = wal").fetchone()
    except apsw.BusyError:
        return False
    return True


def _write(connection: SqliteConnection, database: str, write: TableWrite) -> SinkReceipt:
    connection.execute(_CREATE_EFFECTS)
    if not _claimed(connection, write.identity, write.run_key, write.count):
        row = connection.execute(
            f"select rows from {EFFECTS} where identity = ?", (write.identity,)
        ).fetchone()
        # The row exists, because the claim met it in the same transaction.
        (count,) = row or (0,)
        return SinkReceipt(count, skipped=True)
    reject_unknown_columns(write, _columns(connection, database, write))
    if write.options.mode == "replace":
        if _claimed(connection, write.replace_identity, write.run_key, 0):
            connection.execute(f"delete from {write.table}")
        else:
            connection.execute(_KEEP, (write.replace_identity,))
    for batch in write.batches:
        marks = ", ".join("?" * len(batch.columns))
        statement = f"{insert_into(write, batch.columns)} values ({marks}){on_conflict(write, batch.columns)}"
        connection.executemany(
            statement, [_values(row, batch, write.options.json_column) for row in batch.rows]
        )
    return SinkReceipt(write.count)


def _delete_old(connection: SqliteConnection, limit: int, seconds: float) -> int:
    before = connection.total_changes()
    connection.execute(_DELETE_OLD, (limit, f"-{seconds:.3f} seconds"))
    return connection.total_changes() - before


def _claimed(connection: SqliteConnection, identity: str, run_key: str, count: int) -> bool:
    before = connection.total_changes()
    connection.execute(_CLAIM, (identity, run_key, count))
    return connection.total_changes() > before


def _columns(connection: SqliteConnection, database: str, write: TableWrite) -> list[str]:
    *schemas, table = write.names
    schema = next(iter(schemas), None)
    found = [row[0] for row in connection.execute(_COLUMNS, (table, schema))]
    if not found:
        tables = [row[0] for row in connection.execute(_TABLES, (TABLES_COMPARED_MAX,))]
        raise TableUnknown(database, write.options.table, nearest(table, tables))
    return found


def _values(row: Row, batch: RowBatch, json_column: str | None) -> list[object]:
    values: list[object] = []
    for name in batch.columns:
        value = row[name]
        if json_column is not None or is_nested(value):
            value = json_text(value)
        values.append(value)
    return values
