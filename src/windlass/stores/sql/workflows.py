"""Reading workflows and aliases, the same in both dialects."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.ports.store.workflows import AliasTarget, StoredWorkflow, WorkflowFilter
from windlass.stores.columns import WORKFLOW
from windlass.stores.database import Database, Row
from windlass.stores.rows import no_workflow

_decode_targets = msgspec.json.Decoder(list[AliasTarget]).decode


def workflows_of(rows: Iterable[Row]) -> list[StoredWorkflow]:
    """Return workflows from their rows."""
    return [WORKFLOW.row(row) for row in rows]


class SqlWorkflows:
    """The part of the WorkflowStore contract that only reads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        if version is None:
            row = await self._database.first("workflow_live", workflow_id=workflow_id)
        else:
            row = await self._database.first(
                "workflow_version", workflow_id=workflow_id, version=version
            )
        if row is None:
            raise no_workflow(workflow_id, version)
        return WORKFLOW.row(row)

    async def list(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        return await self._database.read(
            "workflow_list", workflows_of, after=wanted.after or "", limit=wanted.limit
        )

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        found = await self._database.read(
            "workflow_versions", workflows_of, workflow_id=workflow_id
        )
        if not found:
            raise no_workflow(workflow_id)
        return found

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        rows = await self._database.rows("alias_list", workflow_id=workflow_id)
        return {alias: _decode_targets(targets) for alias, targets in rows}
