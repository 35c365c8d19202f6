"""How the values of the store's contract become SQLite's, and back."""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.changes import Changes, Event, JobRow, NodeRow
from windlass.core.errors import JobNotFound
from windlass.ports.store import NewJob, StoredJob, StoredWorkflow
from windlass.stores.connection import Rows

# Events of one page at most: what a reader decodes to see one of them.
PAGE_EVENTS_MAX = 500

_encode = msgspec.json.Encoder().encode


class _PageEvent(Struct, array_like=True):
    """An event as it lies in a page: every JSON value is there, if only as null."""

    seq: int
    type: str
    node_id: str | None
    index: int | None
    at: int
    data: Raw
    meta: Raw
    context: Raw
    parent_seq: int | None


decode_page = msgspec.json.Decoder(list[_PageEvent]).decode


def encoded_text(value: Any) -> str:
    return _encode(value).decode()


def event_pages(changes: Changes) -> list[Any]:
    values: list[Any] = []
    for job_id, events in changes.events.items():
        for start in range(0, len(events), PAGE_EVENTS_MAX):
            page = events if len(events) <= PAGE_EVENTS_MAX else events[start : start + PAGE_EVENTS_MAX]
            values += (job_id, page[0].seq, page[-1].seq, encoded_text(page))
    return values


def first_page(job: NewJob) -> tuple[Any, ...]:
    data = _created_data(job.workflow_id, job.version)
    return (job.job_id, 1, 1, encoded_text([Event(1, "job_created", None, None, job.created_at, data)]))


@lru_cache(maxsize=256)
def _created_data(workflow_id: str, version: int) -> Raw:
    return Raw(_encode({"workflow_id": workflow_id, "version": version}))


def job_values(job: NewJob) -> tuple[Any, ...]:
    return (
        job.job_id, job.workflow_id, job.version, str(job.input, "utf-8"), job.created_at, job.shard, job.priority,
        job.idempotency_key, job.body_digest, job.scheduled_at,
    )  # fmt: skip


def job_row_values(row: JobRow) -> tuple[Any, ...]:
    """What changes in a job's row, in the order of the update."""
    *plain, error = structs.astuple(row)
    return (*plain, None if error is None else str(error, "utf-8"))


def node_values(row: NodeRow) -> tuple[Any, ...]:
    values = structs.astuple(row)
    # Most rows are of nodes just dispatched, which have none of these yet.
    if row.output is None and row.error is None and row.meta is None:
        return values
    output, error, meta = (None if raw is None else str(raw, "utf-8") for raw in (row.output, row.error, row.meta))
    return (*values[:12], output, error, meta, row.number)


def pending_job(job: NewJob) -> StoredJob:
    return StoredJob(
        job_id=job.job_id, workflow_id=job.workflow_id, version=job.version, shard=job.shard, status="pending",
        input=job.input, seq=1, round=0, priority=job.priority, created_at=job.created_at, started_at=None,
        completed_at=None, deadline_at=None, error=None, idempotency_key=job.idempotency_key,
        body_digest=job.body_digest, scheduled_at=job.scheduled_at,
    )  # fmt: skip


def as_dicts(cursor: Rows) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    names: list[str] = []
    for values in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        found.append(dict(zip(names, values, strict=True)))
    return found


def first_dict(cursor: Rows) -> dict[str, Any] | None:
    rows = as_dicts(cursor)
    return rows[0] if rows else None


def job_of(row: dict[str, Any]) -> StoredJob:
    row = {"seq": 1, **row, "input": raw_of(row["input"]), "error": raw_of(row["error"])}
    return StoredJob(**row)


def node_of(row: tuple[Any, ...]) -> NodeRow:
    *plain, output, error, meta, number = row
    return NodeRow(*plain, output=raw_of(output), error=raw_of(error), meta=raw_of(meta), number=number)


def event_of(event: _PageEvent) -> Event:
    data, meta, context = (None if bytes(raw) == b"null" else raw for raw in (event.data, event.meta, event.context))
    return Event(
        event.seq, event.type, event.node_id, event.index, event.at, data, meta, context, event.parent_seq
    )  # fmt: skip


def workflow_of(row: tuple[Any, ...]) -> StoredWorkflow:
    return StoredWorkflow(row[0], row[1], Raw(row[2].encode()), row[3], row[4])


def raw_of(text: str | None) -> Any:
    return None if text is None else Raw(text.encode())


def no_job(job_id: str) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}; `windlass jobs list` shows the jobs of this database")
