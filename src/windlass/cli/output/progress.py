"""A job's progress as its events tell it, kept small enough for a hundred thousand nodes."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import NodeKind, Plan

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
    loop: "LoopCounts | None" = None


class LoopCounts(Struct):
    """How far a loop came."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0

    def begin(self, total: int, left: int | None) -> None:
        """The loop begins, or goes on after a retry with what is left of it."""
        self.total = total
        self.failed = self.cancelled = 0
        if left is None:
            self.completed = self.skipped = 0


# What an event of an iteration adds to.
COUNTED = {
    "iteration_completed": "completed",
    "iteration_failed": "failed",
    "iteration_skipped": "skipped",
    "iteration_cancelled": "cancelled",
}


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
    # Of loops and of series of calls.
    total_iterations: int | None = None
    left: int | None = None
    successful: int | None = None
    failed: int = 0
    skipped: int = 0
    concurrency: int | None = None
    mode: str = ""
    calls: int | None = None
    total_attempts: int | None = None


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


def told_loop(data: EventData) -> str:
    """What an event says about a loop or a series of calls, in one line."""
    if data.total_attempts is not None:
        return f"{data.total_attempts:,} calls"
    if data.calls is not None:
        return f"after call {data.calls:,}"
    if data.total_iterations is None:
        return ""
    if data.successful is not None:
        return spell_loop(LoopCounts(data.total_iterations, data.successful, data.failed, data.skipped))
    left = "" if data.left is None else f", {data.left:,} left"
    at_once = f", {data.concurrency:,} at once" if data.concurrency is not None else ""
    return f"{data.total_iterations:,} iterations{left}, {data.mode}{at_once}"


def spell_loop(loop: LoopCounts) -> str:
    """How far a loop came: what has ended of all, and how much of that not well."""
    ended = loop.completed + loop.failed + loop.skipped
    others = {"failed": loop.failed, "skipped": loop.skipped, "cancelled": loop.cancelled}
    counts = [f"{ended:,}/{loop.total:,}", *(f"{count:,} {name}" for name, count in others.items() if count)]
    return ", ".join(counts)


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
        if event.index is not None or event.type == "iterator_started":
            self._apply_to_loop(event, event.node_id)
            return
        status = STATUS_OF.get(event.type)
        node = self.nodes.get(event.node_id)
        if status is None or node is None:
            return
        data = told(event)
        node.attempt = data.attempt_number or node.attempt
        node.message = reason_in(data)
        if status == "running":
            node.started_at = node.started_at or event.at
        node.ended_at = event.at if status in ENDED else None
        self._move(event.node_id, node, status)

    def _apply_to_loop(self, event: Event, node_id: str) -> None:
        node = self.nodes.get(node_id)
        if node is None:
            return
        if node.loop is None:
            node.loop = LoopCounts()
        name = COUNTED.get(event.type)
        # By far the most events are of iterations: nothing of them is decoded.
        if name is not None:
            setattr(node.loop, name, getattr(node.loop, name) + 1)
        elif event.type == "iterator_started":
            data = told(event)
            node.loop.begin(data.total_iterations or 0, data.left)

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
