"""What a worker and its child processes tell each other, and its form on the wire: a length, then MessagePack."""

import struct

import msgspec
from msgspec import Raw, Struct

from windlass.core.messages import Failed, Succeeded, TaskError

# A frame from the child holds an output of the greatest size, its meta, and so much of the rest at most.
FRAME_ROOM_BYTES = 4 * 1024 * 1024
HEADER = struct.Struct(">I")


class RunAttempt(Struct, frozen=True, tag="run"):
    """To the child: run an attempt. `params` is JSON."""

    module: str
    function: str
    params: bytes
    job_id: str
    node_id: str
    index: int
    attempt: int
    task_id: str
    idempotency_key: str
    worker_id: str
    timeout_seconds: float
    output_bytes_max: int


class ChildReady(Struct, frozen=True, tag="ready"):
    """From the child: it has started and takes attempts now."""


class LogWritten(Struct, frozen=True, tag="said"):
    """From the child: the handler wrote a line to its log."""

    level: str
    message: str


class AttemptEnded(Struct, frozen=True, tag="ended"):
    """From the child: the attempt is over. `spoiled` asks for a new process before the next one."""

    output: bytes | None = None
    meta: bytes | None = None
    error: TaskError | None = None
    spoiled: bool = False


def frame(message: RunAttempt | ChildReady | LogWritten | AttemptEnded) -> bytes:
    """A message as it travels."""
    body = msgspec.msgpack.encode(message)
    return HEADER.pack(len(body)) + body


def ended(outcome: Succeeded | Failed, spoiled: bool) -> AttemptEnded:
    """An outcome as the child sends it: JSON stays JSON, as bytes."""
    meta = bytes(outcome.meta) if outcome.meta is not None else None
    if isinstance(outcome, Succeeded):
        return AttemptEnded(output=bytes(outcome.output), meta=meta, spoiled=spoiled)
    return AttemptEnded(error=outcome.error, meta=meta, spoiled=spoiled)


def outcome_of(message: AttemptEnded) -> Succeeded | Failed:
    """The outcome that a child sent."""
    meta = Raw(message.meta) if message.meta is not None else None
    if message.error is not None:
        return Failed(message.error, meta)
    return Succeeded(Raw(message.output or b"null"), meta)
