"""The store's contract: one attribute per concept, and the commit that writes for all of them.

Rows are the source of truth; in-memory state is rebuilt from them.
"""

from collections.abc import Awaitable
from typing import Protocol

from windlass.core.changes import Changes
from windlass.ports.store.jobs import JobStore
from windlass.ports.store.leases import LeaseStore
from windlass.ports.store.logs import LogStore
from windlass.ports.store.overview import OverviewStore
from windlass.ports.store.runs import RunStore
from windlass.ports.store.workflows import WorkflowStore


class Store(Protocol):
    """A database. The writes of one call are one transaction; they are durable when the call returns."""

    @property
    def workflows(self) -> WorkflowStore:
        """Definitions and aliases."""
        ...

    @property
    def jobs(self) -> JobStore:
        """Jobs with their nodes, iterations, events, requests and results."""
        ...

    @property
    def leases(self) -> LeaseStore:
        """Ownership of shards."""
        ...

    @property
    def logs(self) -> LogStore:
        """Log lines of tasks."""
        ...

    @property
    def runs(self) -> RunStore:
        """Schedules, runs and deliveries."""
        ...

    @property
    def overview(self) -> OverviewStore:
        """Queries across jobs."""
        ...

    def commit(self, shard: int, epoch: int, changes: Changes) -> Awaitable[None]:
        """Store all changes or none. StaleLease when the epoch is not the shard's; CommitUnknown on any failure."""
        ...

    async def close(self) -> None:
        """Finish accepted writes and close the database."""
        ...
