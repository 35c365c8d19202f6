"""Messages as JSON, for rows and brokers that keep them outside the process."""

from typing import cast

import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.artifacts import Reference, is_reference, read_reference, reference
from windlass.core.messages import (
    CancelRequested,
    Continue,
    Failed,
    Message,
    RetryRequested,
    RunAdmitted,
    RunAsked,
    RunDue,
    ScheduleChanged,
    Submitted,
    Succeeded,
    TaskError,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
)

_NULL = Raw(b"null")


class _Succeeded(Struct, frozen=True, tag="succeeded"):
    """As Succeeded; a raw value cannot be told from null while it is decoded, so it is always there."""

    output: Raw
    meta: Raw = _NULL
    # Where the output lies: a reference itself is no JSON.
    large: Reference | None = None


class _Failed(Struct, frozen=True, tag="failed"):
    error: TaskError
    meta: Raw = _NULL


class _TaskFinished(Struct, frozen=True, tag="task_finished"):
    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    started_at: int
    finished_at: int
    outcome: _Succeeded | _Failed
    index: int = 0
    seed: int = 0
    result_id: str | None = None
    context: Raw = _NULL


_Known = (
    _TaskFinished
    | Submitted
    | RunAdmitted
    | Continue
    | TaskStarted
    | TaskLost
    | TimerDue
    | CancelRequested
    | RetryRequested
    | RunDue
    | ScheduleChanged
    | RunAsked
)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Known)


def encode_message(message: Message) -> bytes:
    """A message as JSON."""
    if isinstance(message, TaskFinished) and isinstance(message.outcome, Succeeded):
        outcome = message.outcome
        if is_reference(outcome.output):
            large = _Succeeded(_NULL, outcome.meta or _NULL, read_reference(outcome.output))
            return _encoder.encode(structs.replace(message, outcome=cast("Succeeded", large)))
    return _encoder.encode(message)


def decode_message(encoded: bytes | str) -> Message:
    """The message that `encode_message` was given; msgspec.DecodeError for anything else."""
    found = _decoder.decode(encoded)
    if isinstance(found, _TaskFinished):
        return _finished(found)
    if isinstance(found, Submitted):
        return _with_own_input(found)
    return found


def _with_own_input(found: Submitted) -> Submitted:
    if found.spec is None:
        return found
    # Copied, or a small input would keep the whole buffer it was decoded from.
    spec = structs.replace(found.spec, input=found.spec.input.copy())
    return Submitted(found.job_id, spec)


def _finished(found: _TaskFinished) -> TaskFinished:
    outcome = found.outcome
    return TaskFinished(
        found.job_id,
        found.node_id,
        found.attempt,
        found.worker_id,
        found.started_at,
        found.finished_at,
        _succeeded(outcome) if isinstance(outcome, _Succeeded) else Failed(outcome.error, _copied(outcome.meta)),
        found.index,
        found.seed,
        found.result_id,
        _copied(found.context),
    )


def _succeeded(found: _Succeeded) -> Succeeded:
    large = found.large
    output = found.output.copy() if large is None else reference(large.key, large.size)
    return Succeeded(output, _copied(found.meta))


def _copied(value: Raw) -> Raw | None:
    # Copied, or a small value would keep the whole buffer it was decoded from.
    return None if value is _NULL or bytes(value) == b"null" else value.copy()
