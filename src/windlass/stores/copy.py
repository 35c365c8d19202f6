"""Moves a whole embedded database to PostgreSQL, in one transaction, and proves that everything arrived.

Both sides add up a hash of every row, so that their order does not matter; the sums must be the same.
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
from windlass.core.shards import shard_of, shard_of_workflow
from windlass.stores.columns import (
    CALL_OUTPUT,
    CHUNK,
    DELIVERY,
    EVENT_PAGE,
    ITERATION,
    JOB_NAMES,
    LOG,
    NODE,
    REQUEST,
    RUN,
    RUN_REQUEST,
    SCHEDULE,
    WORKFLOW,
)
from windlass.stores.migrator import migrate_postgres, migrate_sqlite
from windlass.stores.postgres.pool import Session, told
from windlass.stores.postgres.pool import connect as connect_postgres
from windlass.stores.postgres.rows import storable
from windlass.stores.sqlite.connection import Connection, connect

# Rows that are in memory at one time.
ROWS_AT_ONCE = 200
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
    "run_requests": RUN_REQUEST.names,
    "deliveries": DELIVERY.names,
}

# Columns that are numbers in SQLite and truth values in PostgreSQL.
TRUTHS = ("applied", "is_paused", "is_gone", "succeeded")

Row = tuple[Any, ...]
Convert = Callable[[Row], Row]


class CopiedTable(Struct, frozen=True):
    """A table that arrived whole: how many rows it has, and the sum of their hashes."""

    name: str
    rows: int
    checksum: str


async def copy_database(path: str, url: str, shards: int, now: int) -> Sequence[CopiedTable]:
    """Copy the SQLite file at `path`, which nobody else uses, into an empty database, its jobs spread over `shards`.

    Everything or nothing arrives. StoreUnavailable, RequestRefused (not empty, in use), CommitUnknown (interrupted).
    """
    source = await asyncio.to_thread(_open_source, path, now)
    try:
        session = await connect_postgres(url)
        try:
            await migrate_postgres(session, now)
            return await _copy(source, session, url, shards)
        except (OSError, EOFError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise CommitUnknown(
                f"the copy to {redact_url(url)} was interrupted: {told(error)}; nothing arrived, unless it was lost at "
                "the very end: try again, and a database that is not empty is refused"
            ) from error
        finally:
            await session.close()
    finally:
        source.close()


def _open_source(path: str, now: int) -> Connection:
    if not Path(path).exists():
        raise StoreUnavailable(f"there is no database at {path}; name the file of an embedded installation")
    try:
        connection = connect(path)
        migrate_sqlite(connection, now)
        connection.execute("begin")
    except apsw.Error as error:
        raise StoreUnavailable(f"cannot use the database {path}: {error}") from error
    return connection


async def _copy(source: Connection, session: Session, url: str, shards: int) -> Sequence[CopiedTable]:
    async with session.transaction():
        await _require_empty(session, url)
        copied = [await _copy_table(source, session, name, shards) for name in TABLES]
        await session.execute(
            "select setval(pg_get_serial_sequence('logs', 'log_id'), coalesce(max(log_id), 0) + 1, false) from logs"
        )
    await session.execute("analyze")
    return copied


async def _require_empty(session: Session, url: str) -> None:
    """RequestRefused unless nothing is in the target and no engine works on it; from here on nobody else writes."""
    await session.execute(f"lock table {', '.join(TABLES)} in share row exclusive mode")
    full = [name for name in TABLES if await session.fetchval(f"select exists (select from {name})")]
    if full:
        raise RequestRefused(
            f"the database {redact_url(url)} is not empty (there are rows in {', '.join(full)}); copy into a new one"
        )
    if engines := await session.fetch("select owner from engines where expires_at > now() order by owner"):
        names = ", ".join(row[0] for row in engines)
        raise RequestRefused(f"engines work on the database {redact_url(url)} ({names}); stop them first")


async def _copy_table(source: Connection, session: Session, name: str, shards: int) -> CopiedTable:
    columns = TABLES[name]
    sent = _Sent(source, name, _converter(columns, shards))
    await session.copy_records_to_table(name, records=sent.rows(), columns=columns)
    [arrived] = await session.fetch(_checksum_query(name))
    if (sent.count, sent.checksum) != (arrived[0], int(arrived[1])):
        raise CommitUnknown(
            f"the table {name} did not arrive as it was sent ({arrived[0]} rows of {sent.count}, or other content); "
            "nothing was copied"
        )
    return CopiedTable(name, sent.count, f"{sent.checksum % (1 << SUM_BITS):016x}")


class _Sent:
    """The rows of one table on their way, counted and summed up."""

    def __init__(self, source: Connection, name: str, convert: Convert) -> None:
        self._source = source
        self._name = name
        self._convert = convert
        self.count = 0
        self.checksum = 0

    async def rows(self) -> AsyncGenerator[Row]:
        """Every row as the target has it."""
        quoted = ", ".join(f'"{column}"' for column in TABLES[self._name])
        found = iter(self._source.execute(f"select {quoted} from {self._name}"))
        while batch := await asyncio.to_thread(self._next, found):
            for row in batch:
                yield row

    def _next(self, found: Iterator[Row]) -> list[Row]:
        batch = [self._convert(row) for row in islice(found, ROWS_AT_ONCE)]
        self.count += len(batch)
        self.checksum += sum(map(row_hash, batch))
        return batch


def _converter(columns: Sequence[str], shards: int) -> Convert:
    """How a row of SQLite becomes one of PostgreSQL: its shard among so many, truth values, storable texts."""
    # Runs, and what is asked of them, live where their workflow does.
    place, key = (shard_of_workflow, "workflow_id") if "run_id" in columns else (shard_of, "job_id")
    owner = columns.index(key) if "shard" in columns else -1
    shard = columns.index("shard") if "shard" in columns else -1
    truths = [columns.index(name) for name in TRUTHS if name in columns]

    def convert(row: Row) -> Row:
        values = [storable(value) if isinstance(value, str) else value for value in row]
        if shard >= 0:
            values[shard] = place(row[owner], shards)
        for at in truths:
            values[at] = None if row[at] is None else bool(row[at])
        return tuple(values)

    return convert


def row_hash(row: Row) -> int:
    """A number for the content of a row; the query below says the same in SQL."""
    text = "".join("-" if value is None else f"{len(value)}:{value}" for value in map(_text, row))
    return int.from_bytes(sha256(text.encode()).digest()[: SUM_BITS // 8], "big", signed=True)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checksum_query(name: str) -> str:
    parts = " || ".join(
        f"coalesce(char_length(\"{column}\"::text) || ':' || \"{column}\"::text, '-')" for column in TABLES[name]
    )
    digits = SUM_BITS // 4
    hashed = f"('x' || left(encode(sha256(convert_to({parts}, 'UTF8')), 'hex'), {digits}))::bit({SUM_BITS})::bigint"
    return f"select count(*), coalesce(sum({hashed}), 0) from {name}"
