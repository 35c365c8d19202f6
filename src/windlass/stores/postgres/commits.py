"""Commits on their way to PostgreSQL: those of several shards that are ready at one time go together, in one call.

Each of them is stored whole or not at all, and only under its own shard's epoch. One that is refused fails alone.
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

# Calls that are under way at one time. What becomes ready while one is written goes together afterwards, unless it is
# much already: then it is not worth waiting for more.
UNDERWAY_MAX = 4
MUCH_ROWS = 120
# Commits of one call, and rows of nodes, iterations and events beyond which it takes no further: those of one shard
# must not wait for ever longer ones of others.
GROUP_MAX = 64
GROUP_ROWS_MAX = 2_000


class _Commit(Struct, frozen=True, eq=False):
    """What a shard wants stored, and who waits for it."""

    shard: int
    epoch: int
    changes: Changes
    stored: "asyncio.Future[None]"


class Commits:
    """The commits of one process."""

    def __init__(self, database: PostgresStatements) -> None:
        self._database = database
        self._waiting: deque[_Commit] = deque()
        self._rows_waiting = 0
        self._underway: set[asyncio.Task[None]] = set()
        # Whether one of those underway is still to take its first group: whoever comes now is in it.
        self._is_one_starting = False

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        """Store everything or nothing. StaleLease when the epoch is not the shard's; CommitUnknown on any failure."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Commit(shard, epoch, changes, stored))
        self._rows_waiting += _rows(changes)
        self._start()
        await stored

    def _start(self) -> None:
        if not self._waiting or self._is_one_starting:
            return
        if not self._underway or (len(self._underway) < UNDERWAY_MAX and self._rows_waiting >= MUCH_ROWS):
            self._is_one_starting = True
            task = asyncio.ensure_future(self._write_all())
            self._underway.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._underway.discard(task)
        # One that broke down leaves what waits to the next.
        self._start()

    async def settle(self) -> None:
        """Wait for the commits that were accepted."""
        while self._underway:
            await asyncio.wait(self._underway)

    async def _write_all(self) -> None:
        self._is_one_starting = False
        while group := self._next_group():
            await self._write(group)

    def _next_group(self) -> list[_Commit]:
        group: dict[int, _Commit] = {}
        rows = 0
        while self._waiting and len(group) < GROUP_MAX and rows < GROUP_ROWS_MAX:
            one = self._waiting[0]
            # Of one shard one at a time: the second may be about rows of the first.
            if one.shard in group:
                break
            self._waiting.popleft()
            self._rows_waiting -= _rows(one.changes)
            # Whoever gave up meanwhile rebuilds from the rows: nothing of it may come after that.
            if not one.stored.done():
                group[one.shard] = one
                rows += _rows(one.changes)
        return list(group.values())

    async def _write(self, group: Sequence[_Commit]) -> None:
        try:
            stale = await self._call(group)
            for one in group:
                if one.shard in stale:
                    told = f"shard {one.shard} has a new owner (epoch {stale[one.shard]}, not {one.epoch})"
                    _tell([one], StaleLease(told))
            good = [one for one in group if one.shard not in stale]
            if stale and good:
                await self._write(good)
            _tell(good, None)
        except CommitUnknown as error:
            if len(group) > 1 and was_undone(error):
                # Nothing of it was stored, and only one of them may be to blame.
                for one in group:
                    await self._write([one])
            _tell(group, error)
        except StoreUnavailable as error:
            unknown = CommitUnknown(str(error))
            unknown.__cause__ = error
            _tell(group, unknown)
        finally:
            # Whatever went wrong, nobody is left waiting.
            _tell(group, CommitUnknown("a commit broke down on its way to the database; the log says why"))

    async def _call(self, group: Sequence[_Commit]) -> dict[int, int | None]:
        """Have the server do it: the shards whose epoch is another, and which; if there are any, nothing was stored."""
        shards = [one.shard for one in group]
        epochs = [one.epoch for one in group]
        changes = commit_parameters([one.changes for one in group])
        rows = await self._database.write("commit", shards=shards, epochs=epochs, **changes)
        return {row[0]: row[1] for row in rows}


def _rows(changes: Changes) -> int:
    return len(changes.nodes) + len(changes.iterations) + len(changes.events)


def _tell(group: Sequence[_Commit], failure: Exception | None) -> None:
    """Say how it ended to those who were not told yet."""
    for one in group:
        if one.stored.done():
            continue
        if failure is None:
            one.stored.set_result(None)
        else:
            one.stored.set_exception(failure)
