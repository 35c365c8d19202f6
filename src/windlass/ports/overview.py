"""The contract for looking across jobs: what lists, charts and statistics are made of. A store has it as `overview`.

Nothing here is needed to run a job. Every question is bounded by whoever asks it.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from windlass.core.events import Event


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
    """When a node of a job ran, and how it ended."""

    job_id: str
    node_id: str
    status: str
    attempt: int
    started_at: int | None = None
    completed_at: int | None = None


class NodeEvents(Struct, frozen=True):
    """Events that are not of single iterations, and the number of the last event that was looked at to find them."""

    events: Sequence[Event]
    last_seq: int


class Overview(Protocol):
    """Questions about many jobs, and about one job without all of it."""

    async def recent(self, workflow_ids: Sequence[str], each: int) -> Sequence[JobBrief]:
        """The newest jobs of each of these workflows, newest first."""
        ...

    async def ended(self, workflow_id: str, version: int | None, limit: int, looked_at_max: int) -> Sequence[JobBrief]:
        """Jobs of a workflow that have ended, newest first, among as many of its newest jobs as may be looked at."""
        ...

    async def active(self, since: int, limit: int) -> Sequence[JobBrief]:
        """Jobs that were created or ended at or after an instant, those last heard of first."""
        ...

    async def unfinished_count(self, limit: int) -> int:
        """How many jobs have not ended; no further than the limit."""
        ...

    async def node_spans(self, job_ids: Sequence[str], limit: int) -> Sequence[NodeSpan]:
        """The nodes of these jobs that began, or that ended without."""
        ...

    async def node_events(self, job_id: str, after_seq: int, limit: int, looked_at_max: int) -> NodeEvents:
        """Events of a job after a number that are not of single iterations, among as many as may be looked at."""
        ...

    async def blocks(self, job_id: str, number: int, generation: int, first: int, last: int) -> Sequence[bytes]:
        """Blocks of the collection that a loop was recorded with, each a JSON array."""
        ...
