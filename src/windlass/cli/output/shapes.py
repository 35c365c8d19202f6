"""Shapes of the HTTP API as commands print them, and as views take them."""

from datetime import UTC, datetime, timedelta

from msgspec import Raw

from windlass import wire
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds(instant: str) -> int:
    """An instant in ISO 8601 as rows have it."""
    return (datetime.fromisoformat(instant) - EPOCH) // MICROSECOND


def is_null(value: Raw) -> bool:
    """Whether a field of an answer holds nothing."""
    return bytes(value) == b"null"


def duration_seconds(started_at: str | None, completed_at: str | None) -> float | None:
    """The time between two instants, when both are known."""
    if started_at is None or completed_at is None:
        return None
    return (microseconds(completed_at) - microseconds(started_at)) / MICROSECONDS


def told_event(event: wire.Event) -> Event:
    """An event of a server, as views take it: what they do not show is left out."""
    data = None if is_null(event.data) else event.data
    return Event(event.seq, event.event_type, event.node_id, event.index, microseconds(event.timestamp), data)


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
    if node.loop is not None:
        brief["loop"] = node.loop
    took = duration_seconds(node.started_at, node.completed_at)
    if took is not None:
        brief["duration_seconds"] = took
    return brief
