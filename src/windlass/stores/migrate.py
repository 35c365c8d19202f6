"""Numbered migrations, applied in order inside one transaction and remembered with a checksum."""

import hashlib
from importlib.resources import files

from msgspec import Struct

from windlass.core.errors import StoreUnavailable
from windlass.stores.connection import Connection

_TABLE = """create table if not exists schema_version (
    number integer not null primary key, name text not null, checksum text not null, applied_at integer not null
) strict"""


class Migration(Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str
    checksum: str


def migrations(dialect: str) -> list[Migration]:
    """All steps of a dialect, in order."""
    folder = files("windlass.stores") / "migrations" / dialect
    found: list[Migration] = []
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        number, _, name = path.name.removesuffix(".sql").partition("_")
        text = path.read_text("utf-8")
        found.append(Migration(int(number), name, text, hashlib.sha256(text.encode()).hexdigest()))
    return found


def migrate_sqlite(connection: Connection, now: int) -> int:
    """Bring the schema up to date under the write lock; how many steps it took. StoreUnavailable."""
    steps = migrations("sqlite")
    taken = 0
    connection.execute("begin immediate")
    try:
        connection.execute(_TABLE)
        applied = dict(connection.execute("select number, checksum from schema_version"))
        if unknown := sorted(applied.keys() - {step.number for step in steps}):
            raise StoreUnavailable(
                f"the database has schema {unknown[-1]}, newer than the {steps[-1].number} this version knows; "
                "use the version of Windlass that wrote it, or a newer one"
            )
        for step in steps:
            if step.number in applied:
                _check(step, applied[step.number])
                continue
            connection.execute(step.sql)
            row = (step.number, step.name, step.checksum, now)
            connection.execute("insert into schema_version values (?, ?, ?, ?)", row)
            taken += 1
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return taken


def _check(step: Migration, checksum: str) -> None:
    if step.checksum != checksum:
        raise StoreUnavailable(
            f"migration {step.number} ({step.name}) was changed after this database was made with it; "
            "use the version of Windlass that made the database"
        )
