"""Tells the shards of this engine what changed in schedules, and what was asked of runs and not yet applied."""

from collections.abc import Callable, Mapping, Sequence

from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Message
from windlass.core.runs.messages import RunAsked, ScheduleChanged
from windlass.core.runs.rows import ScheduleRow
from windlass.core.shards import shard_of_workflow
from windlass.engine.shard import Shard
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.store import Store
from windlass.ports.store.runs import RunRequest

LOOK_SECONDS = 1.0
# How far back a look goes: clocks of those who deploy and pause may differ from this one's.
OVERLAP_SECONDS = 600.0
SCHEDULES_PAGE = 1_000
REQUESTS_MAX = 1_000


class Scheduler:
    """Looks for all shards of an engine at once. Shards find their schedules by themselves when they are taken."""

    def __init__(
        self, store: Store, broker: Broker, clock: Clock, total: int, shards: Callable[[], Mapping[int, Shard]]
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._total = total
        self._shards = shards
        # What was seen in the stretch that is looked at again and again.
        self._seen: dict[str, tuple[int, int, bool, bool]] = {}

    async def look(self) -> None:
        """One look."""
        shards = self._shards()
        await self._find_changes(shards)
        if shards:
            for request in await self._store.runs.requests(list(shards), REQUESTS_MAX):
                await self._broker.send(request.shard, [asked(request)])

    async def _find_changes(self, shards: Mapping[int, Shard]) -> None:
        since = self._clock.now() - round(OVERLAP_SECONDS * MICROSECONDS)
        seen: dict[str, tuple[int, int, bool, bool]] = {}
        after = ""
        while True:
            page = await self._store.runs.changed_schedules(since, SCHEDULES_PAGE, after)
            for row in page:
                seen[row.workflow_id] = _mark(row)
            await self._tell(shards, [row for row in page if self._seen.get(row.workflow_id) != _mark(row)])
            if len(page) < SCHEDULES_PAGE:
                break
            after = page[-1].workflow_id
        self._seen = seen

    async def _tell(self, shards: Mapping[int, Shard], rows: Sequence[ScheduleRow]) -> None:
        told: dict[int, list[Message]] = {}
        for row in rows:
            shard = shard_of_workflow(row.workflow_id, self._total)
            if shard in shards:
                told.setdefault(shard, []).append(ScheduleChanged(f"{row.workflow_id}:"))
        for shard, messages in told.items():
            await self._broker.send(shard, messages)


def _mark(row: ScheduleRow) -> tuple[int, int, bool, bool]:
    return (row.version, row.changed_at, row.is_paused, row.is_gone)


def asked(request: RunRequest) -> RunAsked:
    """What a shard is told of a request."""
    subject = request.run_id or f"{request.workflow_id}:"
    return RunAsked(subject, request.request_id, request.kind, request.reason, request.since, request.until)
