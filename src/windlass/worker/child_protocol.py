"""Messages between a worker and its child processes, and their encoding: a length, then MessagePack."""

import struct

import msgspec
from msgspec import Raw, Struct

from windlass.core.messages import Failed, Succeeded, TaskError

# The size limit of a frame beyond the output that it contains.
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
    """From the child: it has started and accepts attempts."""


class LogWritten(Struct, frozen=True, tag="log"):
    """From the child: the handler wrote a line to its log."""

    level: str
    message: str


class AttemptEnded(Struct, frozen=True, tag="ended"):
    """From the child: the attempt has ended. `is_dirty`: the process must not run another one."""

    output: bytes = b"null"
    # Empty if there is none.
    meta: bytes = b""
    error: TaskError | None = None
    is_dirty: bool = False


def frame(message: RunAttempt | ChildReady | LogWritten | AttemptEnded) -> bytes:
    """Encode a message."""
    body = msgspec.msgpack.encode(message)
    return HEADER.pack(len(body)) + body


def encode_outcome(outcome: Succeeded | Failed, is_dirty: bool) -> AttemptEnded:
    """Convert an outcome to the message of the child."""
    meta = b""
    if outcome.meta is not None:
        meta = bytes(outcome.meta)
    if isinstance(outcome, Succeeded):
        return AttemptEnded(output=bytes(outcome.output), meta=meta, is_dirty=is_dirty)
    return AttemptEnded(error=outcome.error, meta=meta, is_dirty=is_dirty)


def decode_outcome(message: AttemptEnded) -> Succeeded | Failed:
    """Convert the message of a child to an outcome."""
    meta = None
    if message.meta:
        meta = Raw(message.meta)
    if message.error is not None:
        return Failed(message.error, meta)
    return Succeeded(Raw(message.output), meta)
