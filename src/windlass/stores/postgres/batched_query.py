"""One query for all shards of a process.

Every engine polls once a second for each of its shards and mostly finds nothing. One query per shard would be most of
the work of an idle database.
"""

from collections.abc import Sequence
from typing import Any

from windlass.concurrency.batcher import Batcher
from windlass.stores.postgres.database import PostgresStatements

SHARDS_MAX = 256
# The polls of one second are done before those of the next start, unless the database is slow.
IN_FLIGHT_MAX = 4


class BatchedQuery:
    """A query whose concurrent calls are combined. It has an array for each parameter, with one element per call.

    Each row starts with the position of its call, from 1.
    """

    def __init__(self, database: PostgresStatements, query: str) -> None:
        self._pool = database.pool
        self._sql = database.sql(query)
        self._batcher = Batcher(self._read, batch_max=SHARDS_MAX, in_flight_max=IN_FLIGHT_MAX)

    async def rows(self, *values: object) -> Sequence[Any]:
        """Return the rows for these values, without the position. StoreUnavailable."""
        return await self._batcher.call(values)

    async def _read(self, calls: Sequence[tuple[object, ...]]) -> Sequence[Sequence[Any]]:
        columns = [list(column) for column in zip(*calls, strict=True)]
        found: list[list[Any]] = [[] for _ in calls]
        for position, *row in await self._pool.read(self._sql, *columns):
            found[position - 1].append(row)
        return found
