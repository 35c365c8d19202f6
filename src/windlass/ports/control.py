"""The contract for the running engine: requests about jobs and runs, and waiting for their results."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct, field

from windlass.core.errors import WindlassError
from windlass.core.ids import JobId
from windlass.core.messages import TaskFinished
from windlass.core.plan import Plan
from windlass.core.report_verdict import ReportVerdict
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.scheduling import Backfill
from windlass.core.submit_request import SubmitRequest
from windlass.ports.store.jobs import SubmitResult


class RunsCounted(Struct):
    """The runs of one workflow that finished since the process started."""

    # By final state; `skipped` for runs without a job.
    finished: Counter[str] = field(default_factory=Counter)
    # The total time of each phase.
    seconds: Counter[str] = field(default_factory=Counter)
    # By outcome: done, failed.
    actions: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    violations: int = 0


class CountersSnapshot(Struct, frozen=True):
    """What the process has done since it started."""

    commits: int
    events: int
    tasks: int
    # Jobs that finished, by status.
    jobs: Mapping[str, int]
    # By workflow.
    runs: Mapping[str, RunsCounted]


class RunControl(Protocol):
    """Requests about schedules and runs; durable when the call returns."""

    async def pause(self, workflow_id: str) -> ScheduleRow:
        """Stop a schedule from starting runs; active runs continue. ScheduleNotFound."""
        ...

    async def resume(self, workflow_id: str) -> ScheduleRow:
        """Resume a schedule with its next slot; slots during the pause are skipped. ScheduleNotFound."""
        ...

    async def backfill(self, workflow_id: str, since: int, until: int) -> Backfill:
        """Run the slots after `since` and up to `until` that have no run, or whose run was cancelled or had no job.

        Oldest first. ScheduleNotFound, RequestRefused (too many, or not in the past).
        """
        ...

    async def unfilled(self, workflow_id: str, since: int, until: int) -> Backfill:
        """Return what a backfill would run now. Raises as `backfill`."""
        ...

    async def cancel(self, run_id: str, reason: str | None = None) -> bool:
        """Stop a run and its job; a run that has finished does not change. RunNotFound.

        Returns whether this was done in time; otherwise it will be soon."""
        ...

    async def redeliver(self, delivery_id: str) -> str:
        """Repeat a delivery as a new job and return the job's id. DeliveryNotFound."""
        ...


class JobControl(Protocol):
    """Requests about jobs; durable when the call returns."""

    async def submit(
        self, request: SubmitRequest, asked: object = None, *, repeats: JobId | None = None
    ) -> SubmitResult:
        """Store a job and start it, or return the one that the idempotency key names.

        `asked` is what the caller sent, where the request was derived from it: it identifies a repeated request.
        `repeats` is the job whose rerun it is.
        InputInvalid, WorkflowNotFound, IdempotencyConflict.
        """
        ...

    async def submit_all(self, requests: Sequence[SubmitRequest]) -> Sequence[SubmitResult]:
        """Store jobs in one transaction and start them. Raises as `submit`; an invalid request stores nothing."""
        ...

    async def submit_each(
        self, requests: Sequence[SubmitRequest]
    ) -> Sequence[SubmitResult | WindlassError]:
        """Store the jobs of valid requests in one transaction; return a result or an error for each request."""
        ...

    async def cancel(self, job_id: str, reason: str | None = None) -> bool:
        """Stop a job; one that has finished does not change. JobNotFound.

        Returns whether this was done in time; otherwise it will be soon."""
        ...

    async def retry(self, job_id: str, from_node: str | None = None) -> bool:
        """Run failed and cancelled nodes again, or a node and all downstream nodes. RequestRefused, NotFound.

        Returns whether this was done in time; otherwise it will be soon."""
        ...

    async def report(self, task_id: str, shard: int, message: TaskFinished) -> ReportVerdict | None:
        """Store the result of a task, send it to its shard and return the core's verdict.

        None if it was not applied in time: it is durable and will be.
        """
        ...

    async def wait(self, job_id: str) -> None:
        """Return once the job has finished and its end is durable; JobNotFound."""
        ...

    def subscribe(self, job_id: str) -> AbstractContextManager[asyncio.Event]:
        """Yield an event that is set whenever the job changes, until the block ends."""
        ...


class Control(Protocol):
    """The engine as its callers see it."""

    @property
    def jobs(self) -> JobControl:
        """Requests about jobs."""
        ...

    @property
    def runs(self) -> RunControl:
        """Requests about schedules and runs."""
        ...

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """Return the compiled plan of a version; WorkflowNotFound."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes run shards of the same jobs."""
        ...

    @property
    def shards(self) -> Sequence[int]:
        """The shards that this process runs now."""
        ...

    @property
    def shard_count(self) -> int:
        """How many shards there are, in all processes."""
        ...

    @property
    def worker_timeout_seconds(self) -> float:
        """After which time without a heartbeat an engine counts a worker as lost."""
        ...

    def counters(self) -> CountersSnapshot:
        """Return what this process has done since it started."""
        ...
