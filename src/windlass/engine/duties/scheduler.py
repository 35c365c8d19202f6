"""Notifies the shards of this engine of changed schedules and of requests about runs that were not applied yet."""

from collections.abc import Callable, Mapping, Sequence

from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Message
from windlass.core.runs.messages import RunRequested, ScheduleChanged
from windlass.core.runs.rows import ScheduleRow
from windlass.core.shards import shard_of
from windlass.engine.shard import Shard
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.store import Store
from windlass.ports.store.runs import RunRequest

CHECK_SECONDS = 1.0
# How far back changes are read: the clocks of other processes may differ from this one's.
OVERLAP_SECONDS = 600.0
SCHEDULES_PAGE = 1_000
REQUESTS_MAX = 1_000


class Scheduler:
    """Checks for all shards of an engine at once. A shard reads its schedules itself when it is taken over."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        clock: Clock,
        total: int,
        shards: Callable[[], Mapping[int, Shard]],
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._total = total
        self._shards = shards
        # The changes seen in the time range that each check reads again.
        self._seen: dict[str, tuple[int, int, bool, bool]] = {}

    async def check(self) -> None:
        """Check once for changes and requests."""
        shards = self._shards()
        await self._find_changes(shards)
        if shards:
            for request in await self._store.runs.requests(list(shards), REQUESTS_MAX):
                await self._broker.send(request.shard, [requested(request)])

    async def _find_changes(self, shards: Mapping[int, Shard]) -> None:
        since = self._clock.now() - round(OVERLAP_SECONDS * MICROSECONDS)
        seen: dict[str, tuple[int, int, bool, bool]] = {}
        after = ""
        while True:
            page = await self._store.runs.changed_schedules(since, SCHEDULES_PAGE, after)
            for row in page:
                seen[row.workflow_id] = _mark(row)
            await self._notify(
                shards, [row for row in page if self._seen.get(row.workflow_id) != _mark(row)]
            )
            if len(page) < SCHEDULES_PAGE:
                break
            after = page[-1].workflow_id
        self._seen = seen

    async def _notify(self, shards: Mapping[int, Shard], rows: Sequence[ScheduleRow]) -> None:
        by_shard: dict[int, list[Message]] = {}
        for row in rows:
            shard = shard_of(row.workflow_id, self._total)
            if shard in shards:
                by_shard.setdefault(shard, []).append(ScheduleChanged(row.workflow_id))
        for shard, messages in by_shard.items():
            await self._broker.send(shard, messages)


def _mark(row: ScheduleRow) -> tuple[int, int, bool, bool]:
    return (row.version, row.changed_at, row.is_paused, row.is_gone)


def requested(request: RunRequest) -> RunRequested:
    """Return the message about a stored request."""
    return RunRequested(
        workflow_id=request.workflow_id,
        request_id=request.request_id,
        kind=request.kind,
        run_id=request.run_id,
        reason=request.reason,
        since=request.since,
        until=request.until,
    )
