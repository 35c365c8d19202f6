"""A job's progress as its events tell it, kept small enough for a hundred thousand nodes."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import Event
from windlass.core.plan import NodeKind, Plan

MICROSECONDS = 1_000_000
ERROR_CHARS_MAX = 200

STATUS_OF = {
    "node_ready": "ready",
    "node_dispatched": "dispatched",
    "node_started": "running",
    "node_retrying": "waiting",
    "worker_lost": "dispatched",
    "node_completed": "completed",
    "node_failed": "failed",
    "node_skipped": "skipped",
    "node_cancelled": "cancelled",
}
ENDED = frozenset({"completed", "failed", "skipped", "cancelled"})
ACTIVE = frozenset({"dispatched", "running", "waiting"})
JOB_STATUS_OF = {
    "job_started": "running",
    "job_retried": "running",
    "job_completed": "completed",
    "job_failed": "failed",
    "job_cancelled": "cancelled",
}


class NodeProgress(Struct):
    """What is known of one node."""

    status: str = "pending"
    attempt: int = 1
    started_at: int | None = None
    ended_at: int | None = None
    message: str = ""


class EventError(Struct):
    """The error in an event's data."""

    type: str = ""
    message: str = ""


class JobError(Struct):
    """A job's error, as its row has it."""

    type: str = ""
    message: str = ""
    node_id: str | None = None


class EventData(Struct):
    """The parts of an event's data that a person wants to see."""

    attempt_number: int | None = None
    error: EventError | None = None
    reason: str | None = None
    delay_seconds: float | None = None


_decoder = msgspec.json.Decoder(EventData)


def told(event: Event) -> EventData:
    """The event's data; one in a shape that was not foreseen tells nothing."""
    if event.data is None:
        return EventData()
    try:
        return _decoder.decode(event.data)
    except msgspec.ValidationError:
        return EventData()


def reason_in(data: EventData) -> str:
    """Why, in one line."""
    text = data.reason or ""
    if data.error is not None:
        text = f"{data.error.type}: {data.error.message}" if data.error.type else data.error.message
    then = "" if data.delay_seconds is None else f", next attempt in {spell_seconds(data.delay_seconds)}"
    return one_line(text) + then


def told_error(error: Raw) -> str:
    """A job's error in one line."""
    told = msgspec.json.decode(error, type=JobError)
    where = f"node {told.node_id}: " if told.node_id else ""
    return f"{where}{told.type}: {one_line(told.message)}"


def one_line(text: str, chars_max: int = ERROR_CHARS_MAX) -> str:
    """Text of others, safe for a terminal: bounded, without line breaks and escape sequences."""
    bounded = " ".join(text[: chars_max + 1].split())
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in bounded)
    return printable if len(text) <= chars_max else f"{printable[:chars_max]}…"


class Progress:
    """Nodes that do work, in topological order; START and END are part of the picture, not of the count."""

    def __init__(self, plan: Plan, job_id: str = "") -> None:
        tasks = [node for node in plan.nodes if node.kind is NodeKind.TASK]
        self.workflow_id = plan.workflow_id
        self.nodes = {node.id: NodeProgress() for node in tasks}
        self.handlers = {node.id: node.handler for node in tasks}
        self.counts = {"pending": len(tasks)}
        # In the order they came to be so; dicts serve as ordered sets.
        self.active: dict[str, None] = {}
        self.failed: dict[str, None] = {}
        self.job_id = job_id
        self.status = "pending"
        self.started_at: int | None = None
        self.ended_at: int | None = None

    @property
    def total(self) -> int:
        """How many nodes do work."""
        return len(self.nodes)

    @property
    def done(self) -> int:
        """How many of them have ended."""
        return sum(self.counts.get(status, 0) for status in ENDED)

    def apply(self, event: Event) -> None:
        """Take one more event into account."""
        if event.node_id is None:
            self._apply_to_job(event)
            return
        status = STATUS_OF.get(event.type)
        node = self.nodes.get(event.node_id)
        if status is None or node is None or event.index is not None:
            return
        data = told(event)
        node.attempt = data.attempt_number or node.attempt
        node.message = reason_in(data)
        if status == "running":
            node.started_at = node.started_at or event.at
        node.ended_at = event.at if status in ENDED else None
        self._move(event.node_id, node, status)

    def seconds_of(self, node: NodeProgress, now: int) -> float | None:
        """How long a node has been at work, from its first attempt on."""
        return None if node.started_at is None else max(0, (node.ended_at or now) - node.started_at) / MICROSECONDS

    def seconds(self, now: int) -> float:
        """How long the job has been at work."""
        return 0.0 if self.started_at is None else max(0, (self.ended_at or now) - self.started_at) / MICROSECONDS

    def _apply_to_job(self, event: Event) -> None:
        self.started_at = self.started_at or event.at
        self.status = JOB_STATUS_OF.get(event.type, self.status)
        self.ended_at = event.at if self.status in ENDED else None

    def _move(self, node_id: str, node: NodeProgress, status: str) -> None:
        self.counts[node.status] -= 1
        self.counts[status] = self.counts.get(status, 0) + 1
        node.status = status
        for members, belongs in ((self.active, status in ACTIVE), (self.failed, status == "failed")):
            if belongs:
                members.setdefault(node_id)
            else:
                members.pop(node_id, None)


def names(node_ids: Sequence[str], limit: int) -> str:
    """Some of the names, and how many more there are."""
    more = f" and {len(node_ids) - limit:,} more" if len(node_ids) > limit else ""
    return ", ".join(node_ids[:limit]) + more


def spell_seconds(seconds: float) -> str:
    """A duration for people."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
