"""The data of events as text."""

import msgspec
from msgspec import Raw, Struct

from windlass import wire
from windlass.cli.output.text import one_line, plural
from windlass.cli.output.times import format_seconds, to_microseconds
from windlass.core.events import Event


class EventError(Struct):
    """An error in the data of an event, or of a job."""

    type: str = ""
    message: str = ""
    node_id: str | None = None


class EventData(Struct):
    """The fields of an event's data that are displayed."""

    attempt_number: int | None = None
    error: EventError | None = None
    reason: str | None = None
    delay_seconds: float | None = None
    # Loops.
    total_iterations: int | None = None
    left: int | None = None
    successful: int | None = None
    failed: int = 0
    skipped: int = 0
    # Iterations that completed although pages were left.
    exhausted: int = 0
    concurrency: int | None = None
    mode: str = ""
    # Nodes that call their handler several times.
    calls: int | None = None
    total_attempts: int | None = None
    is_exhausted: bool = False
    # Failures that a completed job tolerated.
    failures: int = 0
    # Nodes that a retry of the job resets.
    nodes: list[str] = []

    @property
    def is_call(self) -> bool:
        """Whether the event ends a call that succeeded and is followed by another one."""
        return self.calls is not None and self.error is None


class LoopCounts(Struct):
    """The number of a loop's iterations, and of those that ended in each way."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0

    def start(self, data: EventData) -> None:
        """Reset the counts for a loop that starts, or that continues after a retry with the iterations left."""
        self.total = data.total_iterations or 0
        self.failed = 0
        self.cancelled = 0
        if data.left is None:
            self.completed = 0
            self.skipped = 0

    def add(self, status: str) -> None:
        """Count one more iteration that ended."""
        match status:
            case "completed":
                self.completed += 1
            case "failed":
                self.failed += 1
            case "skipped":
                self.skipped += 1
            case _:
                self.cancelled += 1


_decoder = msgspec.json.Decoder(EventData)


def is_null(value: Raw) -> bool:
    """Return whether a JSON value is null."""
    return bytes(value) == b"null"


def decode_data(event: Event) -> EventData:
    """Return the displayed fields; none of them if the data has an unknown form."""
    if event.data is None:
        return EventData()
    try:
        return _decoder.decode(event.data)
    except msgspec.ValidationError:
        return EventData()


def from_wire(event: wire.EventView) -> Event:
    """Convert an event of the API; fields that are not displayed are omitted."""
    data: Raw | None = None
    if not is_null(event.data):
        data = event.data
    return Event(
        seq=event.seq,
        type=event.event_type,
        node_id=event.node_id,
        index=event.index,
        at=to_microseconds(event.timestamp),
        data=data,
    )


def format_error(error: EventError) -> str:
    """Return an error as one line."""
    text = one_line(error.message)
    if error.type:
        text = f"{error.type}: {text}"
    if error.node_id:
        text = f"node {error.node_id}: {text}"
    return text


def format_raw_error(error: Raw) -> str:
    """Return the error of a job, a node or an iteration as one line; nothing if there is none."""
    if is_null(error):
        return ""
    return format_error(msgspec.json.decode(error, type=EventError))


def format_reason(data: EventData) -> str:
    """Return the reason of an event as one line."""
    if data.error is not None:
        text = format_error(data.error)
        if data.delay_seconds is not None:
            text += f", next attempt in {format_seconds(data.delay_seconds)}"
        return text
    if data.calls is not None:
        # Another call follows, for the next page or to poll again.
        delay = f" in {format_seconds(data.delay_seconds)}" if data.delay_seconds else ""
        return f"call {data.calls:,} succeeded, calling again{delay}"
    return one_line(data.reason or "")


def format_loop_event(data: EventData) -> str:
    """Return what an event says about a loop or about the calls of a node, as one line."""
    if data.total_attempts is not None:
        left = ", more pages left" if data.is_exhausted else ""
        return f"{plural(data.total_attempts, 'call')}{left}"
    if data.total_iterations is None:
        return ""
    if data.successful is not None:
        counts = LoopCounts(
            total=data.total_iterations,
            completed=data.successful,
            failed=data.failed,
            skipped=data.skipped,
        )
        left = f", {data.exhausted:,} with more pages left" if data.exhausted else ""
        return f"{format_counts(counts)}{left}"
    parts = [plural(data.total_iterations, "iteration")]
    if data.left is not None:
        parts.append(f"{data.left:,} left")
    parts.append(data.mode)
    if data.concurrency is not None:
        parts.append(f"{data.concurrency:,} at once")
    return ", ".join(parts)


def format_failures(failures: int) -> str:
    """Return the number of failures that a job tolerated; nothing without any."""
    if not failures:
        return ""
    return plural(failures, "failure")


def format_counts(counts: LoopCounts) -> str:
    """Return a loop's finished iterations of its total, and the number of each outcome other than completed."""
    finished = counts.completed + counts.failed + counts.skipped
    parts = [f"{finished:,}/{counts.total:,}"]
    for status, count in (
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("cancelled", counts.cancelled),
    ):
        if count:
            parts.append(f"{count:,} {status}")
    return ", ".join(parts)
