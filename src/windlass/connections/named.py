"""Named databases: resolves the name that a node uses and shares the connections."""

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
# Open SQLite files that workflows name by path.
PATHS_MAX = 100
NAMES_SHOWN_MAX = 20

_SCHEMES = {"postgresql": POSTGRES, "postgres": POSTGRES, "sqlite": SQLITE}
_SETTING = {
    POSTGRES: '[connections] NAME = "postgresql://user@host/database"',
    SQLITE: '[connections] NAME = "sqlite:///path/to/file.db"',
}
_SQLITE_FILE = re.compile(r"sqlite:///.")
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*):", re.IGNORECASE)


class ConnectionUnknown(FatalError):
    """No connection in the settings matches."""

    type = "connection_unknown"


class DriverMissing(FatalError):
    """The driver of this kind of database is not installed."""

    type = "driver_missing"


class Connections:
    """All named databases of a process, opened on first use."""

    def __init__(self, urls: Mapping[str, str], folder: Folder) -> None:
        self._urls = dict(urls)
        self._kinds = {name: _kind(url) for name, url in urls.items()}
        self._folder = folder
        self._postgres: dict[str, PostgresDatabase] = {}
        self._sqlite: dict[Path, SqliteDatabase] = {}

    def postgres(self, name: str | None) -> "PostgresDatabase":
        """Return the PostgreSQL database `name`, or the only one."""
        name = self._name(POSTGRES, name)
        if name not in self._postgres:
            try:
                # The driver is an optional extra.
                from windlass.connections.postgres import PostgresDatabase
            except ImportError:
                raise DriverMissing(
                    "PostgreSQL requires the package asyncpg, which is not installed; pip install 'windlass[postgres]'"
                ) from None
            self._postgres[name] = PostgresDatabase(name, self._urls[name])
        return self._postgres[name]

    def sqlite(self, name: str | None, database: str | None = None) -> SqliteDatabase:
        """Return the SQLite database `name`, the file `database`, or the only named one."""
        if name is not None and database is not None:
            raise ConnectionUnknown("both 'connection' and 'database' given; remove one of them")
        if database is not None:
            path = self._folder.resolve(database)
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            name = self._name(SQLITE, name)
            path = Path(self._urls[name].removeprefix(SQLITE_SCHEME)).absolute()
        if path not in self._sqlite:
            if len(self._sqlite) >= PATHS_MAX:
                raise ConnectionUnknown(
                    f"too many SQLite databases: {database}; at most {PATHS_MAX}"
                )
            self._sqlite[path] = SqliteDatabase(name or database or path.name, path)
        return self._sqlite[path]

    async def aclose(self) -> None:
        """Close every connection."""
        for database in [*self._postgres.values(), *self._sqlite.values()]:
            await database.aclose()
        self._postgres.clear()
        self._sqlite.clear()

    def _name(self, kind: str, name: str | None) -> str:
        known = sorted(each for each, its_kind in self._kinds.items() if its_kind == kind)
        if name is None:
            return _only(known, kind)
        if name in known:
            return name
        if name in self._kinds:
            raise ConnectionUnknown(
                f"wrong kind of connection: {name!r} is {self._kinds[name]}, not {kind}"
            )
        if _SCHEME.match(name):
            # The URL may contain a password, so the error does not repeat it.
            raise ConnectionUnknown(
                f"connection is a URL, not a name; add it to the settings: {_SETTING[kind]}"
            )
        like = nearest(name, known)
        hint = f"known connections: {_listed(known)}"
        if like is not None:
            hint = f"did you mean {like!r}?"
        raise ConnectionUnknown(
            f"unknown {kind} connection: {name!r}; {hint} (setting connections.NAME)"
        )


def _only(known: list[str], kind: str) -> str:
    if len(known) == 1:
        return known[0]
    if not known:
        raise ConnectionUnknown(f"no {kind} connection in the settings; add one: {_SETTING[kind]}")
    raise ConnectionUnknown(
        f"several {kind} connections; set 'connection' to one of {_listed(known)}"
    )


def _kind(url: str) -> str:
    scheme, _, _ = url.partition(":")
    kind = _SCHEMES.get(scheme.lower(), "of an unknown kind")
    if kind == SQLITE and not _SQLITE_FILE.match(url):
        return "not a URL like sqlite:///path/to/file.db"
    return kind


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    shown = names[:NAMES_SHOWN_MAX]
    if len(names) > NAMES_SHOWN_MAX:
        shown.append("…")
    return ", ".join(shown)
