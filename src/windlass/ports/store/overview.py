"""The contract for queries across jobs: the data of lists, charts and statistics.

Nothing here is needed to run a job. Each query is bounded by its caller.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from windlass.core.changes import Event


class JobBrief(Struct, frozen=True):
    """A job without its input and its results."""

    job_id: str
    workflow_id: str
    version: int
    status: str
    created_at: int
    started_at: int | None = None
    completed_at: int | None = None


class NodeSpan(Struct, frozen=True):
    """When a node of a job ran, and its status."""

    job_id: str
    node_id: str
    status: str
    attempt: int
    # Of the last attempt, and of the first one if that started earlier.
    started_at: int | None = None
    completed_at: int | None = None
    first_started_at: int | None = None


class NodeEvents(Struct, frozen=True):
    """Events that do not belong to single iterations, and the number of the last event examined to find them."""

    events: Sequence[Event]
    last_seq: int


class OverviewStore(Protocol):
    """Queries about many jobs, and about parts of one job."""

    async def recent_jobs(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        """Return the newest jobs of each of these workflows, newest first."""
        ...

    async def ended_jobs(
        self, workflow_id: str, version: int | None, limit: int, examined_max: int
    ) -> Sequence[JobBrief]:
        """Return jobs of a workflow that have ended, newest first, among its `examined_max` newest jobs."""
        ...

    async def active_jobs(self, since: int, limit: int) -> Sequence[JobBrief]:
        """Return jobs that were created or ended at or after an instant, the latest change first."""
        ...

    async def unfinished_count(self, limit: int) -> int:
        """Count the jobs that have not ended, up to the limit."""
        ...

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        """Return the nodes of these jobs that left PENDING."""
        ...

    async def node_events(
        self, job_id: str, after_seq: int, limit: int, examined_max: int
    ) -> NodeEvents:
        """Return events after a number that do not belong to single iterations, among the next `examined_max`."""
        ...

    async def collection_chunks(
        self, job_id: str, number: int, generation: int, first: int, last: int
    ) -> Sequence[bytes]:
        """Return chunks of the recorded collection of a loop, each a JSON array."""
        ...
