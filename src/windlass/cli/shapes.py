"""Rows of the embedded database in the shapes of the HTTP API, and events of the API as views take them."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Raw

from windlass import wire
from windlass.core.changes import Event, NodeRow
from windlass.ports.store import StoredJob, StoredLog

if TYPE_CHECKING:
    from windlass.wiring import JobResult

NULL = Raw(b"null")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def iso(at: int) -> str:
    """An instant in ISO 8601, UTC."""
    return f"{EPOCH + at * MICROSECOND:%Y-%m-%dT%H:%M:%S.%f}Z"


def microseconds(instant: str) -> int:
    """The instant that `iso` was given."""
    return (datetime.fromisoformat(instant) - EPOCH) // MICROSECOND


def is_null(value: Raw) -> bool:
    """Whether a field of an answer holds nothing."""
    return bytes(value) == b"null"


def duration_seconds(started_at: str | None, completed_at: str | None) -> float | None:
    """The time between two instants, when both are known."""
    if started_at is None or completed_at is None:
        return None
    return (microseconds(completed_at) - microseconds(started_at)) / 1e6


def job_shape(job: StoredJob, result_data: Raw = NULL, nodes: list[wire.Node] | None = None) -> wire.Job:
    """A job, with its result and its nodes where they are known."""
    return wire.Job(
        job_id=job.job_id,
        workflow_id=job.workflow_id,
        version=job.version,
        status=job.status,
        input_data=job.input,
        result_data=result_data,
        error=job.error or NULL,
        created_at=iso(job.created_at),
        started_at=_iso(job.started_at),
        completed_at=_iso(job.completed_at),
        scheduled_at=_iso(job.scheduled_at),
        priority=job.priority,
        idempotency_key=job.idempotency_key,
        nodes=nodes,
    )


def result_shape(result: "JobResult") -> wire.Job:
    """A job with its nodes and outputs."""
    return job_shape(result.job, result.result_data, [node_shape(row) for row in result.nodes])


def node_shape(row: NodeRow) -> wire.Node:
    """A node with its output."""
    return wire.Node(
        node_id=row.node_id,
        status=row.status,
        attempt=row.attempt,
        output=row.output or NULL,
        error=row.error or NULL,
        meta=row.meta or NULL,
        started_at=_iso(row.started_at),
        completed_at=_iso(row.completed_at),
    )


def event_shape(job_id: str, event: Event) -> wire.Event:
    """An event under its job's id."""
    return wire.Event(
        event_id=f"{job_id}:{event.seq}",
        seq=event.seq,
        event_type=event.type,
        job_id=job_id,
        node_id=event.node_id,
        index=event.index,
        timestamp=iso(event.at),
        data=event.data or NULL,
        meta=event.meta or NULL,
        context=event.context or NULL,
        parent_event_id=None if event.parent_seq is None else f"{job_id}:{event.parent_seq}",
    )


def told_event(event: wire.Event) -> Event:
    """An event of a server, as views take it: what they do not show is left out."""
    data = None if is_null(event.data) else event.data
    return Event(event.seq, event.event_type, event.node_id, event.index, microseconds(event.timestamp), data)


def log_shape(stored: StoredLog) -> wire.Log:
    """A line of a log."""
    line = stored.line
    return wire.Log(
        log_id=stored.log_id,
        job_id=line.job_id,
        node_id=line.node_id,
        index=line.index,
        attempt=line.attempt,
        timestamp=iso(line.at),
        level=line.level,
        message=line.message,
    )


def outcome_shape(job: wire.Job) -> dict[str, object]:
    """What `windlass run --json` prints."""
    return {
        "job_id": job.job_id,
        "status": job.status,
        "result_data": job.result_data,
        "error": job.error,
        "nodes": {node.node_id: _brief(node) for node in job.nodes or []},
        "duration_seconds": duration_seconds(job.started_at or job.created_at, job.completed_at),
    }


def _brief(node: wire.Node) -> dict[str, object]:
    brief: dict[str, object] = {"status": node.status, "attempt": node.attempt}
    if not is_null(node.error):
        brief["error"] = node.error
    took = duration_seconds(node.started_at, node.completed_at)
    if took is not None:
        brief["duration_seconds"] = took
    return brief


def _iso(at: int | None) -> str | None:
    return None if at is None else iso(at)
