"""Jobs, nodes and events as JSON documents, in the shapes of the HTTP API."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Raw

from windlass.cli.progress import MICROSECONDS
from windlass.core.changes import Event, NodeRow
from windlass.ports.store import StoredJob


def iso(at: int | None) -> str | None:
    """An instant in ISO 8601, UTC."""
    if at is None:
        return None
    whole = datetime.fromtimestamp(at // MICROSECONDS, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{at % MICROSECONDS:06}Z"


def duration_seconds(started_at: int | None, completed_at: int | None) -> float | None:
    """The time between two instants, when both are known."""
    return None if started_at is None or completed_at is None else (completed_at - started_at) / MICROSECONDS


def job_shape(job: StoredJob) -> dict[str, object]:
    """A job without its result."""
    return {
        "job_id": job.job_id,
        "workflow_id": job.workflow_id,
        "version": job.version,
        "status": job.status,
        "input_data": job.input,
        "error": job.error,
        "created_at": iso(job.created_at),
        "started_at": iso(job.started_at),
        "completed_at": iso(job.completed_at),
    }


def node_shape(row: NodeRow) -> dict[str, object]:
    """A node with its output."""
    return {
        "node_id": row.node_id,
        "status": row.status,
        "attempt": row.attempt,
        "output": row.output,
        "error": row.error,
        "meta": row.meta,
        "started_at": iso(row.started_at),
        "completed_at": iso(row.completed_at),
    }


def event_shape(job_id: str, event: Event) -> dict[str, object]:
    """An event; keys that do not apply are left out."""
    shape: dict[str, object] = {
        "event_id": f"{job_id}:{event.seq}",
        "seq": event.seq,
        "event_type": event.type,
        "job_id": job_id,
        "node_id": event.node_id,
        "timestamp": iso(event.at),
        "data": event.data,
        "meta": event.meta,
        "context": event.context,
    }
    if event.index is not None:
        shape["index"] = event.index
    if event.parent_seq is not None:
        shape["parent_event_id"] = f"{job_id}:{event.parent_seq}"
    return shape


def outcome_shape(job: StoredJob, nodes: Iterable[NodeRow], result_data: Raw | None) -> dict[str, object]:
    """What `windlass run --json` prints."""
    return {
        "job_id": job.job_id,
        "status": job.status,
        "result_data": result_data,
        "error": job.error,
        "nodes": {row.node_id: _brief(row) for row in nodes},
        "duration_seconds": duration_seconds(job.started_at or job.created_at, job.completed_at),
    }


def _brief(row: NodeRow) -> dict[str, object]:
    brief: dict[str, object] = {"status": row.status, "attempt": row.attempt}
    if row.error is not None:
        brief["error"] = row.error
    took = duration_seconds(row.started_at, row.completed_at)
    if took is not None:
        brief["duration_seconds"] = took
    return brief
