"""The contract for schedules, runs and deliveries.

Starting a run now is an ordinary submit: the job of a workflow with a schedule or constraints is a run.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from windlass.core.events import Event
from windlass.core.ids import JobId, RunId, WorkflowId
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow


class ScheduleFilter(Struct, frozen=True):
    """A page of a list of schedules, ordered by workflow id."""

    after: str | None = None
    limit: int = 50


class RunFilter(Struct, frozen=True):
    """A page of a list of runs, newest slot first."""

    workflow_id: WorkflowId | None = None
    state: str | None = None
    # The cursor: only runs before this one (by scheduled_at, then id).
    before: tuple[int, str] | None = None
    limit: int = 50


class DeliveryFilter(Struct, frozen=True):
    """A page of a list of deliveries, newest first."""

    workflow_id: WorkflowId | None = None
    job_id: JobId | None = None
    outcome: str | None = None
    # The cursor: only deliveries before this one (by sent_at, then id).
    before: tuple[int, str] | None = None
    limit: int = 50


class RunRequest(Struct, frozen=True):
    """A request about a run or a schedule (cancel, backfill), stored before it is acknowledged."""

    request_id: str
    workflow_id: WorkflowId
    shard: int
    kind: str
    created_at: int
    run_id: RunId | None = None
    reason: str | None = None
    # Of a backfill: the slots after `since` and up to `until`.
    since: int | None = None
    until: int | None = None


class _Head(Struct, frozen=True):
    schedule: dict[str, object] | None = None


def has_schedule(definition: Raw) -> bool:
    """Return whether a stored definition has a schedule."""
    try:
        return msgspec.json.decode(bytes(definition), type=_Head).schedule is not None
    except msgspec.DecodeError:
        return False


class RunStore(Protocol):
    """Stores schedules, runs and deliveries. Runs and deliveries are written by `Store.commit` only."""

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        """Return a page of schedules, ordered by workflow id."""
        ...

    async def schedule(self, workflow_id: WorkflowId) -> ScheduleRow:
        """Return the schedule of a workflow; ScheduleNotFound."""
        ...

    async def changed_schedules(
        self, since: int, limit: int, after: str = ""
    ) -> Sequence[ScheduleRow]:
        """Return schedules that were deployed, removed, paused or resumed at or after an instant, by workflow id.

        Removed schedules are included.
        """
        ...

    async def pause_schedule(
        self, workflow_id: WorkflowId, *, paused: bool, now: int
    ) -> ScheduleRow:
        """Pause a schedule, or resume it with the slots after `now`; ScheduleNotFound."""
        ...

    async def get(self, run_id: RunId) -> RunRow:
        """Return one run; RunNotFound."""
        ...

    async def of_job(self, job_id: JobId) -> RunRow | None:
        """Return the newest run of a job, if there is one."""
        ...

    async def list(self, wanted: RunFilter) -> Sequence[RunRow]:
        """Return a page of runs, newest slot first."""
        ...

    async def existing(self, run_ids: Sequence[RunId]) -> Sequence[RunId]:
        """Return those of the ids for which there is a run."""
        ...

    async def of_slots(self, workflow_id: WorkflowId, slots: Sequence[int]) -> Sequence[RunRow]:
        """Return the runs of a workflow that are scheduled for these instants, oldest first."""
        ...

    async def unfinished(self, shard: int) -> Sequence[RunRow]:
        """Return the runs of a shard that have not ended, oldest slot first."""
        ...

    async def events(self, run_id: RunId, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Return the events of a run after a sequence number, in order; none for an unknown run."""
        ...

    async def schedule_events(
        self, workflow_id: WorkflowId, after_seq: int = 0, limit: int = 1000
    ) -> Sequence[Event]:
        """Return the events of a workflow's schedule after a sequence number, in order."""
        ...

    async def last_successes(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, bool]:
        """Return whether the last run of each workflow succeeded, without skipped runs and runs that never started."""
        ...

    async def counts(self) -> Mapping[tuple[str, str], int]:
        """Count the runs by workflow and state."""
        ...

    async def put_request(self, request: RunRequest) -> None:
        """Store a request; `JobStore.unapplied_requests` shows whether it was applied."""
        ...

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        """Return requests of these shards that were not applied yet, oldest first."""
        ...

    async def put_heartbeat(self, shard: int) -> int:
        """Record that an engine serves the runs of a shard, by the database's clock; return how often it did."""
        ...

    async def heartbeats(self) -> Mapping[int, int]:
        """Return the number of heartbeats of each shard that ever had one."""
        ...

    async def heartbeat_age_seconds(self, shard: int) -> float | None:
        """Return the time since the last heartbeat of a shard's runs; None when there was none."""
        ...

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        """Return one delivery; DeliveryNotFound."""
        ...

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        """Return a page of deliveries, newest first."""
        ...
