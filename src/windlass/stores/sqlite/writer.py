"""Writes to SQLite: waiting operations share a transaction on a thread, small single ones run on the loop (ADR 17)."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import apsw

from windlass.core.errors import CommitUnknown, StoreUnusable, WindlassError
from windlass.stores.sqlite.connection import (
    BUSY_TIMEOUT_MS,
    CHECKPOINT_PAGES,
    UNUSABLE,
    Connection,
    unusable,
)
from windlass.stores.sqlite.file_identity import FileIdentity

# The most operations in one transaction.
GROUP_MAX = 256
# After a commit on the event loop that took longer than this, all commits run on the thread for a while.
INLINE_SECONDS_MAX = 0.003
INLINE_PAUSE_SECONDS = 10.0

log = logging.getLogger("windlass.stores")

Operation = Callable[[Connection], Any]
# The last one: whether the operation may raise after it has written something.
_Item = tuple[Operation, "asyncio.Future[Any]", bool]


class SqliteWriter:
    """Runs operations in transactions, in the order of the calls.

    An operation that raises a WindlassError changes nothing and does not affect the others of its group. Any other
    failure fails the whole group: as StoreUnusable if no retry helps, otherwise as CommitUnknown. Not a Batcher: groups
    form on a thread, while the one before is written.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        # The log exists from here on: the connection has written to it, or opened it.
        self.files = FileIdentity(path)
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, name="windlass-sqlite-writer", daemon=True
        )
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._is_rescuing = False
        # Items of the thread that are not done. The loop may use the connection only while there are none.
        self._queued = 0
        # By the monotonic clock.
        self._inline_after = 0.0
        # Pages that this connection had written at the last checkpoint.
        connection.execute("pragma wal_autocheckpoint = 0")
        self._pages_before = self._pages_written()
        self._thread.start()

    def write(
        self, operation: Operation, *, undo: bool = True, small: bool = False
    ) -> "asyncio.Future[Any]":
        """Return a future of the operation's result, which is done once the result is durable.

        An operation that never raises after it has written needs no `undo`, which is two statements. One that is
        `small` runs on the event loop if no other waits.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closed:
            future.set_exception(CommitUnknown("the store is closed"))
        elif self.files.has_changed and (refusal := self._refusal()) is not None:
            future.set_exception(refusal)
        elif not (
            small and self._can_write_inline() and self._write_inline((operation, future, undo))
        ):
            self._enqueue((operation, future, undo))
        return future

    def _can_write_inline(self) -> bool:
        """Return whether the loop may use the connection, and recent commits were quick."""
        return not self._queued and monotonic() >= self._inline_after

    def _enqueue(self, item: _Item) -> None:
        self._queued += 1
        self._items.put(item)

    def _write_inline(self, item: _Item) -> bool:
        """Commit on the loop; return false if no transaction could start, for example while another process writes."""
        began = monotonic()
        self._connection.set_busy_timeout(0)
        try:
            self._connection.execute("begin immediate")
        except apsw.Error:
            return False
        finally:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        outcome = self._commit([item])[0]
        if monotonic() - began > INLINE_SECONDS_MAX:
            self._inline_after = monotonic() + INLINE_PAUSE_SECONDS
        _resolve(item[1], outcome)
        if self._is_log_full():
            # The thread makes the checkpoint after this operation.
            self._enqueue((_do_nothing, self._loop.create_future(), False))
        return True

    async def close(self) -> None:
        """Commit accepted operations, then end the thread."""
        if not self._closed:
            self._closed = True
            self._items.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while group := self._next_group():
            outcomes = self._transact(group)
            if not self._is_log_full():
                self._on_loop(self._on_done, group, outcomes, len(group))
                continue
            # Callers get their results before the checkpoint, which flushes two files.
            self._on_loop(self._on_done, group, outcomes, 0)
            self._checkpoint()
            self._on_loop(self._on_done, [], [], len(group))

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
            return [self._failure(error)] * len(group)
        return self._commit(group)

    def _commit(self, group: list[_Item]) -> list[Any]:
        """Run the operations of a group in the open transaction, commit it, and return their outcomes."""
        connection = self._connection
        outcomes: list[Any] = []
        try:
            for operation, _, undo in group:
                outcomes.append(_attempt(connection, operation, undo=undo and len(group) > 1))
            connection.execute("commit")
            # After the commit: nothing is acknowledged that is not in the files that the next process opens.
            self.files.check()
        except Exception as error:
            _roll_back(connection)
            if isinstance(error, StoreUnusable):
                self._rescue()
            return [self._failure(error)] * len(group)
        return outcomes

    def check_files(self) -> None:
        """Raise StoreUnusable if the files of the database were deleted or replaced. On the loop."""
        try:
            self.files.check_all()
        except StoreUnusable:
            if not self._is_rescuing and not self._closed:
                self._is_rescuing = True
                rescued: asyncio.Future[None] = self._loop.create_future()
                # It fails, which no caller waits for.
                rescued.add_done_callback(lambda future: future.exception())
                self._enqueue((self._rescue_later, rescued, False))
            raise

    def _refusal(self) -> StoreUnusable | None:
        """Return why nothing may be written; None if the files are back."""
        try:
            self.check_files()
        except StoreUnusable as error:
            return error
        return None

    def _rescue_later(self, _: Connection) -> None:
        """Fail: `_commit` then copies the log, outside the transaction."""
        self.files.check_all()

    def _rescue(self) -> None:
        """Copy the log into the database if only the log was deleted: the next process then has everything."""
        if self.files.is_log_gone():
            self._checkpoint()

    def _failure(self, error: Exception) -> WindlassError:
        """Return what a failed transaction raises."""
        failure: WindlassError
        if isinstance(error, StoreUnusable):
            return error
        if isinstance(error, UNUSABLE):
            failure = unusable(self._path, error)
        else:
            failure = CommitUnknown(f"SQLite rejected a transaction: {error}")
        failure.__cause__ = error
        return failure

    def _on_done(self, group: list[_Item], outcomes: list[Any], done: int) -> None:
        """Resolve the futures of a group, on the loop. The thread is finished with `done` items."""
        self._queued -= done
        for (_, future, _), outcome in zip(group, outcomes, strict=True):
            _resolve(future, outcome)

    def _on_loop(self, function: Callable[..., None], *arguments: object) -> None:
        # A closed loop has no callers, and the rows are durable.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _pages_written(self) -> int:
        return self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]

    def _is_log_full(self) -> bool:
        return self._pages_written() - self._pages_before >= CHECKPOINT_PAGES

    def _checkpoint(self) -> None:
        """Copy the write-ahead log to the database, as far as readers allow. Not on the loop: it flushes two files."""
        try:
            self._connection.execute("pragma wal_checkpoint(passive)")
        except apsw.Error as error:
            log.warning(
                "checkpoint of the write-ahead log failed; the log grows until the next one: %s",
                error,
            )
        self._pages_before = self._pages_written()


def _do_nothing(_: Connection) -> None:
    """Do nothing. After any operation the thread makes a checkpoint if one is due."""


def _resolve(future: "asyncio.Future[Any]", outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _attempt(connection: Connection, operation: Operation, *, undo: bool) -> Any:
    """Return the result of an operation or its WindlassError, which undoes only this operation."""
    if undo:
        connection.execute("savepoint operation")
    try:
        outcome = operation(connection)
    except StoreUnusable:
        raise
    except WindlassError as error:
        # Without a savepoint the operation must not have written before it raised: the transaction is committed.
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
        # The connection itself is broken, for example by a lost disk. The next transaction fails, too.
        return
