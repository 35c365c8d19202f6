"""Encode messages as JSON, for stores and brokers outside the process."""

from typing import cast

import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.artifacts import ArtifactReference, is_reference, read_reference, reference
from windlass.core.json_text import NULL
from windlass.core.messages import (
    CancelRequested,
    Continue,
    Failed,
    Message,
    RetryRequested,
    RunAdmitted,
    Submitted,
    Succeeded,
    TaskError,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
)
from windlass.core.runs.messages import RunDue, RunRequested, ScheduleChanged


class _Succeeded(Struct, frozen=True, tag="succeeded"):
    """Succeeded on the wire. msgspec decodes an optional Raw of null as a value, so null stands for None."""

    output: Raw
    meta: Raw = NULL
    # The artifact that contains the output: a reference is not valid JSON.
    large: ArtifactReference | None = None


class _Failed(Struct, frozen=True, tag="failed"):
    error: TaskError
    meta: Raw = NULL


class _TaskFinished(Struct, frozen=True, tag="task_finished"):
    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    started_at: int | None
    finished_at: int
    outcome: _Succeeded | _Failed
    index: int = 0
    seed: int = 0
    result_id: str | None = None
    context: Raw = NULL
    is_held: bool = False


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
    | RunRequested
)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Known)


def encode_message(message: Message) -> bytes:
    """Encode a message as JSON."""
    if isinstance(message, TaskFinished) and isinstance(message.outcome, Succeeded):
        outcome = message.outcome
        if is_reference(outcome.output):
            large = _Succeeded(NULL, outcome.meta or NULL, read_reference(outcome.output))
            return _encoder.encode(structs.replace(message, outcome=cast("Succeeded", large)))
    return _encoder.encode(message)


def decode_message(encoded: bytes | str) -> Message:
    """Decode what `encode_message` returned. Raises msgspec.DecodeError for anything else."""
    decoded = _decoder.decode(encoded)
    if isinstance(decoded, _TaskFinished):
        return _task_finished(decoded)
    if isinstance(decoded, Submitted):
        return _submitted(decoded)
    return decoded


def _submitted(decoded: Submitted) -> Submitted:
    if decoded.spec is None:
        return decoded
    # A view of a small input would keep the whole decoded buffer alive.
    spec = structs.replace(decoded.spec, input=decoded.spec.input.copy())
    return Submitted(decoded.job_id, spec)


def _task_finished(decoded: _TaskFinished) -> TaskFinished:
    return TaskFinished(
        job_id=decoded.job_id,
        node_id=decoded.node_id,
        attempt=decoded.attempt,
        worker_id=decoded.worker_id,
        started_at=decoded.started_at,
        finished_at=decoded.finished_at,
        outcome=_outcome(decoded.outcome),
        index=decoded.index,
        seed=decoded.seed,
        result_id=decoded.result_id,
        context=_copied(decoded.context),
        is_held=decoded.is_held,
    )


def _outcome(decoded: _Succeeded | _Failed) -> Succeeded | Failed:
    meta = _copied(decoded.meta)
    if isinstance(decoded, _Failed):
        return Failed(decoded.error, meta)
    if decoded.large is not None:
        return Succeeded(reference(decoded.large.key, decoded.large.size), meta)
    return Succeeded(decoded.output.copy(), meta)


def _copied(value: Raw) -> Raw | None:
    if value is NULL or bytes(value) == b"null":
        return None
    # A view of a small value would keep the whole decoded buffer alive.
    return value.copy()
