"""Commits to PostgreSQL. Those of several shards that are ready at the same time are sent in one call.

Each of them is stored as a whole or not at all, under its own shard's epoch. If the server rejects one, only that one
fails.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from windlass.core.changes import Changes
from windlass.core.errors import CommitUnknown, StaleLease, StoreUnavailable
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.parameters import commit_parameters
from windlass.stores.postgres.pool import was_undone

# Calls at the same time. Commits that become ready during a call wait for it and are then sent together, unless they
# have this many rows already: then another call starts.
IN_FLIGHT_MAX = 4
ROWS_PER_CALL_MIN = 120
# The most commits in one call, and the number of rows from which on no further commit is added: a shard must not wait
# for the large commits of others.
GROUP_MAX = 64
GROUP_ROWS_MAX = 2_000


class _Commit(Struct, frozen=True, eq=False):
    """The changes of a shard, and the future of their caller."""

    shard: int
    epoch: int
    changes: Changes
    stored: "asyncio.Future[None]"


class Commits:
    """Sends the commits of one process.

    Not a Batcher: which commits share a call depends on their shards and their rows, and a rejected call is repeated
    for each of them.
    """

    def __init__(self, database: PostgresStatements) -> None:
        self._database = database
        self._waiting: deque[_Commit] = deque()
        self._rows_waiting = 0
        self._in_flight: set[asyncio.Task[None]] = set()
        # Whether a task was created that has not yet taken its first group, which later commits can still join.
        self._is_starting = False

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        """Store everything or nothing. StaleLease when the epoch is not the shard's; CommitUnknown on any failure."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Commit(shard, epoch, changes, stored))
        self._rows_waiting += _row_count(changes)
        self._start()
        await stored

    def _start(self) -> None:
        if not self._waiting or self._is_starting:
            return
        has_place = len(self._in_flight) < IN_FLIGHT_MAX and self._rows_waiting >= ROWS_PER_CALL_MIN
        if has_place or not self._in_flight:
            self._is_starting = True
            task = asyncio.ensure_future(self._store_waiting())
            self._in_flight.add(task)
            task.add_done_callback(self._on_end)

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        # A task that failed leaves waiting commits to the next one.
        self._start()

    async def wait_all(self) -> None:
        """Wait for all commits that were accepted."""
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    async def _store_waiting(self) -> None:
        self._is_starting = False
        while group := self._next_group():
            await self._store(group)

    def _next_group(self) -> list[_Commit]:
        group: dict[int, _Commit] = {}
        row_count = 0
        while self._waiting and len(group) < GROUP_MAX and row_count < GROUP_ROWS_MAX:
            commit = self._waiting[0]
            # One commit per shard: the second may change rows of the first.
            if commit.shard in group:
                break
            self._waiting.popleft()
            self._rows_waiting -= _row_count(commit.changes)
            # A cancelled caller reloads from the database; its changes must not be stored after that.
            if not commit.stored.done():
                group[commit.shard] = commit
                row_count += _row_count(commit.changes)
        return list(group.values())

    async def _store(self, group: Sequence[_Commit]) -> None:
        try:
            stale = await self._call(group)
            for commit in group:
                if commit.shard in stale:
                    newest = stale[commit.shard]
                    error = (
                        f"shard {commit.shard} has a new owner: epoch {newest}, not {commit.epoch}"
                    )
                    _fail([commit], StaleLease(error))
            others = [commit for commit in group if commit.shard not in stale]
            if stale and others:
                await self._store(others)
            _succeed(others)
        except CommitUnknown as error:
            if len(group) > 1 and was_undone(error):
                # Nothing was stored, and perhaps only one of them is the cause.
                for commit in group:
                    await self._store([commit])
            _fail(group, error)
        except StoreUnavailable as error:
            unknown = CommitUnknown(str(error))
            unknown.__cause__ = error
            _fail(group, unknown)
        finally:
            # No caller waits forever, whatever the failure.
            _fail(group, CommitUnknown("the commit failed; the log has the error"))

    async def _call(self, group: Sequence[_Commit]) -> dict[int, int | None]:
        """Return the shards that have another epoch, with that epoch. If there are any, nothing was stored."""
        shards = [commit.shard for commit in group]
        epochs = [commit.epoch for commit in group]
        changes = commit_parameters([commit.changes for commit in group])
        rows = await self._database.write("commit", shards=shards, epochs=epochs, **changes)
        return {row[0]: row[1] for row in rows}


def _row_count(changes: Changes) -> int:
    return len(changes.nodes) + len(changes.iterations) + len(changes.events)


def _succeed(group: Sequence[_Commit]) -> None:
    for commit in group:
        if not commit.stored.done():
            commit.stored.set_result(None)


def _fail(group: Sequence[_Commit], error: Exception) -> None:
    """Fail the commits that have no outcome yet."""
    for commit in group:
        if not commit.stored.done():
            commit.stored.set_exception(error)
