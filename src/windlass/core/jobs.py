"""A job as it is declared: what was requested (`JobSpec`) and what the rules change (`JobState`).

Columns, queries and messages are derived from these fields; a new field needs one line here and one migration per
database.
"""

from typing import Any

from msgspec import Raw, Struct, field

from windlass.core.fields import Id
from windlass.core.ids import JobId, RunId, WorkflowId, job_run_id, slot_run_id
from windlass.core.states import JOB_FINAL, JobStatus

# The origins of runs and jobs that belong to a slot.
OF_SLOTS = frozenset({"schedule", "backfill"})

# Jobs that are started one by another: the last one cannot start a further one.
JOB_DEPTH_MAX = 16


class JobSpec(Struct, frozen=True, omit_defaults=True, gc=False):
    """What was requested: stored when a job is submitted, never changed."""

    job_id: JobId
    workflow_id: WorkflowId
    version: int
    # The checked input with its defaults, as JSON.
    input: Raw
    created_at: int
    shard: int = 0
    priority: int = 0
    idempotency_key: str | None = None
    # Shows whether a repeated idempotency key has the same request.
    request_digest: str | None = None
    # The job starts no earlier than this instant.
    scheduled_at: int | None = None
    # The workflow whose runs decide about the job, which then is on the shard of that workflow.
    shard_key: WorkflowId | None = None
    # What started it: submit, rerun, schedule, backfill, trigger_job, or call (a webhook of a run).
    origin: str = "submit"
    # The run, and its job, whose action started it; or the job that it repeats.
    parent_run_id: RunId | None = None
    parent_job_id: JobId | None = None
    # How many jobs led to it, each started by the one before.
    depth: int = 0


def run_id_of(spec: JobSpec) -> RunId:
    """Return the id of the first run of a job: that of its slot, or that of a submitted job."""
    if spec.origin in OF_SLOTS and spec.scheduled_at is not None:
        return slot_run_id(spec.workflow_id, spec.scheduled_at)
    return job_run_id(spec.workflow_id, spec.job_id)


class JobState(Struct, gc=False):
    """What the rules change: stored again with every change."""

    status: JobStatus = JobStatus.PENDING
    # Counts retries of the whole job by an operator.
    round: int = 0
    started_at: int | None = None
    completed_at: int | None = None
    deadline_at: int | None = None
    error: Raw | None = None
    # Failures that the job tolerates: failed iterations of completed loops, and failed nodes that are allowed to fail.
    failures: int = 0
    # Late results that events record, as [[node, index or -1, attempt], …]: each is recorded once.
    ignored: Raw | None = None

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.status in JOB_FINAL


class JobRecord(Struct, frozen=True, gc=False):
    """A job as stored: its spec, its state, and the sequence number of its last event."""

    spec: JobSpec
    state: JobState = field(default_factory=JobState)
    # The first event, job_created, is implied by the row itself.
    seq: int = 1


class JobSelection(Struct, frozen=True):
    """The fields of a spec or a state by which lists select jobs; None selects all.

    The conditions of every list and search, the parameters of the API and the check below are derived from them.
    """

    workflow_id: Id | None = None
    status: JobStatus | None = None
    # The job whose run started it, or that it repeats.
    parent_job_id: Id | None = None

    def selected(self) -> dict[str, Any]:
        """Return the values of these fields, without those that a subclass adds."""
        return {name: getattr(self, name) for name in JobSelection.__struct_fields__}

    def selects(self, job: JobRecord) -> bool:
        """Return whether the job has all values that are set."""
        for name, wanted in self.selected().items():
            if name in JobState.__struct_fields__:
                value = getattr(job.state, name)
            else:
                value = getattr(job.spec, name)
            if wanted is not None and wanted != value:
                return False
        return True
