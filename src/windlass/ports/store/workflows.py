"""The contract for workflows: versions of definitions and aliases."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Raw, Struct

# The alias that every workflow has: its newest version.
LATEST = "latest"


class StoredWorkflow(Struct, frozen=True):
    """One version of a workflow: its canonical definition as JSON and the digest that identifies its content."""

    workflow_id: str
    version: int
    definition: Raw
    digest: str
    created_at: int
    # Whether the call that returned it created the version.
    is_new: bool = False


class AliasTarget(Struct, frozen=True):
    """A version that an alias points at, and its share of the submits."""

    version: int
    weight: int = 100


class WorkflowFilter(Struct, frozen=True):
    """A page of a list of workflows, ordered by id."""

    after: str | None = None
    limit: int = 50


class WorkflowStore(Protocol):
    """Stores workflows and aliases."""

    async def put(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        """Store a definition as the next version, or return the newest version when its digest is the same."""
        ...

    async def get(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        """Return a version, by default the newest one of a workflow that is not deleted; WorkflowNotFound."""
        ...

    async def list(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        """Return the newest version of each workflow that is not deleted, ordered by id."""
        ...

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        """Return all versions, newest first, also of a deleted workflow; WorkflowNotFound."""
        ...

    async def delete(self, workflow_id: str, now: int, *, force: bool) -> None:
        """Hide a workflow, delete its aliases and refuse its submits; its versions and jobs stay.

        RequestRefused while it has unfinished jobs, unless forced; WorkflowNotFound.
        """
        ...

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        """Return the aliases that were set; LATEST is not one of them."""
        ...

    async def put_alias(
        self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int
    ) -> None:
        """Point an alias at versions, or remove it when there are none.

        WorkflowNotFound for a missing version or a deleted workflow.
        """
        ...
