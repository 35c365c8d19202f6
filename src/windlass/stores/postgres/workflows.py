"""Workflows and aliases in PostgreSQL."""

from collections.abc import Sequence

from msgspec import Raw

from windlass.core.errors import RequestRefused, WindlassError
from windlass.ports.store.workflows import AliasTarget, StoredWorkflow
from windlass.stores.columns import WORKFLOW
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.pool import Session
from windlass.stores.postgres.runs import PostgresRuns
from windlass.stores.rows import encoded_text, no_versions, no_workflow
from windlass.stores.sql.workflows import SqlWorkflows


class PostgresWorkflows(SqlWorkflows):
    """The WorkflowStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements, runs: PostgresRuns) -> None:
        super().__init__(database)
        self._postgres = database
        self._runs = runs

    async def put(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        async def put(session: Session) -> StoredWorkflow:
            async with session.transaction():
                await self._postgres.execute(session, "workflow_lock", workflow_id=workflow_id)
                newest = await self._postgres.execute(
                    session, "workflow_newest", workflow_id=workflow_id
                )
                version = 1
                if newest:
                    *row, is_deleted = newest[0]
                    found = WORKFLOW.row(row)
                    if found.digest == digest and not is_deleted:
                        return found
                    version = found.version + 1
                stored = StoredWorkflow(
                    workflow_id, version, definition, digest, created_at=now, is_new=True
                )
                values = dict(zip(WORKFLOW.names, WORKFLOW.values(stored), strict=True))
                await self._postgres.execute(session, "workflow_insert", **values)
                await self._runs.deploy(session, stored)
                return stored

        return await self._postgres.change(put)

    async def delete(self, workflow_id: str, now: int, *, force: bool) -> None:
        async def delete(session: Session) -> WindlassError | None:
            async with session.transaction():
                await self._postgres.execute(session, "workflow_lock", workflow_id=workflow_id)
                counted = await self._postgres.execute(
                    session, "workflow_unfinished_count", workflow_id=workflow_id
                )
                count = counted[0][0]
                if count and not force:
                    return RequestRefused(
                        f"workflow {workflow_id} has unfinished jobs: {count}; wait for them, cancel them, or use force"
                    )
                deleted = await self._postgres.execute(
                    session, "workflow_delete", workflow_id=workflow_id, now=now
                )
                await self._postgres.execute(session, "alias_delete_all", workflow_id=workflow_id)
                await self._runs.remove_schedule(session, workflow_id, now)
                return None if deleted else no_workflow(workflow_id)

        refusal = await self._postgres.change(delete)
        if refusal is not None:
            raise refusal

    async def put_alias(
        self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int
    ) -> None:
        if not targets:
            await self._postgres.write("alias_delete", workflow_id=workflow_id, alias=alias)
            return
        versions = sorted({target.version for target in targets})

        async def put(session: Session) -> WindlassError | None:
            async with session.transaction():
                await self._postgres.execute(session, "workflow_lock", workflow_id=workflow_id)
                live = await self._postgres.execute(
                    session, "workflow_live", workflow_id=workflow_id
                )
                if not live:
                    return no_workflow(workflow_id)
                [(count,)] = await self._postgres.execute(
                    session, "workflow_version_count", workflow_id=workflow_id, versions=versions
                )
                if count != len(versions):
                    return no_versions(workflow_id, versions)
                await self._postgres.execute(
                    session,
                    "alias_put",
                    workflow_id=workflow_id,
                    alias=alias,
                    targets=encoded_text(targets),
                    now=now,
                )
                return None

        refusal = await self._postgres.change(put)
        if refusal is not None:
            raise refusal
