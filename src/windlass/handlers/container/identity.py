"""Which attempt a container belongs to: the name of its Job, its labels, its environment variables."""

import base64
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

from msgspec import Struct

from windlass.ports.handler import Context

PREFIX = "windlass"
# The name of a Job is also a label of its pods, and labels have at most 63 characters.
LABEL_CHARS_MAX = 63
NODE_CHARS_SHOWN = 24
HASH_CHARS = 20

MANAGED_BY = "app.kubernetes.io/managed-by"
TASK_ANNOTATION = f"{PREFIX}/task"
NAME_LABEL = f"{PREFIX}/name"
INSTANCE_LABEL = f"{PREFIX}/instance"
FOLLOWED_ANNOTATION = f"{PREFIX}/followed-at"

_UNSAFE_IN_NAMES = re.compile(r"[^a-z0-9]+")
_UNSAFE_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")


class AttemptIdentity(Struct, frozen=True):
    """One attempt, as a cluster identifies it."""

    job_id: str
    node_id: str
    index: int
    attempt: int
    idempotency_key: str
    run_id: str = ""
    scheduled_at: datetime | None = None

    # Labels that nodes cannot set.
    RESERVED: ClassVar[frozenset[str]] = frozenset({MANAGED_BY, "job-id", "run-id", "scheduled-at"})

    @property
    def text(self) -> str:
        """The complete identity, unique to the attempt."""
        return f"{self.task}#{self.attempt}"

    @property
    def task(self) -> str:
        """The task that the attempt is one of."""
        return f"{self.job_id}/{self.node_id}[{self.index}]"

    @property
    def task_labels(self) -> dict[str, str]:
        """The labels that the Jobs of all attempts of its task have."""
        return {
            MANAGED_BY: PREFIX,
            "job-id": as_label(self.job_id),
            f"{PREFIX}/node": as_label(self.node_id),
            f"{PREFIX}/index": str(self.index),
        }

    def is_later_than(self, annotations: Mapping[str, str] | None) -> bool:
        """Whether the annotations of a Job name an earlier attempt of the same task."""
        task, attempt = attempt_of(annotations)
        return task == self.task and 0 < attempt < self.attempt

    @property
    def name(self) -> str:
        """The name of its Job: the same on every worker, different for every attempt."""
        digest = hashlib.sha256(self.text.encode()).digest()
        short = base64.b32encode(digest).decode().lower()[:HASH_CHARS]
        shown = _UNSAFE_IN_NAMES.sub("-", self.node_id.lower())[:NODE_CHARS_SHOWN].strip("-")
        return "-".join(part for part in (PREFIX, shown, short) if part)

    @property
    def _slot(self) -> str:
        if self.scheduled_at is None:
            return ""
        slot = self.scheduled_at.astimezone(UTC).replace(tzinfo=None)
        return f"{slot.isoformat()}Z"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the Job and its pods."""
        labels = {
            **self.task_labels,
            NAME_LABEL: self.name,
            f"{PREFIX}/attempt": str(self.attempt),
        }
        if self.scheduled_at is not None:
            labels["scheduled-at"] = as_label(self._slot)
        if self.run_id:
            labels["run-id"] = as_label(self.run_id)
        return labels

    def variables(self, result_file: str) -> dict[str, str]:
        """Return the environment variables that describe the attempt to the program."""
        return {
            "WINDLASS_JOB_ID": self.job_id,
            "WINDLASS_NODE_ID": self.node_id,
            "WINDLASS_INDEX": str(self.index),
            "WINDLASS_ATTEMPT": str(self.attempt),
            "WINDLASS_IDEMPOTENCY_KEY": self.idempotency_key,
            "WINDLASS_RESULT_FILE": result_file,
        }


def identity_of(
    ctx: Context, run_id: str = "", scheduled_at: datetime | None = None
) -> AttemptIdentity:
    """Return the identity of the attempt that a handler runs."""
    return AttemptIdentity(
        job_id=ctx.job_id,
        node_id=ctx.node_id,
        index=ctx.index,
        attempt=ctx.attempt,
        idempotency_key=ctx.idempotency_key,
        run_id=run_id,
        scheduled_at=scheduled_at,
    )


def attempt_of(annotations: Mapping[str, str] | None) -> tuple[str, int]:
    """Return the task and the number of the attempt that a Job belongs to; 0 if Windlass did not create it."""
    task, _, attempt = (annotations or {}).get(TASK_ANNOTATION, "").rpartition("#")
    if not (task and attempt.isascii() and attempt.isdigit()):
        return task, 0
    return task, int(attempt)


def followed_now() -> dict[str, str]:
    """Return the annotation of a Job that a worker follows now."""
    return {FOLLOWED_ANNOTATION: datetime.now(UTC).isoformat()}


def as_label(text: str) -> str:
    """Convert a text to a label value: other characters become dashes, long texts end in a hash."""
    safe = _UNSAFE_IN_LABELS.sub("-", text).strip("-_.")
    if len(safe) <= LABEL_CHARS_MAX:
        return safe
    short = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{safe[: LABEL_CHARS_MAX - 9].rstrip('-_.')}-{short}"
