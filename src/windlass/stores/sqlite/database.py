"""The SQLite file of a store: one writer, readers on threads with connections of their own, named queries."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import apsw

from windlass.core.errors import StoreUnavailable
from windlass.ports.clock import Clock
from windlass.stores.database import Row
from windlass.stores.queries import SQLITE, Query, queries
from windlass.stores.rows import encoded_text
from windlass.stores.sqlite.bulk_statement import BulkStatement
from windlass.stores.sqlite.connection import (
    UNUSABLE,
    Connection,
    Rows,
    connect,
    unusable,
)
from windlass.stores.sqlite.writer import SqliteWriter

READERS_MAX = 2

T = TypeVar("T")


class SqliteStatements:
    """Runs named queries on one SQLite file. Without a writer it is open for reading only."""

    def __init__(self, path: str, *, writer: SqliteWriter | None, clock: Clock | None) -> None:
        self._path = path
        self._writer = writer
        self._clock = clock
        self._queries = queries(SQLITE)
        self._readers = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="windlass-sqlite-reader")
        self._local = threading.local()
        self._connections: list[Connection] = []

    async def close(self) -> None:
        """Commit accepted writes and close the readers' connections."""
        if self._writer is not None:
            await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()

    @property
    def writer(self) -> SqliteWriter:
        """The writer; StoreUnavailable when there is none."""
        if self._writer is None:
            raise StoreUnavailable(f"the database is open for reading only: {self._path}")
        return self._writer

    def now(self) -> int:
        """Return the current instant."""
        return 0 if self._clock is None else self._clock.now()

    def sql(self, query: str) -> str:
        """Return the text of a query, for callers that pass its values in order."""
        return self._queries[query].sql

    # Inside an operation on a connection

    def execute(self, connection: Connection, query: str, /, **values: object) -> Rows:
        """Run a query on a connection."""
        found = self._queries[query]
        return connection.execute(found.sql, _bound(found, values))

    def execute_first(
        self, connection: Connection, query: str, /, **values: object
    ) -> tuple[Any, ...] | None:
        """Run a query on a connection and return its first row, if there is one."""
        return self.execute(connection, query, **values).fetchone()

    def bulk(self, query: str) -> BulkStatement:
        """Return a statement that is executed with many rows at a time."""
        return BulkStatement(self._queries[query].sql)

    # As operations of their own

    async def transact(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation in a transaction of the writer. CommitUnknown, StoreUnavailable."""
        return await self.writer.write(operation)

    async def write(self, query: str, /, **values: object) -> Sequence[Row]:
        return await self.transact(
            lambda connection: list(self.execute(connection, query, **values))
        )

    async def rows(self, query: str, /, **values: object) -> Sequence[Row]:
        return await self.read(query, list, **values)

    async def first(self, query: str, /, **values: object) -> Row | None:
        return await self.query(lambda connection: self.execute_first(connection, query, **values))

    async def read(
        self, query: str, convert: Callable[[Iterable[Row]], T], /, **values: object
    ) -> T:
        return await self.query(
            lambda connection: convert(self.execute(connection, query, **values))
        )

    async def query(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation that only reads, on a reader's thread. StoreUnavailable."""
        if self._writer is not None:
            # A new connection of a reader would open other files than the writer has.
            self._writer.check_files()
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, self._with_reader, operation
        )

    def _with_reader(self, operation: Callable[[Connection], T]) -> T:
        try:
            connection: Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = connect(self._path, read_only=True)
                self._connections.append(connection)
            return operation(connection)
        except UNUSABLE as error:
            raise unusable(self._path, error) from error
        except apsw.SQLError as error:
            hint = "if an older version created it, run `windlass db migrate`"
            raise StoreUnavailable(
                f"cannot read the database {self._path}: {error}; {hint}"
            ) from error
        except apsw.Error as error:
            raise StoreUnavailable(f"cannot read the database {self._path}: {error}") from error


def _bound(query: Query, values: dict[str, object]) -> list[object]:
    """Return the values of a query's parameters; lists as JSON arrays."""
    return [
        encoded_text(value) if isinstance(value, list) else value for value in query.values(values)
    ]
