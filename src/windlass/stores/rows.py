"""How the values of the store's contract become columns, and back. JSON is text, in every dialect."""

from array import array
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.changes import CallOutputRow, Changes, CollectionChunkRow, InFlightEntry, IterationRow, NodeRow
from windlass.core.errors import WorkflowNotFound
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSpec, JobState
from windlass.core.loop_state import LoopRows, decode_progress
from windlass.core.states import JobStatus
from windlass.ports.overview import NodeEvents
from windlass.ports.store import JobFilter, NodeBrief, StoredWorkflow

# Events of one page at most: what a reader decodes to see one of them.
PAGE_EVENTS_MAX = 500

# Behind every character that an id may have.
AFTER_ANY = "\x7f"
# Jobs that a search by the start of an id puts in order; more of them are met along the list.
SORTED_MAX = 5_000

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


_NULL = Raw(b"null")

decode_page = msgspec.json.Decoder(list[_PageEvent]).decode
_decode_in_flight = msgspec.json.Decoder(tuple[InFlightEntry, ...]).decode


def encoded_text(value: Any) -> str:
    return _encode(value).decode()


def event_pages(changes: Changes) -> list[Any]:
    values: list[Any] = []
    in_flight = changes.in_flight
    for job_id, events in changes.events.items():
        for start in range(0, len(events), PAGE_EVENTS_MAX):
            page = events if len(events) <= PAGE_EVENTS_MAX else events[start : start + PAGE_EVENTS_MAX]
            values += (job_id, page[0].seq, page[-1].seq, encoded_text(page), None)
        # The newest page is the one that counts.
        if job_id in in_flight:
            values[-1] = encoded_text(in_flight[job_id])
    return values


def job_values(job: JobSpec) -> tuple[Any, ...]:
    return (
        job.job_id, job.workflow_id, job.version, str(job.input, "utf-8"), job.created_at, job.shard, job.priority,
        job.idempotency_key, job.request_digest, job.scheduled_at,
    )  # fmt: skip


def job_row_values(job_id: str, state: JobState) -> tuple[Any, ...]:
    """What changes in a job's row, in the order of the update."""
    *plain, error = structs.astuple(state)
    return (job_id, *plain, text_of(error))


def node_values(row: NodeRow) -> tuple[Any, ...]:
    values = structs.astuple(row)
    # Most rows are of nodes just dispatched, which have none of these yet.
    if row.output is None and row.error is None and row.meta is None and row.progress is None:
        return values
    return (*values[:12], text_of(row.output), text_of(row.error), text_of(row.meta), row.number, text_of(row.progress))


def task_values(row: IterationRow) -> tuple[Any, ...]:
    values = structs.astuple(row)
    return (*values[:14], *map(text_of, values[14:]))


def page_values(row: CallOutputRow) -> tuple[Any, ...]:
    return (row.job_id, row.number, row.generation, row.index, row.call, text_of(row.output))


def block_values(row: CollectionChunkRow) -> tuple[Any, ...]:
    return (row.job_id, row.number, row.generation, row.chunk, row.body.decode())


def task_of(row: tuple[Any, ...]) -> IterationRow:
    return IterationRow(*row[:14], *map(raw_of, row[14:]))


def loop_of(
    number: int, generation: int, blocks: Iterable[tuple[Any, ...]], rows: Iterable[tuple[Any, ...]]
) -> LoopRows:
    """The rows of a loop: those that completed at the first attempt as numbers only, for there may be a million."""
    completed = array("l")
    others: list[IterationRow] = []
    for row in rows:
        if row[4] == "completed" and row[5] == 1:
            completed.append(row[3])
        else:
            others.append(task_of(row))
    return LoopRows(number, generation, [body.encode() for (body,) in blocks], completed, others)


def job_of(row: dict[str, Any]) -> JobRecord:
    """Build a job from a row with the columns of its spec and its state, and `seq` where events are stored."""
    values = {**row, "input": raw_of(row["input"]), "error": raw_of(row["error"])}
    spec = JobSpec(**{name: values[name] for name in JobSpec.__struct_fields__})
    state = JobState(**{name: values[name] for name in JobState.__struct_fields__})
    state.status = JobStatus(state.status)
    return JobRecord(spec, state, values.get("seq", 1))


def in_flight_of(text: str | None) -> tuple[InFlightEntry, ...]:
    return () if text is None else _decode_in_flight(text)


def job_query(wanted: JobFilter) -> tuple[str, dict[str, Any]]:
    """Which query finds a list of jobs, and what it asks for, by name and in the order of its parameters."""
    before_at, before_id = wanted.before or (None, None)
    values: dict[str, Any] = {
        "workflow_id": wanted.workflow_id, "status": wanted.status, "before_at": before_at, "before_id": before_id,
        "limit": wanted.limit,
    }  # fmt: skip
    if wanted.search is not None:
        term = wanted.search
        return "jobs_found", {**values, "term": term, "term_end": term + AFTER_ANY, "few": SORTED_MAX}
    return "jobs_newest" if wanted.workflow_id is None else "jobs_newest_of_workflow", values


def node_of(row: tuple[Any, ...]) -> NodeRow:
    *plain, output, error, meta, number, progress = row
    return NodeRow(
        *plain,
        output=raw_of(output),
        error=raw_of(error),
        meta=raw_of(meta),
        number=number,
        progress=raw_of(progress),
    )


def brief_of(row: tuple[Any, ...]) -> NodeBrief:
    number, status, completed_at, head, meta, progress = row
    return NodeBrief(number, status, completed_at, head, raw_of(meta), raw_of(progress))


def event_of(event: _PageEvent) -> Event:
    # A loop has some hundred thousand of them, and readers wait: no copies, no loop.
    data, meta, context = event.data, event.meta, event.context
    return Event(
        event.seq, event.type, event.node_id, event.index, event.at, None if data == _NULL else data,
        None if meta == _NULL else meta, None if context == _NULL else context, event.parent_seq,
    )  # fmt: skip


def without_items(bodies: Iterable[str], after_seq: int, limit: int, looked_at_max: int) -> NodeEvents:
    """The events of some pages that are not of single iterations. Those are dropped before anything is made of them."""
    found: list[Event] = []
    last_seq, looked_at = after_seq, 0
    for body in bodies:
        for event in decode_page(body):
            if event.seq <= after_seq:
                continue
            if looked_at == looked_at_max or len(found) == limit:
                return NodeEvents(found, last_seq)
            looked_at += 1
            last_seq = event.seq
            if event.index is None:
                found.append(event_of(event))
    return NodeEvents(found, last_seq)


def loops_to_restore(nodes: Iterable[NodeRow]) -> list[tuple[int, int]]:
    """Number and generation of the loops that did not complete."""
    found: list[tuple[int, int]] = []
    for row in nodes:
        if row.progress is not None and row.status != "completed":
            progress = decode_progress(row.progress)
            if progress.total >= 0:
                found.append((row.number, progress.generation))
    return found


def workflow_of(row: tuple[Any, ...]) -> StoredWorkflow:
    return StoredWorkflow(row[0], row[1], Raw(row[2].encode()), row[3], row[4])


def text_of(raw: Raw | None) -> str | None:
    return None if raw is None else str(raw, "utf-8")


def raw_of(text: str | None) -> Any:
    return None if text is None else Raw(text.encode())


def no_workflow(which: str) -> WorkflowNotFound:
    return WorkflowNotFound(f"there is no workflow {which}; deploy it first")
