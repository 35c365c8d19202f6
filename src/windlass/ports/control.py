"""What may be asked of the running system: submits, requests about jobs, and waiting for what becomes of them."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Raw, Struct, field

from windlass.core.jobs import JobRecord
from windlass.core.plan import Plan
from windlass.ports.runs import RunControl
from windlass.ports.store import SubmitResult


class Submit(Struct, frozen=True):
    """What a caller asks to be run. The input has been checked."""

    workflow_id: str
    version: int
    input: Raw
    priority: int = 0
    idempotency_key: str | None = None
    request_digest: str | None = None
    scheduled_at: int | None = None


class RunsCounted(Struct):
    """The runs of one workflow that ended since the process started."""

    # By final state; those without a job as `skipped`.
    ended: Counter[str] = field(default_factory=Counter)
    # How long the parts of their lives took, together.
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
    # Jobs that ended, by status.
    jobs: Mapping[str, int]
    # By workflow.
    runs: Mapping[str, RunsCounted]


class Control(Protocol):
    """The engine, as those see it who do not run jobs themselves."""

    @property
    def runs(self) -> RunControl:
        """What may be asked of schedules and runs."""
        ...

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """The compiled plan of a version; WorkflowNotFound."""
        ...

    async def submit(self, wanted: Submit) -> JobRecord:
        """Store a job and let it begin; once this returns, the job is never lost. IdempotencyConflict."""
        ...

    async def submit_all(self, wanted: Sequence[Submit]) -> Sequence[SubmitResult]:
        """Store many jobs in one transaction; an answer for each, conflicts among them."""
        ...

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Stop a job; one that has ended stays as it is. JobNotFound."""
        ...

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Run what failed or was cancelled again, or a node and all after it. RequestRefused, NotFound."""
        ...

    async def wait(self, job_id: str) -> None:
        """Return once the job has ended and its end is durable; JobNotFound."""
        ...

    def news(self, job_id: str) -> AbstractContextManager[asyncio.Event]:
        """An event that is set whenever something was stored about the job, until the block ends."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes run shards of the same jobs."""
        ...

    @property
    def shards(self) -> Sequence[int]:
        """The shards that this process runs now."""
        ...

    def counted(self) -> CountersSnapshot:
        """What this process has done since it started."""
        ...
