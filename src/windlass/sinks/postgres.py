"""Writes rows to PostgreSQL tables, exactly once: the task's identity is committed in the same transaction."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from windlass.connections.failures import DatabaseRefused, DatabaseUnavailable
from windlass.connections.named import Connections
from windlass.core.changes import SinkSpec
from windlass.core.templates.json_values import nearest
from windlass.ports.sink import SinkReceipt
from windlass.sinks.identity_pruner import IdentityPruner
from windlass.sinks.rows import OptionsInvalid, json_text
from windlass.sinks.tables import (
    EFFECTS,
    ColumnUnknown,
    RowBatch,
    TableUnknown,
    TableWrite,
    insert_into,
    on_conflict,
    prepare_write,
    quoted,
    reject_unknown_columns,
)

# For the types only: the driver is an optional extra.
if TYPE_CHECKING:
    from windlass.connections.postgres import PostgresConnection, PostgresDatabase

# A deadlock or an outdated table cache is retried before it fails the attempt.
TRIES_MAX = 3
TABLES_CACHED_MAX = 1_000
TABLES_COMPARED_MAX = 1_000
# An advisory lock: two concurrent `create table if not exists` would collide in the catalog.
EFFECTS_LOCK = 0x77696E646C617373 & 0x7FFFFFFF

_CREATE_EFFECTS = f"""\
create table if not exists {EFFECTS} (
    identity text primary key,
    run_key text not null,
    rows integer not null,
    written_at timestamptz not null default now()
)"""
# Waits for another transaction that claims the same identity; returns nothing if that one commits.
_CLAIM = f"""\
insert into {EFFECTS} (identity, run_key, rows) values ($1, $2, $3)
on conflict (identity) do nothing returning 1"""
# Identities begin with the id of their job and so with its time: the first ones are the oldest, and need no index.
_DELETE_OLD = f"""\
with first as (
    select identity, written_at from {EFFECTS} order by identity limit $1 for update skip locked
), deleted as (
    delete from {EFFECTS} as effect using first
     where effect.identity = first.identity and first.written_at < now() - make_interval(secs => $2)
    returning 1
)
select count(*)::int from deleted"""
# The replacement of a table stays known as long as its task writes.
_KEEP = f"""\
update {EFFECTS} set written_at = now() where identity = $1 and written_at < now() - interval '1 day'"""
_COLUMNS = """\
select attname, format_type(atttypid, atttypmod) as type from pg_attribute
 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum"""
_TABLES = """\
select relname from pg_class
 where relkind in ('r', 'p', 'v', 'f') and pg_table_is_visible(oid) and relnamespace <> 'pg_catalog'::regnamespace
 order by relname limit $1"""

_DEADLOCK = frozenset({"40001", "40P01"})
_OUTDATED = frozenset({"42703", "42P01", "42704", "42804"})
_HINTS: Mapping[str, str] = {
    "21000": "two rows of the output have the same key",
    "22P05": "a text of the output contains a NUL character, which PostgreSQL cannot store",
    "23502": "add the column to the rows, or define a default",
    "23505": "write with mode: upsert and that key, if rows may be repeated",
    "42501": f"grant it to the role of the connection; sinks also create and use the table {EFFECTS}",
    "428C9": "leave the column out of the rows",
    "42P10": "create a unique index on exactly the columns of 'key'",
}

Columns = Mapping[str, str]


class PostgresSink:
    """Writes rows and the identity of their task in one transaction."""

    def __init__(self, connections: Connections, identity_retention_days: float) -> None:
        self._connections = connections
        self._identities = IdentityPruner(identity_retention_days)
        # Caches of table columns; entries that turn out to be outdated are read again.
        self._columns: dict[tuple[str, str], Columns] = {}
        self._with_effects: set[str] = set()

    async def write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Write the rows, unless this identity has written them before."""
        write = await prepare_write(spec, output, identity)
        if write.options.database is not None:
            raise OptionsInvalid(
                "'database' is an option of the sqlite sink; write connection: NAME"
            )
        database = self._connections.postgres(write.options.connection)
        try:
            receipt = await self._write(database, write)
        except DatabaseRefused as error:
            if hint := _HINTS.get(error.code):
                raise DatabaseRefused(f"{error}; {hint}", code=error.code) from None
            raise

        async def delete(limit: int, seconds: float) -> int:
            async with database.session() as session:
                return int(await session.fetchval(_DELETE_OLD, limit, seconds))

        await self._identities.prune(database.name, delete)
        return receipt

    async def aclose(self) -> None:
        """Do nothing: the connections are shared."""

    async def _write(self, database: "PostgresDatabase", write: TableWrite) -> SinkReceipt:
        for _ in range(TRIES_MAX - 1):
            table = (database.name, write.table)
            was_cached = table in self._columns
            try:
                return await self._attempt(database, write)
            except (DatabaseUnavailable, DatabaseRefused, ColumnUnknown) as error:
                code = getattr(error, "code", "")
                is_outdated = was_cached and (code in _OUTDATED or isinstance(error, ColumnUnknown))
                if not is_outdated and code not in _DEADLOCK:
                    raise
                self._columns.pop(table, None)
                self._with_effects.discard(database.name)
        return await self._attempt(database, write)

    async def _attempt(self, database: "PostgresDatabase", write: TableWrite) -> SinkReceipt:
        async with database.session() as session:
            if database.name not in self._with_effects:
                await _create_effects(session)
                self._with_effects.add(database.name)
            columns = await self._columns_of(session, database.name, write)
            reject_unknown_columns(write, columns)
            claim = (write.identity, write.run_key, write.count)
            if len(write.batches) == 1 and write.options.mode != "replace":
                # A single statement is its own transaction and needs one round trip instead of four.
                batch = write.batches[0]
                whole = _claim_and_write(write, batch, columns)
                is_claimed = await session.fetchval(whole, *claim, _payload(write, batch, columns))
            else:
                async with session.transaction(isolation="read_committed"):
                    is_claimed = await session.fetchval(_CLAIM, *claim)
                    if is_claimed:
                        await _write_all(session, write, columns)
            if not is_claimed:
                rows = await session.fetchval(
                    f"select rows from {EFFECTS} where identity = $1", write.identity
                )
                return SinkReceipt(rows or 0, skipped=True)
        return SinkReceipt(write.count)

    async def _columns_of(
        self, session: "PostgresConnection", database: str, write: TableWrite
    ) -> Columns:
        known = self._columns.get((database, write.table))
        if known is None:
            found = await session.fetch(_COLUMNS, write.table)
            if not found:
                await _raise_table_unknown(session, database, write)
            known = {row["attname"]: row["type"] for row in found}
            if len(self._columns) >= TABLES_CACHED_MAX:
                self._columns.clear()
            self._columns[database, write.table] = known
        return known


