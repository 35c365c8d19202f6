"""Schedules, runs and deliveries in plain dictionaries: the part of the memory store that tells of them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Raw, structs

from windlass.core.errors import CommitUnknown, DeliveryNotFound, RunNotFound, ScheduleNotFound
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunChanges
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow
from windlass.core.runs.states import RUN_FINAL
from windlass.ports.clock import Clock
from windlass.ports.runs import DeliveryFilter, RunFilter, RunRequest, ScheduleFilter, has_schedule


class MemoryRuns:
    """The RunStore contract in the memory of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._schedules: dict[str, ScheduleRow] = {}
        self._runs: dict[str, RunRow] = {}
        self._requests: dict[str, RunRequest] = {}
        self._deliveries: dict[str, DeliveryRow] = {}
        self._beats: dict[int, int] = {}
        # Events of runs, and of schedules.
        self._events: dict[str, list[Event]] = {}

    # What the store calls

    def deploy(self, workflow_id: str, version: int, definition: Raw, now: int) -> None:
        """A new version was stored."""
        known = self._schedules.get(workflow_id)
        if has_schedule(definition):
            fresh = ScheduleRow(workflow_id, version, is_paused=False, slot_at=now, created_at=now, changed_at=now)
            self._schedules[workflow_id] = fresh if known is None else structs.replace(
                known, version=version, changed_at=now, is_gone=False, slot_at=now if known.is_gone else known.slot_at
            )  # fmt: skip
        elif known is not None:
            self._schedules[workflow_id] = structs.replace(known, version=version, changed_at=now, is_gone=True)

    def delete(self, workflow_id: str, now: int) -> None:
        """A workflow was deleted."""
        known = self._schedules.get(workflow_id)
        if known is not None:
            self._schedules[workflow_id] = structs.replace(known, changed_at=now, is_gone=True)

    def log(self, key: str) -> list[Event]:
        """The events of a run, or of a schedule."""
        return self._events.setdefault(key, [])

    def check(self, changes: RunChanges) -> None:
        """CommitUnknown for what a database would refuse."""
        for run_id in changes.fresh:
            if run_id in self._runs:
                raise CommitUnknown(f"there is a run {run_id} already")

    def apply(self, changes: RunChanges) -> None:
        """Store what a commit says."""
        self._runs.update(changes.runs)
        for run_id in changes.withdrawn:
            self._runs.pop(run_id, None)
        for mark in changes.schedules.values():
            known = self._schedules[mark.workflow_id]
            self._schedules[mark.workflow_id] = structs.replace(
                known, slot_at=max(known.slot_at, mark.slot_at), seq=max(known.seq, mark.seq)
            )
        for request_id in changes.requests:
            self._requests.pop(request_id, None)
        for row in changes.deliveries:
            self._deliveries[row.delivery_id] = row

    def prune(self, finished_before: int, job_ids: Iterable[str]) -> list[str]:
        """Remove runs that ended before an instant, and deliveries of jobs that are gone; which runs."""
        last: dict[str, tuple[int, str]] = {}
        for row in self._runs.values():
            if row.succeeded is not None:
                at = (row.completed_at or 0, row.run_id)
                last[row.workflow_id] = max(at, last.get(row.workflow_id, at))
        # The last run that counts stays, however old: the next one may ask how it ended.
        kept = {run_id for _, run_id in last.values()}
        ended = {run_id: row.completed_at for run_id, row in self._runs.items() if row.completed_at is not None}
        old = [run_id for run_id, at in ended.items() if at < finished_before and run_id not in kept]
        for run_id in old:
            del self._runs[run_id]
            self._events.pop(run_id, None)
        gone = set(job_ids)
        self._deliveries = {key: row for key, row in self._deliveries.items() if row.job_id not in gone}
        return old

    def is_job_needed(self, job_id: str) -> bool:
        """Whether the run of a job has not ended."""
        return any(row.job_id == job_id and row.completed_at is None for row in self._runs.values())

    def is_waiting(self, request_id: str) -> bool:
        """Whether something asked was not applied yet."""
        return request_id in self._requests

    def all_runs(self) -> Sequence[RunRow]:
        """Every run there is: what checkers read."""
        return list(self._runs.values())

    # The contract

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        found = (row for row in self._schedules.values() if not row.is_gone and row.workflow_id > (wanted.after or ""))
        return sorted(found, key=lambda row: row.workflow_id)[: wanted.limit]

    async def schedule(self, workflow_id: str) -> ScheduleRow:
        row = self._schedules.get(workflow_id)
        if row is None or row.is_gone:
            raise ScheduleNotFound(f"workflow {workflow_id} has no schedule; deploy a version that has one")
        return row

    async def changed_schedules(self, since: int, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        found = (row for row in self._schedules.values() if row.changed_at >= since and row.workflow_id > after)
        return sorted(found, key=lambda row: row.workflow_id)[:limit]

    async def pause(self, workflow_id: str, *, paused: bool, now: int) -> ScheduleRow:
        row = await self.schedule(workflow_id)
        if row.is_paused == paused:
            return row
        slot_at = row.slot_at if paused else max(row.slot_at, now)
        self._schedules[workflow_id] = structs.replace(row, is_paused=paused, changed_at=now, slot_at=slot_at)
        return self._schedules[workflow_id]

    async def request(self, request: RunRequest) -> None:
        self._requests.setdefault(request.request_id, request)

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        found = (request for request in self._requests.values() if request.shard in shards)
        return sorted(found, key=lambda request: (request.created_at, request.request_id))[:limit]

    async def run(self, run_id: str) -> RunRow:
        row = self._runs.get(run_id)
        if row is None:
            raise RunNotFound(f"there is no run {run_id}; `windlass runs list` shows the runs of this database")
        return row

    async def run_of_job(self, job_id: str) -> RunRow | None:
        found = [row for row in self._runs.values() if row.job_id == job_id]
        return max(found, key=lambda row: (row.created_at, row.run_id), default=None)

    async def runs(self, wanted: RunFilter) -> Sequence[RunRow]:
        found = [
            row
            for row in self._runs.values()
            if wanted.workflow_id in (None, row.workflow_id)
            and wanted.state in (None, row.state)
            and (wanted.before is None or (row.scheduled_at, row.run_id) < wanted.before)
        ]
        return sorted(found, key=lambda row: (row.scheduled_at, row.run_id), reverse=True)[: wanted.limit]

    async def known_runs(self, run_ids: Sequence[str]) -> Sequence[str]:
        return [run_id for run_id in run_ids if run_id in self._runs]

    async def active_runs(self, shard: int) -> Sequence[RunRow]:
        found = (row for row in self._runs.values() if row.shard == shard and row.state not in RUN_FINAL)
        return sorted(found, key=lambda row: (row.scheduled_at, row.run_id))

    async def last_successes(self, workflow_ids: Sequence[str]) -> Mapping[str, bool]:
        found: dict[str, bool] = {}
        for row in sorted(self._runs.values(), key=lambda row: (row.completed_at or 0, row.run_id)):
            if row.workflow_id in workflow_ids and row.succeeded is not None:
                found[row.workflow_id] = row.succeeded
        return found

    async def run_counts(self) -> Mapping[tuple[str, str], int]:
        return Counter((row.workflow_id, row.state.value) for row in self._runs.values())

    async def beat_runs(self, shard: int) -> None:
        self._beats[shard] = self._clock.now()

    async def runs_silent_seconds(self, shard: int) -> float | None:
        at = self._beats.get(shard)
        return None if at is None else max(0, self._clock.now() - at) / MICROSECONDS

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        found = [
            row
            for row in self._deliveries.values()
            if wanted.workflow_id in (None, row.workflow_id)
            and wanted.job_id in (None, row.job_id)
            and wanted.outcome in (None, row.outcome)
            and (wanted.before is None or (row.sent_at, row.delivery_id) < wanted.before)
        ]
        return sorted(found, key=lambda row: (row.sent_at, row.delivery_id), reverse=True)[: wanted.limit]

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        row = self._deliveries.get(delivery_id)
        if row is None:
            raise DeliveryNotFound(f"there is no delivery {delivery_id}; `windlass deliveries list` shows those kept")
        return row
