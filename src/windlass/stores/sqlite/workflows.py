"""Workflows and aliases in SQLite."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Raw

from windlass.core.errors import RequestRefused
from windlass.ports.store.workflows import AliasTarget, StoredWorkflow
from windlass.stores.columns import WORKFLOW
from windlass.stores.rows import encoded_text, no_versions, no_workflow
from windlass.stores.sql.workflows import SqlWorkflows
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements
from windlass.stores.sqlite.runs import SqliteRuns
from windlass.stores.sqlite.workflow_cache import WorkflowCache

T = TypeVar("T")


class SqliteWorkflows(SqlWorkflows):
    """The WorkflowStore contract on one SQLite file."""

    def __init__(self, database: SqliteStatements, runs: SqliteRuns, cache: WorkflowCache) -> None:
        super().__init__(database)
        self._sqlite = database
        self._runs = runs
        self._cache = cache

    async def get(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        if version is not None:
            return await super().get(workflow_id, version)
        cached = self._cache.get(workflow_id)
        if cached is not None:
            return cached
        changes = self._cache.changes
        found = await super().get(workflow_id)
        self._cache.put(found, changes)
        return found

    async def put(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        def put(connection: Connection) -> StoredWorkflow:
            newest = self._sqlite.execute_first(
                connection, "workflow_newest", workflow_id=workflow_id
            )
            version = 1
            if newest is not None:
                *row, is_deleted = newest
                found = WORKFLOW.row(row)
                if found.digest == digest and not is_deleted:
                    return found
                version = found.version + 1
            stored = StoredWorkflow(
                workflow_id, version, definition, digest, created_at=now, is_new=True
            )
            values = dict(zip(WORKFLOW.names, WORKFLOW.values(stored), strict=True))
            self._sqlite.execute(connection, "workflow_insert", **values)
            self._runs.deploy(connection, stored)
            return stored

        return await self._change(workflow_id, put)

    async def delete(self, workflow_id: str, now: int, *, force: bool) -> None:
        def delete(connection: Connection) -> None:
            row = self._sqlite.execute_first(
                connection, "workflow_unfinished_count", workflow_id=workflow_id
            )
            assert row is not None
            if row[0] and not force:
                raise RequestRefused(
                    f"workflow {workflow_id} has unfinished jobs: {row[0]}; wait for them, cancel them, or use force"
                )
            deleted = self._sqlite.execute_first(
                connection, "workflow_delete", workflow_id=workflow_id, now=now
            )
            if deleted is None:
                raise no_workflow(workflow_id)
            self._sqlite.execute(connection, "alias_delete_all", workflow_id=workflow_id)
            self._runs.remove_schedule(connection, workflow_id, now)

        await self._change(workflow_id, delete)

    async def _change(self, workflow_id: str, operation: Callable[[Connection], T]) -> T:
        changed = self._sqlite.writer.write(operation)
        changed.add_done_callback(lambda _: self._cache.invalidate(workflow_id))
        # A canceled caller does not stop the change, and its end must still clear the cache.
        return await asyncio.shield(changed)

    async def put_alias(
        self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int
    ) -> None:
        def put(connection: Connection) -> None:
            if not targets:
                self._sqlite.execute(
                    connection, "alias_delete", workflow_id=workflow_id, alias=alias
                )
                return
            versions = sorted({target.version for target in targets})
            live = self._sqlite.execute_first(connection, "workflow_live", workflow_id=workflow_id)
            if live is None:
                raise no_workflow(workflow_id)
            found = self._sqlite.execute_first(
                connection, "workflow_version_count", workflow_id=workflow_id, versions=versions
            )
            if found is None or found[0] != len(versions):
                raise no_versions(workflow_id, versions)
            self._sqlite.execute(
                connection,
                "alias_put",
                workflow_id=workflow_id,
                alias=alias,
                targets=encoded_text(targets),
                now=now,
            )

        await self._sqlite.transact(put)
