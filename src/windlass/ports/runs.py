"""The contract for schedules, runs and deliveries: what is stored of them, and what may be asked of them.

A store has these queries as `store.runs`, the engine what may be asked as `control.runs`. Starting a run now is a plain
submit: the job of a workflow with a schedule or constraints is a run by itself.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow


class ScheduleFilter(Struct, frozen=True):
    """Which schedules a list shows, by workflow id."""

    after: str | None = None
    limit: int = 50


class RunFilter(Struct, frozen=True):
    """Which runs a list shows, newest slot first."""

    workflow_id: str | None = None
    state: str | None = None
    # Runs before this one (by scheduled_at, then id): the cursor.
    before: tuple[int, str] | None = None
    limit: int = 50


class DeliveryFilter(Struct, frozen=True):
    """Which deliveries a list shows, newest first."""

    workflow_id: str | None = None
    job_id: str | None = None
    outcome: str | None = None
    # Deliveries before this one (by sent_at, then id): the cursor.
    before: tuple[int, str] | None = None
    limit: int = 50


class RunRequest(Struct, frozen=True):
    """Something asked of a run or a schedule, durable before it is acknowledged: cancel, backfill."""

    request_id: str
    workflow_id: str
    shard: int
    kind: str
    created_at: int
    run_id: str | None = None
    reason: str | None = None
    # Of a backfill: the slots after one moment and up to another.
    since: int | None = None
    until: int | None = None


class _Head(Struct, frozen=True):
    schedule: dict[str, object] | None = None


def has_schedule(definition: Raw) -> bool:
    """Whether a stored definition says when its workflow starts by itself."""
    try:
        return msgspec.json.decode(bytes(definition), type=_Head).schedule is not None
    except msgspec.DecodeError:
        return False


class RunStore(Protocol):
    """What every database keeps of schedules, runs and deliveries. Only the owner of a shard writes its runs."""

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        """A page of the schedules there are, by workflow id."""
        ...

    async def schedule(self, workflow_id: str) -> ScheduleRow:
        """The schedule of a workflow; ScheduleNotFound."""
        ...

    async def changed_schedules(self, since: int, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        """Schedules that were deployed, deleted, paused or resumed at or after an instant, by workflow id, those that
        are gone too."""
        ...

    async def pause(self, workflow_id: str, *, paused: bool, now: int) -> ScheduleRow:
        """Stop a schedule from starting runs, or let it go on with the slots after now; ScheduleNotFound."""
        ...

    async def request(self, request: RunRequest) -> None:
        """Store something asked; `Store.unapplied` tells whether it was applied."""
        ...

    async def requests(self, shards: Sequence[int], limit: int) -> Sequence[RunRequest]:
        """What was asked of these shards and not yet applied, oldest first."""
        ...

    async def run(self, run_id: str) -> RunRow:
        """One run; RunNotFound."""
        ...

    async def run_of_job(self, job_id: str) -> RunRow | None:
        """The newest run around a job, if it has one."""
        ...

    async def runs(self, wanted: RunFilter) -> Sequence[RunRow]:
        """A page of runs, newest slot first."""
        ...

    async def known_runs(self, run_ids: Sequence[str]) -> Sequence[str]:
        """Those of the ids that are runs."""
        ...

    async def active_runs(self, shard: int) -> Sequence[RunRow]:
        """The runs of a shard that have not ended, oldest slot first."""
        ...

    async def last_successes(self, workflow_ids: Sequence[str]) -> Mapping[str, bool]:
        """Of each workflow that had a run whether the last one did well, those left out that were skipped or never
        began."""
        ...

    async def run_counts(self) -> Mapping[tuple[str, str], int]:
        """How many runs there are, by workflow and state."""
        ...

    async def beat_runs(self, shard: int) -> None:
        """Say that the runs of a shard are served, at this moment of the database's clock."""
        ...

    async def runs_silent_seconds(self, shard: int) -> float | None:
        """For how long nobody said so; None when nobody ever did."""
        ...

    async def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRow]:
        """A page of deliveries, newest first."""
        ...

    async def delivery(self, delivery_id: str) -> DeliveryRow:
        """One delivery; DeliveryNotFound."""
        ...


class RunControl(Protocol):
    """What may be asked of schedules and runs; durable once it returns."""

    async def pause(self, workflow_id: str) -> ScheduleRow:
        """Let a schedule start no further runs; those under way go on. ScheduleNotFound."""
        ...

    async def resume(self, workflow_id: str) -> ScheduleRow:
        """Let a schedule go on with the next slot; what fell into the pause is not made up for. ScheduleNotFound."""
        ...

    async def backfill(self, workflow_id: str, since: int, until: int) -> Sequence[int]:
        """Run the slots after one instant and up to another that have no run yet, oldest first; which slots those of
        the schedule are. ScheduleNotFound, RequestRefused (too many, or not in the past)."""
        ...

    async def unfilled(self, workflow_id: str, since: int, until: int) -> Sequence[int]:
        """The slots that a backfill would run at this moment, oldest first; nothing is run. As `backfill`."""
        ...

    async def cancel(self, run_id: str, reason: str | None = None) -> None:
        """Stop a run and its job; one that has ended stays as it is. RunNotFound."""
        ...

    async def redeliver(self, delivery_id: str) -> str:
        """Make a delivery once more, as a job of its own; that job's id. DeliveryNotFound."""
        ...
