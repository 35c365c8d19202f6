"""Copies an embedded database to PostgreSQL in one transaction and verifies the copy.

Both sides compute the sum of the hashes of all rows, which does not depend on their order; the sums must be equal.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from msgspec import Struct

from windlass.core.errors import CommitUnknown, RequestRefused, StoreUnavailable
from windlass.core.redaction import redact_url
from windlass.core.shards import shard_of
from windlass.ports.store.leases import new_installation_id
from windlass.stores.columns import (
    CALL_OUTPUT,
    CHUNK,
    COLUMNS,
    DELIVERY,
    EVENT_PAGE,
    ITERATION,
    JOB_NAMES,
    LOG,
    NODE,
    REQUEST,
    RUN,
    RUN_EVENT_PAGE,
    RUN_REQUEST,
    SCHEDULE,
    WORKFLOW,
)
from windlass.stores.migrator import migrate_postgres, migrate_sqlite
from windlass.stores.postgres.parameters import storable
from windlass.stores.postgres.pool import Session, error_text
from windlass.stores.postgres.pool import connect as connect_postgres
from windlass.stores.sqlite.connection import Connection, connect

# Rows that are in memory at the same time.
BATCH_MAX = 200
SUM_BITS = 64

# Every table, with its columns.
TABLES = {
    "workflows": (*WORKFLOW.names, "deleted_at"),
    "aliases": ("workflow_id", "alias", "targets", "updated_at"),
    "jobs": JOB_NAMES,
    "nodes": NODE.names,
    "iterations": ITERATION.names,
    "call_outputs": CALL_OUTPUT.names,
    "collection_chunks": CHUNK.names,
    "events": EVENT_PAGE.names,
    "requests": (*REQUEST.names, "shard", "applied"),
    "results": ("result_id", "job_id", "shard", "message", "created_at", "verdict"),
    "logs": ("log_id", *LOG.names),
    "schedules": SCHEDULE.names,
    "runs": RUN.names,
    "run_events": RUN_EVENT_PAGE.names,
    "run_requests": RUN_REQUEST.names,
    "deliveries": DELIVERY.names,
}

# What decides the shard of a row, read instead of the column `shard`.
_JOBS_KEY = "coalesce((select shard_key from jobs where jobs.job_id = {table}.job_id), job_id)"
SHARD_KEYS = {
    "jobs": "coalesce(shard_key, job_id)",
    "requests": _JOBS_KEY.format(table="requests"),
    "results": _JOBS_KEY.format(table="results"),
    "runs": "workflow_id",
    "run_requests": "workflow_id",
}

# Columns that are integers in SQLite and booleans in PostgreSQL. `applied` belongs to the store alone.
_DECLARED = [column for columns in COLUMNS.values() for column in columns]
BOOLEANS = {column.name for column in _DECLARED if column.value_type is bool} | {"applied"}

Row = tuple[Any, ...]
Convert = Callable[[Row], Row]


class CopiedTable(Struct, frozen=True):
    """A table that was copied completely: the number of its rows, and the sum of their hashes."""

    name: str
    rows: int
    checksum: str


async def copy_database(path: str, url: str, shards: int, now: int) -> Sequence[CopiedTable]:
    """Copy the SQLite file at `path`, which no other process may use, into an empty database with `shards` shards.

    Everything is copied or nothing. StoreUnavailable, RequestRefused (not empty, in use), CommitUnknown (interrupted).
    """
    source = await asyncio.to_thread(_open_source, path, now)
    try:
        session = await connect_postgres(url)
        try:
            await migrate_postgres(session, now)
            return await _copy(source, session, url, shards)
        except (OSError, EOFError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise CommitUnknown(
                f"the copy to {redact_url(url)} was interrupted: {error_text(error)}; copy again: nothing was stored, "
                "or, if the connection was lost during the commit, the database is refused because it is not empty"
            ) from error
        finally:
            await session.close()
    finally:
        source.close()


def _open_source(path: str, now: int) -> Connection:
    if not Path(path).exists():
        raise StoreUnavailable(f"no database at {path}; name the file of an embedded installation")
    try:
        connection = connect(path)
        migrate_sqlite(connection, now)
        connection.execute("begin")
    except apsw.Error as error:
        raise StoreUnavailable(f"cannot use the database {path}: {error}") from error
    return connection


async def _copy(
    source: Connection, session: Session, url: str, shards: int
) -> Sequence[CopiedTable]:
    async with session.transaction():
        await _require_empty(session, url)
        copied = [await _copy_table(source, session, name, shards) for name in TABLES]
        await session.execute(
            "insert into deployment (id, installation_id, shard_count) values (1, $1, $2) "
            "on conflict (id) do update set shard_count = excluded.shard_count",
            new_installation_id(),
            shards,
        )
        await session.execute(
            "select setval(pg_get_serial_sequence('logs', 'log_id'), coalesce(max(log_id), 0) + 1, false) from logs"
        )
    await session.execute("analyze")
    return copied


async def _require_empty(session: Session, url: str) -> None:
    """Lock the target against other writers. RequestRefused unless it is empty and no engine uses it."""
    await session.execute(f"lock table {', '.join(TABLES)} in share row exclusive mode")
    full = [
        name for name in TABLES if await session.fetchval(f"select exists (select from {name})")
    ]
    if full:
        raise RequestRefused(
            f"the database {redact_url(url)} is not empty: it has rows in {', '.join(full)}; copy into a new one"
        )
    if engines := await session.fetch(
        "select owner from engines where expires_at > now() order by owner"
    ):
        names = ", ".join(row[0] for row in engines)
        raise RequestRefused(
            f"engines use the database {redact_url(url)}: {names}; stop them first"
        )


async def _copy_table(source: Connection, session: Session, name: str, shards: int) -> CopiedTable:
    columns = TABLES[name]
    sent = _SentRows(source, name, _converter(columns, shards))
    await session.copy_records_to_table(name, records=sent.rows(), columns=columns)
    [stored] = await session.fetch(_checksum_query(name))
    if (sent.count, sent.checksum) != (stored[0], int(stored[1])):
        raise CommitUnknown(
            f"verification of table {name} failed: {stored[0]} rows of {sent.count} or different content; "
            "nothing was copied"
        )
    return CopiedTable(name, sent.count, f"{sent.checksum % (1 << SUM_BITS):016x}")


class _SentRows:
    """The rows of one table as they are sent, with their number and the sum of their hashes."""

    def __init__(self, source: Connection, name: str, convert: Convert) -> None:
        self._source = source
        self._name = name
        self._convert = convert
        self.count = 0
        self.checksum = 0

    async def rows(self) -> AsyncGenerator[Row]:
        """Yield every row as the target stores it."""
        selected = [f'"{column}"' for column in TABLES[self._name]]
        if self._name in SHARD_KEYS:
            selected[TABLES[self._name].index("shard")] = SHARD_KEYS[self._name]
        found = iter(self._source.execute(f"select {', '.join(selected)} from {self._name}"))
        while batch := await asyncio.to_thread(self._next, found):
            for row in batch:
                yield row

    def _next(self, found: Iterator[Row]) -> list[Row]:
        batch = [self._convert(row) for row in islice(found, BATCH_MAX)]
        self.count += len(batch)
        self.checksum += sum(map(row_hash, batch))
        return batch


def _converter(columns: Sequence[str], shards: int) -> Convert:
    """Return the conversion of a row of SQLite to one of PostgreSQL: the shard, booleans, texts."""
    shard = columns.index("shard") if "shard" in columns else -1
    booleans = [place for place, name in enumerate(columns) if name in BOOLEANS]

    def convert(row: Row) -> Row:
        values = [storable(value) if isinstance(value, str) else value for value in row]
        if shard >= 0:
            values[shard] = shard_of(row[shard], shards)
        for place in booleans:
            if row[place] is not None:
                values[place] = bool(row[place])
        return tuple(values)

    return convert


def row_hash(row: Row) -> int:
    """Return the hash of a row. `_checksum_query` computes the same in SQL."""
    text = "".join("-" if value is None else f"{len(value)}:{value}" for value in map(_text, row))
    return int.from_bytes(sha256(text.encode()).digest()[: SUM_BITS // 8], "big", signed=True)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checksum_query(name: str) -> str:
    parts = " || ".join(
        f"coalesce(char_length(\"{column}\"::text) || ':' || \"{column}\"::text, '-')"
        for column in TABLES[name]
    )
    digits = SUM_BITS // 4
    hashed = f"('x' || left(encode(sha256(convert_to({parts}, 'UTF8')), 'hex'), {digits}))::bit({SUM_BITS})::bigint"
    return f"select count(*), coalesce(sum({hashed}), 0) from {name}"
