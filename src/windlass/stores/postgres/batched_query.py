"""Questions that every shard of a process asks at the same time: one query answers all of them.

Each engine looks after all its shards once a second, mostly in vain; one by one that would be most of what an idle
database has to do.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from windlass.core.errors import StoreUnavailable
from windlass.stores.postgres.database import PostgresStatements

# Shards that one query is about at most.
SHARDS_MAX = 256


class _Asked(Struct, frozen=True, eq=False):
    """A question, and who waits for the answer."""

    values: tuple[object, ...]
    answer: "asyncio.Future[Sequence[Any]]"


class BatchedQuery:
    """One kind of question. Its query takes a column for each value, and says with each row whose it is."""

    def __init__(self, database: PostgresStatements, query: str) -> None:
        self._pool = database.pool
        self._sql = database.sql(query)
        self._asked: list[_Asked] = []
        self._asking: set[asyncio.Task[None]] = set()

    async def rows(self, *values: object) -> Sequence[Any]:
        """The rows for these values, each without the place at its beginning. StoreUnavailable."""
        answer: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(values, answer))
        if len(self._asked) == 1:
            # It starts when those who are about to ask the same have done so.
            task = asyncio.ensure_future(self._ask_all())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return await answer

    async def _ask_all(self) -> None:
        asked, self._asked = self._asked, []
        for start in range(0, len(asked), SHARDS_MAX):
            await self._ask(asked[start : start + SHARDS_MAX])

    async def _ask(self, asked: Sequence[_Asked]) -> None:
        found: list[list[Any]] = [[] for _ in asked]
        failure: StoreUnavailable | None = StoreUnavailable("a question broke down; the log says why")
        try:
            columns = [list(column) for column in zip(*(one.values for one in asked), strict=True)]
            for place, *row in await self._pool.read(self._sql, *columns):
                found[place - 1].append(row)
            failure = None
        except StoreUnavailable as error:
            failure = error
        finally:
            # Whatever went wrong, nobody is left waiting.
            for one, rows in zip(asked, found, strict=True):
                if not one.answer.done():
                    _answer(one, rows, failure)


def _answer(one: _Asked, rows: Sequence[Any], failure: Exception | None) -> None:
    if failure is None:
        one.answer.set_result(rows)
    else:
        one.answer.set_exception(failure)
