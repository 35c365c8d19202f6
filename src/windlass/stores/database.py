"""How the concepts that SQLite and PostgreSQL share run their named queries."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = Sequence[Any]


class Database(Protocol):
    """Runs named queries of one dialect; values are given by the names of the parameters."""

    async def rows(self, query: str, /, **values: object) -> Sequence[Row]:
        """Return all rows of a query. StoreUnavailable."""
        ...

    async def first(self, query: str, /, **values: object) -> Row | None:
        """Return the first row of a query, if there is one. StoreUnavailable."""
        ...

    async def read(
        self, query: str, convert: Callable[[Iterable[Row]], T], /, **values: object
    ) -> T:
        """Return the converted rows of a query. SQLite converts them in the reader's thread. StoreUnavailable."""
        ...

    async def write(self, query: str, /, **values: object) -> Sequence[Row]:
        """Run one statement in a transaction of its own and return its rows. CommitUnknown, StoreUnavailable."""
        ...
