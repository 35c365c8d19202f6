"""Writes to SQLite: what waits is committed together on one thread; what is small and comes alone, at once (ADR 17)."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import apsw

from windlass.core.errors import CommitUnknown, WindlassError
from windlass.stores.sqlite.connection import BUSY_TIMEOUT_MS, CHECKPOINT_PAGES, Connection

# Operations that share one transaction at most.
GROUP_MAX = 256
# The loop waits for a commit no longer than this. After one that took longer, the thread has them all for a while.
AT_ONCE_SECONDS_MAX = 0.003
SLOW_PAUSE_SECONDS = 10.0

log = logging.getLogger("windlass.stores")

Operation = Callable[[Connection], Any]
# Whether it may refuse after it has written something, too.
_Item = tuple[Operation, "asyncio.Future[Any]", bool]


class SqliteWriter:
    """Runs operations in transactions, in the order they came.

    An operation that raises a WindlassError changes nothing and leaves the others of its group alone.
    Any other failure fails the whole group as CommitUnknown.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="windlass-sqlite-writer", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        # What the thread was given and is not done with. Only while it has nothing may the loop use the connection.
        self._given = 0
        # By the monotonic clock.
        self._at_once_after = 0.0
        # Pages that this connection had written when the log was last brought into the database.
        connection.execute("pragma wal_autocheckpoint = 0")
        self._pages_before = self._pages_written()
        self._thread.start()

    def write(self, operation: Operation, *, undo: bool = True, small: bool = False) -> "asyncio.Future[Any]":
        """A future of the operation's result, done once it is durable.

        One that writes nothing before it refuses, or never refuses, needs no `undo`: it spares two statements. One
        that is `small`, and that nobody else waits with, takes less time than telling the thread of it.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closed:
            future.set_exception(CommitUnknown("the store is closed"))
        elif not (small and self._can_write_at_once() and self._write_at_once((operation, future, undo))):
            self._give((operation, future, undo))
        return future

    def _can_write_at_once(self) -> bool:
        """Whether the loop may use the connection, and the last commit was quick."""
        return not self._given and monotonic() >= self._at_once_after

    def _give(self, item: _Item) -> None:
        self._given += 1
        self._items.put(item)

    def _write_at_once(self, item: _Item) -> bool:
        """Commit on the loop; false when another process is writing, for which the thread can wait, or worse."""
        began = monotonic()
        self._connection.set_busy_timeout(0)
        try:
            self._connection.execute("begin immediate")
        except apsw.Error:
            return False
        finally:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        outcome = self._commit([item])[0]
        if monotonic() - began > AT_ONCE_SECONDS_MAX:
            self._at_once_after = monotonic() + SLOW_PAUSE_SECONDS
        _resolve(item[1], outcome)
        if self._is_log_full():
            # The thread sees to it, after it has done nothing else.
            self._give((_nothing, self._loop.create_future(), False))
        return True

    async def close(self) -> None:
        """Commit what was accepted, then end the thread."""
        if not self._closed:
            self._closed = True
            self._items.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while group := self._next_group():
            outcomes = self._transact(group)
            if not self._is_log_full():
                self._on_loop(self._tell, group, outcomes, len(group))
                continue
            # Whoever waits is told first: this takes longer than many commits.
            self._on_loop(self._tell, group, outcomes, 0)
            self._checkpoint()
            self._on_loop(self._tell, [], [], len(group))

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

    def _transact(self, group: list[_Item]) -> list[Any]:
        try:
            self._connection.execute("begin immediate")
        except apsw.Error as error:
            return [_unknown(error)] * len(group)
        return self._commit(group)

    def _commit(self, group: list[_Item]) -> list[Any]:
        """End the transaction that was begun with what the group wants; the outcome of each."""
        connection = self._connection
        outcomes: list[Any] = []
        try:
            for operation, _, undo in group:
                outcomes.append(_attempt(connection, operation, undo=undo and len(group) > 1))
            connection.execute("commit")
        except Exception as error:
            _roll_back(connection)
            return [_unknown(error)] * len(group)
        return outcomes

    def _tell(self, group: list[_Item], outcomes: list[Any], done: int) -> None:
        """On the loop: tell those who wait. The thread is done with so many items, and with the connection."""
        self._given -= done
        for (_, future, _), outcome in zip(group, outcomes, strict=True):
            _resolve(future, outcome)

    def _on_loop(self, function: Callable[..., None], *arguments: object) -> None:
        # A closed loop has nobody left who waits, and the rows are durable.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _pages_written(self) -> int:
        return self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]

    def _is_log_full(self) -> bool:
        return self._pages_written() - self._pages_before >= CHECKPOINT_PAGES

    def _checkpoint(self) -> None:
        """Bring the log into the database, as far as readers allow. Not on the loop: it flushes two files."""
        try:
            self._connection.execute("pragma wal_checkpoint(passive)")
        except apsw.Error as error:
            log.warning("the log could not be brought into the database, which goes on without: %s", error)
        self._pages_before = self._pages_written()


def _nothing(_: Connection) -> None:
    """An operation for one who wants the thread to look after the log."""


def _resolve(future: "asyncio.Future[Any]", outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _unknown(error: Exception) -> CommitUnknown:
    unknown = CommitUnknown(f"SQLite refused a transaction: {error}")
    unknown.__cause__ = error
    return unknown


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
