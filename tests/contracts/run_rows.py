"""Runs, schedules and deliveries built by hand for tests of stores."""

from collections.abc import Mapping, Sequence

from msgspec import Raw

from tests.contracts.rows import T0
from windlass.core.changes import Changes
from windlass.core.events import Event
from windlass.core.jobs import JobSpec
from windlass.core.runs.changes import ScheduleMark
from windlass.core.runs.rows import (
    DeliveryRow,
    RunDetail,
    RunMetrics,
    RunRow,
    Transition,
    Violation,
)
from windlass.core.runs.states import RunState
from windlass.ports.store import Store

SCHEDULED = Raw(b'{"workflow_id":"flow","nodes":[],"schedule":{"cron":"* * * * *"}}')
PLAIN = Raw(b'{"workflow_id":"flow","nodes":[]}')


def run_row(run_id: str, state: str = "running", *, workflow_id: str = "flow", shard: int = 0, scheduled_at: int = T0,
            completed_at: int | None = None, job_id: str | None = None,
            succeeded: bool | None = None) -> RunRow:  # fmt: skip
    detail = RunDetail(
        input={"é": 'quote " null \0'},
        transitions=[Transition(RunState.PENDING, T0), Transition(RunState(state), T0 + 1)],
        violations=[Violation("max_concurrent_runs", "1 of 1", T0)],
        metrics=RunMetrics(total_seconds=1.5, entered={"pending": T0}),
        calls={"j7": "pre_run_hook"},
        seq=4,
    )
    return RunRow(run_id, workflow_id, 1, shard, RunState(state), RunState.PENDING, scheduled_at, T0, T0 + 1,
                  completed_at, job_id, 2, detail, succeeded)  # fmt: skip


def delivery_row(
    delivery_id: str, *, job_id: str = "j1", sent_at: int = T0, outcome: str = "delivered"
) -> DeliveryRow:
    return DeliveryRow(delivery_id, job_id, "flow", "notify", 1, "https://example.test/hook", outcome, 200, None, "ok",
                       1_500_000, sent_at, Raw(b'{"url":"https://example.test/hook"}'))  # fmt: skip


def run_changes(
    *,
    inserted: Sequence[RunRow] = (),
    updated: Sequence[RunRow] = (),
    withdrawn: Sequence[str] = (),
    marks: Sequence[ScheduleMark] = (),
    jobs: Sequence[JobSpec] = (),
    requests: Sequence[str] = (),
    deliveries: Sequence[DeliveryRow] = (),
    events: Mapping[tuple[str, str], Sequence[Event]] | None = None,
) -> Changes:
    made = Changes()
    runs = made.of_runs()
    runs.runs.update({row.run_id: row for row in (*inserted, *updated)})
    runs.inserted.update(row.run_id for row in inserted)
    runs.withdrawn.extend(withdrawn)
    runs.schedules.update({mark.workflow_id: mark for mark in marks})
    runs.jobs.extend(jobs)
    runs.requests.extend(requests)
    runs.deliveries.extend(deliveries)
    runs.events.update({key: list(given) for key, given in (events or {}).items()})
    return made


async def put_runs(store: Store, *rows: RunRow) -> int:
    """Store runs as the owner of their shard and return the epoch."""
    lease = await store.leases.take(0, "one")
    await store.commit(0, lease.epoch, run_changes(inserted=rows))
    return lease.epoch
