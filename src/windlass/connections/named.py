"""Named databases: finds the one that a node means, and keeps its connections for all who ask."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.connections.folder import Folder
from windlass.connections.sqlite import SqliteDatabase
from windlass.core.errors import FatalError
from windlass.core.templates.json_values import nearest

# For the types only: the driver is an optional extra.
if TYPE_CHECKING:
    from windlass.connections.postgres import PostgresDatabase

POSTGRES = "postgres"
SQLITE = "sqlite"
SQLITE_SCHEME = "sqlite:///"
# Databases that workflows name by their paths, open at one time.
PATHS_MAX = 100
NAMES_SHOWN_MAX = 20

_SCHEMES = {"postgresql": POSTGRES, "postgres": POSTGRES, "sqlite": SQLITE}
_SETTING = {
    POSTGRES: '[connections] NAME = "postgresql://user@host/database"',
    SQLITE: '[connections] NAME = "sqlite:///path/to/file.db"',
}
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*):", re.IGNORECASE)


class ConnectionUnknown(FatalError):
    """No connection of the settings is the one that a node means."""

    type = "connection_unknown"


class DriverMissing(FatalError):
    """The package that speaks to this kind of database is not installed."""

    type = "driver_missing"


class Connections:
    """All named databases of a process. Nothing is opened before it is used."""

    def __init__(self, urls: Mapping[str, str], folder: Folder) -> None:
        self._urls = dict(urls)
        self._kinds = {name: _kind(url) for name, url in urls.items()}
        self._folder = folder
        self._postgres: dict[str, PostgresDatabase] = {}
        self._sqlite: dict[Path, SqliteDatabase] = {}

    def postgres(self, name: str | None) -> "PostgresDatabase":
        """The PostgreSQL database called `name`, or the only one there is."""
        name = self._name(POSTGRES, name)
        if name not in self._postgres:
            try:
                # The driver is an optional extra.
                from windlass.connections.postgres import PostgresDatabase
            except ImportError:
                raise DriverMissing(
                    "PostgreSQL needs the package asyncpg, which is not installed: pip install 'windlass[postgres]'"
                ) from None
            self._postgres[name] = PostgresDatabase(name, self._urls[name])
        return self._postgres[name]

    def sqlite(self, name: str | None, database: str | None = None) -> SqliteDatabase:
        """The SQLite database called `name`, the file `database`, or the only named one there is."""
        if name is not None and database is not None:
            raise ConnectionUnknown("'connection' and 'database' both say where the table is: keep one of the two")
        if database is not None:
            path = self._folder.place(database)
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            name = self._name(SQLITE, name)
            path = Path(self._urls[name].removeprefix(SQLITE_SCHEME)).absolute()
        if path not in self._sqlite:
            if len(self._sqlite) >= PATHS_MAX:
                raise ConnectionUnknown(f"{database}: {PATHS_MAX} databases are in use; name fewer of them")
            self._sqlite[path] = SqliteDatabase(name or database or path.name, path)
        return self._sqlite[path]

    async def aclose(self) -> None:
        """Close every connection."""
        for database in [*self._postgres.values(), *self._sqlite.values()]:
            await database.aclose()
        self._postgres.clear()
        self._sqlite.clear()

    def _name(self, kind: str, name: str | None) -> str:
        alike = sorted(known for known, its_kind in self._kinds.items() if its_kind == kind)
        if name is None:
            if len(alike) == 1:
                return alike[0]
            if not alike:
                raise ConnectionUnknown(f"there is no {kind} connection: add one to the settings, {_SETTING[kind]}")
            raise ConnectionUnknown(f"there are several {kind} connections: add connection: one of {_listed(alike)}")
        if name in alike:
            return name
        if name in self._kinds:
            raise ConnectionUnknown(f"the connection {name!r} is {self._kinds[name]}, not {kind}")
        if _SCHEME.match(name):
            # It may hold a password: not a word of it goes into an error.
            raise ConnectionUnknown(f"a connection is a name, not a URL: add it to the settings, {_SETTING[kind]}")
        like = nearest(name, alike)
        known = f"did you mean {like!r}?" if like else f"known are {_listed(alike)}" if alike else "there are none"
        raise ConnectionUnknown(f"there is no {kind} connection {name!r}: {known} (setting connections.NAME)")


def _kind(url: str) -> str:
    scheme = _SCHEME.match(url)
    kind = _SCHEMES.get(scheme[1].lower(), "") if scheme else ""
    if kind == SQLITE and (not url.startswith(SQLITE_SCHEME) or url == SQLITE_SCHEME):
        return "no URL like sqlite:///path/to/file.db"
    return kind or "of an unknown kind"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"{shown}, …" if len(names) > NAMES_SHOWN_MAX else shown
