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

    async def check(self) -> None:
        """Check once for changes and requests."""
        shards = self._shards()
        await self._find_changes(shards)
        if shards:
            for request in await self._store.runs.requests(list(shards), REQUESTS_MAX):
                await self._broker.send(request.shard, [requested(request)])

    async def _find_changes(self, shards: Mapping[int, Shard]) -> None:
        since = self._clock.wall() - round(OVERLAP_SECONDS * MICROSECONDS)
        after = ""
        while True:
            page = await self._store.runs.changed_schedules(since, SCHEDULES_PAGE, after)
            await self._notify(shards, page)
            if len(page) < SCHEDULES_PAGE:
                break
            after = page[-1].workflow_id

    async def _notify(self, shards: Mapping[int, Shard], rows: Sequence[ScheduleRow]) -> None:
        by_shard: dict[int, list[Message]] = {}
        for row in rows:
            number = shard_of(row.workflow_id, self._total)
            shard = shards.get(number)
            # A notification that is lost is repeated, because the shard does not know the change.
            if shard is not None and not _is_known(shard, row):
                by_shard.setdefault(number, []).append(ScheduleChanged(row.workflow_id))
        for number, messages in by_shard.items():
            await self._broker.send(number, messages)


def _is_known(shard: Shard, row: ScheduleRow) -> bool:
    """Return whether a shard has applied the change of a schedule, or never will."""
    if row.workflow_id in shard.runs.quarantined:
        return True
    workflow = shard.runs.registry.workflows.get(row.workflow_id)
    if workflow is None or workflow.schedule is None:
        return row.is_gone
    if row.is_gone:
        return workflow.schedule.is_gone
    return _mark(workflow.schedule) == _mark(row)


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
