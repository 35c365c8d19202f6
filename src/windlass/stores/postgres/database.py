"""Named queries on one PostgreSQL database."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from windlass.stores.database import Row
from windlass.stores.postgres.parameters import storable
from windlass.stores.postgres.pool import PostgresPool, Session
from windlass.stores.queries import POSTGRES, Query, queries

T = TypeVar("T")


class PostgresStatements:
    """Runs named queries on the connections of a pool."""

    def __init__(self, pool: PostgresPool) -> None:
        self.pool = pool
        self._queries = queries(POSTGRES)

    def sql(self, query: str) -> str:
        """Return the text of a query, for callers that pass its values in order."""
        return self._queries[query].sql

    # On a session

    async def execute(self, session: Session, query: str, /, **values: object) -> Sequence[Any]:
        """Run a query on a session and return its rows."""
        found = self._queries[query]
        return await session.fetch(found.sql, *_bound(found, values))

    # As calls of their own

    async def write(self, query: str, /, **values: object) -> Sequence[Row]:
        found = self._queries[query]
        return await self.pool.write(found.sql, *_bound(found, values))

    async def write_lease(self, query: str, /, **values: object) -> Sequence[Row]:
        """Run one statement about leases, on the connection that is reserved for them. As `write`."""
        found = self._queries[query]
        return await self.pool.write(found.sql, *_bound(found, values), for_leases=True)

    async def rows(self, query: str, /, **values: object) -> Sequence[Row]:
        found = self._queries[query]
        return await self.pool.read(found.sql, *_bound(found, values))

    async def first(self, query: str, /, **values: object) -> Row | None:
        rows = await self.rows(query, **values)
        return rows[0] if rows else None

    async def read(
        self, query: str, convert: Callable[[Iterable[Row]], T], /, **values: object
    ) -> T:
        return convert(await self.rows(query, **values))

    async def query(
        self, operation: Callable[[Session], Awaitable[T]], *, for_leases: bool = False
    ) -> T:
        """Run an operation that only reads. StoreUnavailable."""
        return await self.pool.query(operation, for_leases=for_leases)

    async def change(self, operation: Callable[[Session], Awaitable[T]]) -> T:
        """Run an operation that is one transaction. CommitUnknown, StoreUnavailable."""
        return await self.pool.change(operation)


def _bound(query: Query, values: dict[str, object]) -> list[object]:
    """Return the values of a query's parameters, texts without the character that PostgreSQL cannot store."""
    return [storable(value) if isinstance(value, str) else value for value in query.values(values)]