async def _create_effects(session: "PostgresConnection") -> None:
    if await session.fetchval("select to_regclass($1)::text", EFFECTS) is not None:
        return
    async with session.transaction():
        await session.execute("select pg_advisory_xact_lock($1)", EFFECTS_LOCK)
        await session.execute(_CREATE_EFFECTS)


async def _raise_table_unknown(
    session: "PostgresConnection", database: str, write: TableWrite
) -> None:
    tables = [row["relname"] for row in await session.fetch(_TABLES, TABLES_COMPARED_MAX)]
    raise TableUnknown(database, write.options.table, nearest(write.names[-1], tables))


async def _write_all(session: "PostgresConnection", write: TableWrite, columns: Columns) -> None:
    if write.options.mode == "replace":
        if await session.fetchval(_CLAIM, write.replace_identity, write.run_key, 0):
            await session.execute(f"delete from {write.table}")
        else:
            await session.execute(_KEEP, write.replace_identity)
    for batch in write.batches:
        await session.execute(_statement(write, batch, columns), _payload(write, batch, columns))


def _statement(
    write: TableWrite, batch: RowBatch, columns: Columns, payload: str = "$1", condition: str = ""
) -> str:
    """Return the statement; the server converts each value to its column's type."""
    names = ", ".join(map(quoted, batch.columns))
    types = ", ".join(f"{quoted(name)} {columns[name]}" for name in batch.columns)
    rows = (
        f"select {names} from json_to_recordset({payload}::text::json) as given({types}){condition}"
    )
    return f"{insert_into(write, batch.columns)} {rows}{on_conflict(write, batch.columns)}"


def _claim_and_write(write: TableWrite, batch: RowBatch, columns: Columns) -> str:
    rows = _statement(write, batch, columns, "$4", " where exists (select 1 from claimed)")
    return f"with claimed as ({_CLAIM}), written as ({rows}) select 1 from claimed"


def _payload(write: TableWrite, batch: RowBatch, columns: Columns) -> str:
    whole = write.options.json_column
    if whole is not None and columns[whole] not in ("json", "jsonb"):
        return json_text([{whole: json_text(row[whole])} for row in batch.rows])
    return msgspec.json.encode(batch.rows).decode()
