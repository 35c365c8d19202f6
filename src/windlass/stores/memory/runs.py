"""Runs and deliveries in dictionaries."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from windlass.core.errors import CommitUnknown
from windlass.core.events import Event
from windlass.core.ids import RunId, WorkflowId
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import NO_RUN, RunChanges
from windlass.core.runs.rows import DeliveryRow, RunRow
from windlass.core.runs.states import RUN_FINAL
from windlass.ports.clock import Clock
from windlass.ports.store.runs import DeliveryFilter, RunFilter, RunRequest
from windlass.stores.memory.schedules import MemorySchedules
from windlass.stores.rows import no_delivery, no_run


class MemoryRuns(MemorySchedules):
    """The RunStore contract in the memory of one process."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._runs: dict[str, RunRow] = {}
        self._requests: dict[str, RunRequest] = {}
        self._deliveries: dict[str, DeliveryRow] = {}
        # When the last one was, and how many there were.
        self._heartbeats: dict[int, tuple[int, int]] = {}
        # By workflow and run; the events of schedules have NO_RUN.
        self._events: dict[tuple[WorkflowId, RunId], list[Event]] = {}

    # For the other parts of the store

    def log(self, workflow_id: WorkflowId, run_id: RunId = NO_RUN) -> Sequence[Event]:
        """Return the events of a run or a schedule, for checkers."""
        return self._events.get((workflow_id, run_id), ())

    def check(self, changes: RunChanges) -> None:
        """Raise CommitUnknown for a new run, or an event, that exists."""
        for run_id in changes.inserted:
            if run_id in self._runs:
                raise CommitUnknown(f"run already exists: {run_id}")
        for key, events in changes.events.items():
            log = self.log(*key)
            if log and events[0].seq <= log[-1].seq:
                raise CommitUnknown(f"event already exists: {events[0].seq} of {key}")

    def apply(self, changes: RunChanges) -> None:
        """Store the changes of a commit."""
        self._runs.update(changes.runs)
        for key, events in changes.events.items():
            self._events.setdefault(key, []).extend(events)
        for run_id in changes.withdrawn:
            self._runs.pop(run_id, None)
        self._mark_schedules(changes.schedules.values())
        for request_id in changes.requests:
            self._requests.pop(request_id, None)
        for row in changes.deliveries:
            self._deliveries[row.delivery_id] = row

    def prune(self, finished_before: int, job_ids: Iterable[str]) -> list[str]:
        """Delete runs that ended before an instant and the deliveries of deleted jobs; return the ids of the runs."""
        last: dict[str, tuple[int, str]] = {}
        for row in self._runs.values():
            if row.succeeded is not None:
                at = (row.completed_at or 0, row.run_id)
                last[row.workflow_id] = max(at, last.get(row.workflow_id, at))
        # The last run that counts is kept, however old: the next run may depend on how it ended.
        kept = {run_id for _, run_id in last.values()}
        ended = {
            run_id: row.completed_at
            for run_id, row in self._runs.items()
            if row.completed_at is not None
        }
        old = [
            run_id for run_id, at in ended.items() if at < finished_before and run_id not in kept
        ]
        for run_id in old:
            row = self._runs.pop(run_id)
            self._events.pop((row.workflow_id, run_id), None)
        for (workflow_id, run_id), events in self._events.items():
            if run_id == NO_RUN:
                self._events[workflow_id, run_id] = [
                    event for event in events if event.at >= finished_before
                ]
        deleted = set(job_ids)
        self._deliveries = {
            key: row for key, row in self._deliveries.items() if row.job_id not in deleted
        }
        return old

    def is_job_needed(self, job_id: str) -> bool:
        """Return whether the run of a job has not ended."""
        return any(row.job_id == job_id and row.completed_at is None for row in self._runs.values())

    def is_request_unapplied(self, request_id: str) -> bool:
        """Return whether a request is known and was not applied yet."""
        return request_id in self._requests

    def all_runs(self) -> Sequence[RunRow]:
        """Return all runs, for checkers."""
        return list(self._runs.values())

    # The contract

    async def put_request(self, request: RunRequest) -> None:
        self._requests.setdefault(request.request_id, request)

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        found = (request for request in self._requests.values() if request.shard in shards)
        return sorted(found, key=lambda request: (request.created_at, request.request_id))[:limit]

    async def get(self, run_id: str) -> RunRow:
        row = self._runs.get(run_id)
        if row is None:
            raise no_run(run_id)
        return row

    async def of_job(self, job_id: str) -> RunRow | None:
        found = [row for row in self._runs.values() if row.job_id == job_id]
        return max(found, key=lambda row: (row.created_at, row.run_id), default=None)

    async def list(self, wanted: RunFilter) -> Sequence[RunRow]:
        found = [
            row
            for row in self._runs.values()
            if wanted.workflow_id in (None, row.workflow_id)
            and wanted.state in (None, row.state)
            and (wanted.before is None or (row.scheduled_at, row.run_id) < wanted.before)
        ]
        return sorted(found, key=lambda row: (row.scheduled_at, row.run_id), reverse=True)[
            : wanted.limit
        ]

    async def existing(self, run_ids: Sequence[str]) -> Sequence[str]:
        return [run_id for run_id in run_ids if run_id in self._runs]

    async def of_slots(self, workflow_id: str, slots: Sequence[int]) -> Sequence[RunRow]:
        wanted = set(slots)
        found = (
            row
            for row in self._runs.values()
            if row.workflow_id == workflow_id and row.scheduled_at in wanted
        )
        return sorted(found, key=lambda row: (row.scheduled_at, row.run_id))

    async def unfinished(self, shard: int) -> Sequence[RunRow]:
        found = (
            row for row in self._runs.values() if row.shard == shard and row.state not in RUN_FINAL
        )
        return sorted(found, key=lambda row: (row.scheduled_at, row.run_id))

    async def events(self, run_id: RunId, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        row = self._runs.get(run_id)
        if row is None:
            return []
        return [event for event in self.log(row.workflow_id, run_id) if event.seq > after_seq][
            :limit
        ]

    async def schedule_events(
        self, workflow_id: WorkflowId, after_seq: int = 0, limit: int = 1000
    ) -> Sequence[Event]:
        return [event for event in self.log(workflow_id) if event.seq > after_seq][:limit]

    async def last_successes(self, workflow_ids: Sequence[str]) -> Mapping[str, bool]:
        found: dict[str, bool] = {}
        for row in sorted(self._runs.values(), key=lambda row: (row.completed_at or 0, row.run_id)):
            if row.workflow_id in workflow_ids and row.succeeded is not None:
                found[row.workflow_id] = row.succeeded
        return found

    async def counts(self) -> Mapping[tuple[str, str], int]:
        return Counter((row.workflow_id, row.state.value) for row in self._runs.values())

    async def put_heartbeat(self, shard: int) -> int:
        _, total = self._heartbeats.get(shard, (0, 0))
        self._heartbeats[shard] = (self._clock.now(), total + 1)
        return total + 1

    async def heartbeat_age_seconds(self, shard: int) -> float | None:
        if shard not in self._heartbeats:
            return None
        at, _ = self._heartbeats[shard]
        return max(0, self._clock.now() - at) / MICROSECONDS

    async def heartbeats(self) -> Mapping[int, int]:
        return {shard: total for shard, (_, total) in self._heartbeats.items()}

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        found = [
            row
            for row in self._deliveries.values()
            if wanted.workflow_id in (None, row.workflow_id)
            and wanted.job_id in (None, row.job_id)
            and wanted.outcome in (None, row.outcome)
            and (wanted.before is None or (row.sent_at, row.delivery_id) < wanted.before)
        ]
        return sorted(found, key=lambda row: (row.sent_at, row.delivery_id), reverse=True)[
            : wanted.limit
        ]

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        row = self._deliveries.get(delivery_id)
        if row is None:
            raise no_delivery(delivery_id)
        return row
