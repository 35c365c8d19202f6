"""The one thread that writes to SQLite: what waits is committed together (group commit)."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import apsw

from windlass.core.errors import CommitUnknown, WindlassError
from windlass.stores.connection import Connection

# Operations that share one transaction at most.
GROUP_MAX = 256

Operation = Callable[[Connection], Any]
# Whether it may refuse after it has written something, too.
_Item = tuple[Operation, "asyncio.Future[Any]", bool]


class SqliteWriter:
    """Runs operations in transactions on a thread of its own, in the order they came.

    An operation that raises a WindlassError changes nothing and leaves the others of its group alone.
    Any other failure fails the whole group as CommitUnknown.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="windlass-sqlite-writer", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._thread.start()

    def write(self, operation: Operation, *, undo: bool = True) -> "asyncio.Future[Any]":
        """A future of the operation's result, done once it is durable.

        One that writes nothing before it refuses, or never refuses, needs no `undo`: it spares two statements.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closed:
            future.set_exception(CommitUnknown("the store is closed"))
        else:
            self._items.put((operation, future, undo))
        return future

    async def close(self) -> None:
        """Commit what was accepted, then end the thread."""
        if not self._closed:
            self._closed = True
            self._items.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            group = self._next_group()
            if group:
                outcomes = self._commit(group)
                self._tell(group, outcomes)
            else:
                return

    def _next_group(self) -> list[_Item]:
        first = self._items.get()
        if first is None:
            return []
        group = [first]
        while len(group) < GROUP_MAX:
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._items.put(None)
                break
            group.append(item)
        return group

    def _commit(self, group: list[_Item]) -> list[Any]:
        connection = self._connection
        outcomes: list[Any] = []
        try:
            connection.execute("begin immediate")
            for operation, _, undo in group:
                outcomes.append(_attempt(connection, operation, undo=undo and len(group) > 1))
            connection.execute("commit")
        except apsw.Error as error:
            _roll_back(connection)
            return [CommitUnknown(f"SQLite refused a transaction: {error}")] * len(group)
        return outcomes

    def _tell(self, group: list[_Item], outcomes: list[Any]) -> None:
        def resolve() -> None:
            for (_, future, _), outcome in zip(group, outcomes, strict=True):
                if future.done():
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

        try:
            self._loop.call_soon_threadsafe(resolve)
        except RuntimeError:  # the loop is closed: nobody waits any more, and the rows are durable
            return


def _attempt(connection: Connection, operation: Operation, *, undo: bool) -> Any:
    """Run one operation; a WindlassError is its outcome and undoes only what it did."""
    if undo:
        connection.execute("savepoint operation")
    try:
        outcome = operation(connection)
    except WindlassError as error:
        # Alone, an operation that refuses must not have written before it refused: the transaction is committed.
        if undo:
            connection.execute("rollback to operation")
        outcome = error
    if undo:
        connection.execute("release operation")
    return outcome


def _roll_back(connection: Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("rollback")
    except apsw.Error:
        # The connection itself is broken (disk gone). The next transaction says so again.
        return
