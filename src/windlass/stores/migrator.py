"""Numbered migrations, applied in order inside one transaction, and definitions that are applied when they change.

A dialect's `migrations` folder creates and alters tables; a file there never changes once it is released. Its
`definitions.sql` holds what can be dropped and created again at any time, views and functions.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

import apsw
from msgspec import Struct

from windlass.core.errors import StoreUnavailable
from windlass.stores.queries import POSTGRES, SQLITE, Dialect, filled
from windlass.stores.sqlite.connection import Connection, connect

# Only for annotations: the PostgreSQL driver is an optional extra.
if TYPE_CHECKING:
    from windlass.stores.postgres.pool import Session

# The number under which the checksum of the definitions is recorded.
DEFINITIONS = 0

_TABLE = """create table if not exists schema_version (
    number integer not null primary key, name text not null, checksum text not null, applied_at {instant} not null
)"""
_RECORD = """insert into schema_version (number, name, checksum, applied_at) values ($1, $2, $3, $4)
    on conflict (number) do update set checksum = excluded.checksum, applied_at = excluded.applied_at"""


class Migration(Struct, frozen=True):
    """One step towards the current schema."""

    number: int
    name: str
    sql: str
    checksum: str


def migrations(dialect: Dialect) -> list[Migration]:
    """Return all steps of a dialect in order, the definitions last."""
    folder = files("windlass.stores") / dialect.name
    found: list[Migration] = []
    for path in sorted((folder / "migrations").iterdir(), key=lambda item: item.name):
        number, _, name = path.name.removesuffix(".sql").partition("_")
        found.append(_migration(int(number), name, path.read_text("utf-8")))
    # With the columns of this version: a new field of a struct changes the text, too.
    definitions = filled((folder / "definitions.sql").read_text("utf-8"), dialect)
    found.append(_migration(DEFINITIONS, "definitions", definitions))
    return found


def _migration(number: int, name: str, sql: str) -> Migration:
    return Migration(
        number=number, name=name, sql=sql, checksum=hashlib.sha256(sql.encode()).hexdigest()
    )


def migrate_sqlite(connection: Connection, now: int) -> int:
    """Bring the schema up to date under the write lock and return the number of steps. StoreUnavailable."""
    connection.execute("begin immediate")
    try:
        connection.execute(_TABLE.format(instant="integer") + " strict")
        missing = _missing(
            SQLITE, dict(connection.execute("select number, checksum from schema_version"))
        )
        for step in missing:
            connection.execute(step.sql)
            connection.execute(_RECORD, (step.number, step.name, step.checksum, now))
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return len(missing)


def require_known_schema(connection: Connection) -> None:
    """Raise StoreUnavailable for a schema that is newer than this version. An older one may be readable."""
    [(exists,)] = connection.execute(
        "select count(*) from sqlite_schema where name = 'schema_version'"
    )
    if exists:
        _missing(SQLITE, dict(connection.execute("select number, checksum from schema_version")))


async def migrate_file(path: str, now: int) -> int:
    """Migrate the SQLite file at a path, which is created if it does not exist. StoreUnavailable."""
    try:
        connection = await asyncio.to_thread(connect, path)
        try:
            return await asyncio.to_thread(migrate_sqlite, connection, now)
        finally:
            connection.close()
    except apsw.Error as error:
        raise StoreUnavailable(f"cannot use the database {path}: {error}") from error


async def migrate_postgres(session: "Session", now: int) -> int:
    """Bring the schema up to date under a lock shared by all processes and return the number of steps.

    StoreUnavailable.
    """
    if not _missing(POSTGRES, await _applied(session)):
        # A role without the right to create tables can use a database that is up to date.
        return 0
    async with session.transaction():
        await session.execute("select pg_advisory_xact_lock(22349, 0)")
        await session.execute(_TABLE.format(instant="bigint"))
        missing = _missing(POSTGRES, await _applied(session))
        for step in missing:
            await session.execute(step.sql)
            await session.execute(_RECORD, step.number, step.name, step.checksum, now)
    return len(missing)


async def _applied(session: "Session") -> dict[int, str]:
    if await session.fetchval("select to_regclass('schema_version')::text") is None:
        return {}
    rows = await session.fetch("select number, checksum from schema_version")
    return {row["number"]: row["checksum"] for row in rows}


def _missing(dialect: Dialect, applied: Mapping[int, str]) -> list[Migration]:
    """Return the steps to apply; StoreUnavailable when the database has a schema that they do not fit."""
    steps = migrations(dialect)
    newest = max(step.number for step in steps)
    if applied and max(applied) > newest:
        raise StoreUnavailable(
            f"the database has schema {max(applied)}, newer than the {newest} this version knows; "
            "use the version of Windlass that wrote it, or a newer one"
        )
    missing: list[Migration] = []
    for step in steps:
        checksum = applied.get(step.number)
        if checksum == step.checksum:
            continue
        if checksum is not None and step.number != DEFINITIONS:
            raise StoreUnavailable(
                f"migration {step.number} ({step.name}) was changed after it was applied to this database; "
                "use the version of Windlass that created the database"
            )
        missing.append(step)
    # Views depend on tables: a migration may need them dropped and created again.
    if missing and missing[-1].number != DEFINITIONS:
        missing.append(steps[-1])
    return missing
