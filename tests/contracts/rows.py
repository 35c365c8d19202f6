"""Rows and changes built by hand for tests of stores."""

from collections.abc import Sequence

from msgspec import Raw

from windlass.core.changes import Changes, InFlightEntry, IterationRow, NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobSpec, JobState
from windlass.core.states import JobStatus
from windlass.ports.store import Store

T0 = 1_700_000_000_000_000


def new_job(job_id: str, *, workflow_id: str = "flow", created_at: int = T0, shard: int = 0, input: str = "{}",
            priority: int = 0, key: str | None = None, digest: str | None = None) -> JobSpec:  # fmt: skip
    return JobSpec(
        job_id, workflow_id, 1, Raw(input.encode()), created_at, shard, priority, key, digest
    )


def node_row(job_id: str, node_id: str, status: str = "completed", *, output: str | None = None,
             error: str | None = None, meta: str | None = None) -> NodeRow:  # fmt: skip
    raw_output, raw_error, raw_meta = (
        None if text is None else Raw(text.encode()) for text in (output, error, meta)
    )
    return NodeRow(
        job_id, node_id, status, 2, 1, 1, 3, T0 + 1, T0 + 2, T0 + 3, None, "w1", raw_output, raw_error, raw_meta
    )  # fmt: skip


def event(
    seq: int, type: str = "node_ready", node_id: str | None = "a", data: str | None = None
) -> Event:
    return Event(seq, type, node_id, None, T0 + seq, None if data is None else Raw(data.encode()))


def changes(
    *,
    jobs: Sequence[tuple[str, JobState]] = (),
    nodes: Sequence[NodeRow] = (),
    events: dict[str, list[Event]] | None = None,
    requests: Sequence[str] = (),
    tasks: Sequence[IterationRow] = (),
    in_flight: dict[str, tuple[InFlightEntry, ...]] | None = None,
) -> Changes:
    made = Changes()
    made.jobs.update(jobs)
    made.nodes.update({(row.job_id, row.node_id): row for row in nodes})
    made.events.update(events or {})
    made.in_flight.update(in_flight or {})
    made.requests.extend(requests)
    made.iterations.update({(row.job_id, row.number, row.index): row for row in tasks})
    return made


def job_row(job_id: str, status: str = "running", *, completed_at: int | None = None, error: str | None = None,
            round: int = 0) -> tuple[str, JobState]:  # fmt: skip
    state = JobState(
        status=JobStatus(status),
        round=round,
        started_at=T0 + 1,
        completed_at=completed_at,
        deadline_at=T0 + 9,
        error=None if error is None else Raw(error.encode()),
    )
    return job_id, state


async def end(store: Store, job_id: str, epoch: int, at: int, status: str = "completed") -> None:
    await store.commit(0, epoch, changes(jobs=[job_row(job_id, status, completed_at=at)]))


def task_row(job_id: str, index: int, status: str = "completed", *, number: int = 3, generation: int = 0,
             output: str | None = None) -> IterationRow:  # fmt: skip
    raw = None if output is None else Raw(output.encode())
    return IterationRow(
        job_id, number, generation, index, status, 1, 0, 0, 5, T0 + 1, T0 + 2, T0 + 3, None, "w1", raw
    )  # fmt: skip
