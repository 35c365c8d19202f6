"""What the rules about runs want done with jobs, in the same commit as the rows of the runs."""

from typing import Any

from msgspec import Struct

from windlass.core.ids import JobId, RunId, WorkflowId
from windlass.core.runs.rules import Hook


class MakeJob(Struct, frozen=True):
    """Create the job of a run, of its workflow and version."""

    run_id: RunId
    job_id: JobId
    workflow_id: WorkflowId
    version: int
    input: dict[str, Any]
    scheduled_at: int
    origin: str
    depth: int


class AdmitJob(Struct, frozen=True):
    """Let a submitted job start."""

    job_id: JobId


class RetryJob(Struct, frozen=True):
    """Run the failed nodes of a finished job again, or a node and all after it."""

    job_id: JobId
    from_node: str | None = None


class CancelJob(Struct, frozen=True):
    """Cancel a job."""

    job_id: JobId
    reason: str


class MakeCall(Struct, frozen=True):
    """Create a job that calls an address for a run."""

    run_id: RunId
    # Of the run: the job is on the shard of this workflow.
    workflow_id: WorkflowId
    job_id: JobId
    hook: Hook
    # The job of the run, if it has one.
    parent_job_id: JobId | None
    # The type and the data of the event that is sent.
    type: str
    data: dict[str, Any]


class TriggerJob(Struct, frozen=True):
    """Create a job of another workflow for an action. Templates in the input read the run and its job."""

    run_id: RunId
    job_id: JobId
    purpose: str
    workflow_id: WorkflowId
    version: int | str | None
    input: dict[str, Any]
    # The job of the run, if it has one.
    parent_job_id: JobId | None
    depth: int
    # What templates can read of the run.
    run: dict[str, Any]


Command = MakeJob | AdmitJob | RetryJob | CancelJob | MakeCall | TriggerJob
