"""Conversions between the store's structs and rows that columns.py does not derive. JSON is text in every dialect."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import Changes, InFlightEntry, IterationRow, NodeRow
from windlass.core.errors import DeliveryNotFound, RunNotFound, ScheduleNotFound, WorkflowNotFound
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.json_text import NULL
from windlass.core.loop_state import LoopRows, read_progress
from windlass.core.messages import TaskFinished
from windlass.core.report_verdict import ReportVerdict
from windlass.core.runs.changes import RunChanges
from windlass.core.states import JobStatus
from windlass.ports.message_codec import decode_message
from windlass.ports.store.jobs import JobFilter, NodeBrief, StoredResult
from windlass.ports.store.overview import NodeEvents
from windlass.stores.columns import ITERATION, EventPage, RunEventPage, job_of_row

# The most events in one page: a reader of one event decodes its whole page.
PAGE_EVENTS_MAX = 500

# Greater than every character of an id.
AFTER_ANY = "\x7f"
# A search by the start of a job id sorts up to this many jobs; more of them are found in the order of the list.
SORTED_MAX = 5_000

_encode = msgspec.json.Encoder().encode


class PageEvent(Struct, array_like=True):
    """An event as it is decoded from a page: the fields of Event, with null for JSON values that are missing.

    msgspec cannot decode `Raw | None`, and deriving the conversion takes twice the time per event that is read.
    """

    seq: int
    type: str
    node_id: str | None
    index: int | None
    at: int
    data: Raw
    meta: Raw
    context: Raw
    parent_seq: int | None


decode_page = msgspec.json.Decoder(list[PageEvent]).decode
_decode_in_flight = msgspec.json.Decoder(tuple[InFlightEntry, ...]).decode


def encoded_text(value: Any) -> str:
    """Return a value as JSON text."""
    return _encode(value).decode()


def text_of(raw: Raw | None) -> str | None:
    """Return a JSON value as text."""
    return None if raw is None else str(raw, "utf-8")


def raw_of(text: str | None) -> Any:
    """Return the JSON value of a text."""
    return None if text is None else Raw(text.encode())


# Events


def event_pages(changes: Changes) -> list[EventPage]:
    """Return the events of a commit as pages. Only the last page of a job names the nodes in flight."""
    pages: list[EventPage] = []
    for job_id, events in changes.events.items():
        last_page = events
        while len(last_page) > PAGE_EVENTS_MAX:
            pages.append(_page(job_id, last_page[:PAGE_EVENTS_MAX], None))
            last_page = last_page[PAGE_EVENTS_MAX:]
        pages.append(_page(job_id, last_page, changes.in_flight.get(job_id)))
    return pages


def _page(
    job_id: str, events: Sequence[Event], in_flight: tuple[InFlightEntry, ...] | None
) -> EventPage:
    in_flight_text = None
    if in_flight is not None:
        in_flight_text = encoded_text(in_flight)
    return EventPage(
        job_id=job_id,
        first_seq=events[0].seq,
        last_seq=events[-1].seq,
        body=encoded_text(events),
        in_flight=in_flight_text,
    )


def run_event_pages(changes: RunChanges) -> list[RunEventPage]:
    """Return the events of a commit about runs and schedules as pages."""
    pages: list[RunEventPage] = []
    for (workflow_id, run_id), events in changes.events.items():
        for start in range(0, len(events), PAGE_EVENTS_MAX):
            page = events[start : start + PAGE_EVENTS_MAX]
            pages.append(
                RunEventPage(
                    workflow_id=workflow_id,
                    run_id=run_id,
                    first_seq=page[0].seq,
                    last_seq=page[-1].seq,
                    body=encoded_text(page),
                )
            )
    return pages


def event_of(event: PageEvent) -> Event:
    """Return an event of a page."""
    data, meta, context = event.data, event.meta, event.context
    return Event(
        seq=event.seq,
        type=event.type,
        node_id=event.node_id,
        index=event.index,
        at=event.at,
        data=None if data == NULL else data,
        meta=None if meta == NULL else meta,
        context=None if context == NULL else context,
        parent_seq=event.parent_seq,
    )


def _events_after(pages: Iterable[Sequence[Any]], after_seq: int) -> Iterator[PageEvent]:
    for page in pages:
        for event in decode_page(page[0]):
            if event.seq > after_seq:
                yield event


def events_of(pages: Iterable[Sequence[Any]], after_seq: int, limit: int) -> list[Event]:
    """Return the events of pages after a sequence number."""
    return [event_of(event) for event in islice(_events_after(pages, after_seq), limit)]


def node_events_of(
    pages: Iterable[Sequence[Any]], after_seq: int, limit: int, examined_max: int
) -> NodeEvents:
    """Return the events of pages that do not belong to single iterations, which are skipped before conversion."""
    found: list[Event] = []
    last_seq = after_seq
    for event in islice(_events_after(pages, after_seq), examined_max):
        if len(found) == limit:
            break
        last_seq = event.seq
        if event.index is None:
            found.append(event_of(event))
    return NodeEvents(found, last_seq)


# Jobs


def jobs_of_rows(rows: Iterable[Sequence[Any]]) -> list[JobRecord]:
    """Return jobs from their rows."""
    return [job_of_row(row) for row in rows]


def job_query(wanted: JobFilter) -> tuple[str, dict[str, Any]]:
    """Return the name of the query for a list of jobs, and its values."""
    before_at, before_id = wanted.before or (None, None)
    values = wanted.selected()
    values |= {"before_at": before_at, "before_id": before_id, "limit": wanted.limit}
    if wanted.search is not None:
        values |= {"term": wanted.search, "term_end": wanted.search + AFTER_ANY, "few": SORTED_MAX}
        return "job_search", values
    name = "job_list"
    if wanted.status in (JobStatus.PENDING, JobStatus.RUNNING):
        name = "job_list_unfinished"
    if wanted.status in (JobStatus.FAILED, JobStatus.CANCELLED):
        name = "job_list_unsuccessful"
    if wanted.workflow_id is None:
        del values["workflow_id"]
        return name, values
    return f"{name}_of_workflow", values


def in_flight_of(text: str | None) -> tuple[InFlightEntry, ...]:
    """Return the nodes in flight from the column of a page of events."""
    return () if text is None else _decode_in_flight(text)


def brief_of(row: Sequence[Any]) -> NodeBrief:
    """Return a node without its output."""
    number, status, completed_at, head, meta, progress = row
    return NodeBrief(
        number=number,
        status=status,
        completed_at=completed_at,
        head=head,
        meta=raw_of(meta),
        progress=raw_of(progress),
    )


def result_of(row: Sequence[Any]) -> StoredResult:
    """Return a result reported over HTTP."""
    result_id, shard, message, created_at = row
    return StoredResult(result_id, shard, cast("TaskFinished", decode_message(message)), created_at)


def verdicts_of(
    result_ids: Iterable[str], rows: Iterable[Sequence[Any]]
) -> dict[str, ReportVerdict]:
    """Return the verdicts on results: UNKNOWN without a row, none while the row has no verdict."""
    stored: dict[str, str | None] = {row[0]: row[1] for row in rows}
    found: dict[str, ReportVerdict] = {}
    for result_id in result_ids:
        verdict = stored.get(result_id, ReportVerdict.UNKNOWN)
        if verdict is not None:
            found[result_id] = ReportVerdict(verdict)
    return found


# Loops


def loops_to_restore(nodes: Iterable[NodeRow]) -> list[tuple[int, int]]:
    """Return number and generation of the loops that a retry may resume: those with progress in the node's row."""
    found: list[tuple[int, int]] = []
    for row in nodes:
        if row.progress is not None:
            progress = read_progress(row.progress)
            if progress.total >= 0:
                found.append((row.number, progress.generation))
    return found


