"""Numbered migrations, applied in order inside one transaction and remembered with a checksum."""

import asyncio
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

import apsw
from msgspec import Struct

from windlass.core.errors import StoreUnavailable
from windlass.stores.sqlite.connection import Connection, connect

# For the types only: the driver of PostgreSQL is an optional extra.
if TYPE_CHECKING:
    from windlass.stores.postgres.pool import Session

_TABLE = """create table if not exists schema_version (
    number integer not null primary key, name text not null, checksum text not null, applied_at {instant} not null
)"""


class Migration(Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str
    checksum: str


def migrations(dialect: str) -> list[Migration]:
    """All steps of a dialect, in order."""
    folder = files("windlass.stores") / dialect / "migrations"
    found: list[Migration] = []
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        number, _, name = path.name.removesuffix(".sql").partition("_")
        text = path.read_text("utf-8")
        found.append(Migration(int(number), name, text, hashlib.sha256(text.encode()).hexdigest()))
    return found


def migrate_sqlite(connection: Connection, now: int) -> int:
    """Bring the schema up to date under the write lock; how many steps it took. StoreUnavailable."""
    connection.execute("begin immediate")
    try:
        connection.execute(_TABLE.format(instant="integer") + " strict")
        missing = _missing("sqlite", dict(connection.execute("select number, checksum from schema_version")))
        for step in missing:
            connection.execute(step.sql)
            row = (step.number, step.name, step.checksum, now)
            connection.execute("insert into schema_version values (?, ?, ?, ?)", row)
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return len(missing)


async def migrate_file(path: str, now: int) -> int:
    """As migrate_sqlite, for the file at a path, which is made where there is none."""
    try:
        connection = await asyncio.to_thread(connect, path)
        try:
            return await asyncio.to_thread(migrate_sqlite, connection, now)
        finally:
            connection.close()
    except apsw.Error as error:
        raise StoreUnavailable(f"cannot use the database {path}: {error}") from error


async def migrate_postgres(session: "Session", now: int) -> int:
    """Bring the schema up to date under a lock that all processes share; how many steps it took. StoreUnavailable."""
    if not _missing("postgres", await _applied(session)):
        # Whoever may only read and write rows need not be allowed to make tables.
        return 0
    async with session.transaction():
        await session.execute("select pg_advisory_xact_lock(22349, 0)")
        await session.execute(_TABLE.format(instant="bigint"))
        missing = _missing("postgres", await _applied(session))
        for step in missing:
            await session.execute(step.sql)
            row = (step.number, step.name, step.checksum, now)
            await session.execute("insert into schema_version values ($1, $2, $3, $4)", *row)
    return len(missing)


async def _applied(session: "Session") -> dict[int, str]:
    if await session.fetchval("select to_regclass('schema_version')::text") is None:
        return {}
    rows = await session.fetch("select number, checksum from schema_version")
    return {row["number"]: row["checksum"] for row in rows}


def _missing(dialect: str, applied: Mapping[int, str]) -> list[Migration]:
    """The steps that were not taken yet; StoreUnavailable when the database is not one that they fit."""
    steps = migrations(dialect)
    if unknown := sorted(applied.keys() - {step.number for step in steps}):
        raise StoreUnavailable(
            f"the database has schema {unknown[-1]}, newer than the {steps[-1].number} this version knows; "
            "use the version of Windlass that wrote it, or a newer one"
        )
    for step in steps:
        if step.number in applied and step.checksum != applied[step.number]:
            raise StoreUnavailable(
                f"migration {step.number} ({step.name}) was changed after this database was made with it; "
                "use the version of Windlass that made the database"
            )
    return [step for step in steps if step.number not in applied]
