"""What the rules about runs want done with jobs, in the same commit as the rows that say so."""

from typing import Any

from msgspec import Struct

from windlass.core.runs.rules import Hook


class MakeJob(Struct, frozen=True):
    """A job for a run, of its workflow and version."""

    run_id: str
    job_id: str
    workflow_id: str
    version: int
    input: dict[str, Any]
    scheduled_at: int


class ReleaseJob(Struct, frozen=True):
    """A job that was submitted and held may begin."""

    job_id: str


class RetryJob(Struct, frozen=True):
    """What failed in an ended job is run again."""

    job_id: str
    from_node: str | None = None


class CancelJob(Struct, frozen=True):
    """A job is to stop."""

    job_id: str
    reason: str


class MakeCall(Struct, frozen=True):
    """A job of its own that calls an address for a run."""

    run_id: str
    job_id: str
    hook: Hook
    # The event's name and content.
    type: str
    data: dict[str, Any]


class TriggerJob(Struct, frozen=True):
    """A job of another workflow, asked for by an action."""

    run_id: str
    job_id: str
    purpose: str
    workflow_id: str
    version: int | str | None
    input: dict[str, Any]


Order = MakeJob | ReleaseJob | RetryJob | CancelJob | MakeCall | TriggerJob
