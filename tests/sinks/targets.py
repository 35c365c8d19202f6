"""PostgreSQL and SQLite databases that sinks write to, with one interface."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg
import msgspec
from msgspec import Raw

from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.core.changes import SinkSpec
from windlass.ports.sink import Sink, SinkReceipt
from windlass.sinks.postgres import PostgresSink
from windlass.sinks.sqlite import SqliteSink

RETENTION_DAYS = 2.0


def raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def sink_spec(
    tool: str, *, run_key: str = "run-1", merged_at: tuple[str, ...] = (), **options: Any
) -> SinkSpec:
    return SinkSpec(tool, msgspec.json.encode(options), merged_at, run_key)


class Target(Protocol):
    tool: str
    connections: Connections

    def another_sink(self) -> Sink:
        """Return a sink with its own connections, like that of another process."""
        ...

    async def execute(self, sql: str) -> None: ...

    async def rows(self, sql: str) -> list[dict[str, Any]]: ...

    async def age_identities(self, days: int) -> None:
        """Make all identities so many days older."""
        ...


class Writer:
    """Writes outputs to one table and reads it."""

    def __init__(self, target: Target, **options: Any) -> None:
        self.target = target
        self.sink = target.another_sink()
        self.options = options

    async def write(
        self,
        output: object,
        identity: str = "task-1",
        run_key: str = "run-1",
        merged_at: tuple[str, ...] = (),
        **more: Any,
    ) -> SinkReceipt:
        spec = sink_spec(
            self.target.tool, run_key=run_key, merged_at=merged_at, **{**self.options, **more}
        )
        return await self.sink.write(spec, raw(output), identity)

    async def table(self, columns: str = "*") -> list[dict[str, Any]]:
        name = self.options["table"]
        return await self.target.rows(f"select {columns} from {name} order by 1")


class PostgresTarget:
    tool = "postgres"

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._opened: list[Connections] = []
        self.connections = self._connections()

    def another_sink(self) -> Sink:
        return PostgresSink(self._connections(), RETENTION_DAYS)

    async def execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        connection = await asyncpg.connect(self._url)
        try:
            return [dict(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    async def age_identities(self, days: int) -> None:
        await self.execute(
            f"update windlass_effects set written_at = written_at - interval '{days} days'"
        )

    async def aclose(self) -> None:
        for connections in self._opened:
            await connections.aclose()

    def _connections(self) -> Connections:
        self._opened.append(Connections({"main_db": self._url}, Folder(self._folder)))
        return self._opened[-1]


class SqliteTarget:
    tool = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "target.db"
        self._folder = folder
        self._opened: list[Connections] = []
        self.connections = self._connections()

    def another_sink(self) -> Sink:
        return SqliteSink(self._connections(), RETENTION_DAYS)

    async def execute(self, sql: str) -> None:
        connection = apsw.Connection(str(self.path))
        connection.execute(sql)
        connection.close()

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        connection = apsw.Connection(str(self.path))
        cursor = connection.execute(sql)
        found = [
            dict(zip([name for name, _ in cursor.get_description()], row, strict=True))
            for row in cursor
        ]
        connection.close()
        return found

    async def age_identities(self, days: int) -> None:
        older = f"strftime('%Y-%m-%dT%H:%M:%fZ', written_at, '-{days} days')"
        await self.execute(f"update windlass_effects set written_at = {older}")

    async def aclose(self) -> None:
        for connections in self._opened:
            await connections.aclose()

    def _connections(self) -> Connections:
        self._opened.append(
            Connections({"main_db": f"sqlite:///{self.path}"}, Folder(self._folder))
        )
        return self._opened[-1]


@asynccontextmanager
async def opened(
    target: PostgresTarget | SqliteTarget,
) -> AsyncIterator[PostgresTarget | SqliteTarget]:
    try:
        yield target
    finally:
        await target.aclose()