def loop_of(
    number: int, generation: int, chunks: Iterable[Sequence[Any]], rows: Iterable[Sequence[Any]]
) -> LoopRows:
    """Return the rows of a loop. Of iterations that completed at the first attempt it holds only the indexes."""
    completed = array("l")
    others: list[IterationRow] = []
    for row in rows:
        _, _, _, index, status, attempt, *_ = row
        if status == "completed" and attempt == 1:
            completed.append(index)
        else:
            others.append(ITERATION.row(row))
    return LoopRows(number, generation, chunk_bodies(chunks), completed=completed, others=others)


def chunk_bodies(rows: Iterable[Sequence[Any]]) -> list[bytes]:
    """Return the chunks of a collection."""
    return [body.encode() for (body,) in rows]


def indexes_in(gaps: Iterable[Sequence[int]], limit: int) -> list[int]:
    """Return the indexes in ranges, up to a limit."""
    found: list[int] = []
    for first, stop in gaps:
        found.extend(range(first, min(stop, first + limit - len(found))))
    return found


# Errors


def no_workflow(workflow_id: str, version: int | None = None) -> WorkflowNotFound:
    """Return the error for an unknown workflow or version."""
    if version is not None:
        return WorkflowNotFound(
            f"workflow {workflow_id} has no version {version}; name one that was deployed"
        )
    return WorkflowNotFound(f"workflow not found: {workflow_id}; deploy it first")


def no_versions(workflow_id: str, versions: Iterable[int]) -> WorkflowNotFound:
    """Return the error for an alias of which some version does not exist."""
    named = ", ".join(map(str, versions))
    return WorkflowNotFound(
        f"workflow {workflow_id} does not have all of these versions: {named}; deploy them first"
    )


def no_schedule(workflow_id: str) -> ScheduleNotFound:
    """Return the error for a workflow without a schedule."""
    return ScheduleNotFound(
        f"workflow has no schedule: {workflow_id}; deploy a version that has one"
    )


def no_run(run_id: str) -> RunNotFound:
    """Return the error for an unknown run id."""
    return RunNotFound(
        f"run not found: {run_id}; list the runs of this database with `windlass runs list`"
    )


def no_delivery(delivery_id: str) -> DeliveryNotFound:
    """Return the error for an unknown delivery id."""
    return DeliveryNotFound(
        f"delivery not found: {delivery_id}; list deliveries with `windlass deliveries list`"
    )
