"""Workflows and aliases in dictionaries."""

from collections.abc import Mapping, Sequence

from msgspec import Raw, structs

from windlass.core.errors import RequestRefused
from windlass.ports.store.workflows import AliasTarget, StoredWorkflow, WorkflowFilter
from windlass.stores.memory.runs import MemoryRuns
from windlass.stores.memory.tables import Tables
from windlass.stores.rows import no_versions, no_workflow


class MemoryWorkflows:
    """The WorkflowStore contract in the memory of one process."""

    def __init__(self, tables: Tables, runs: MemoryRuns) -> None:
        self._tables = tables
        self._runs = runs
        self._aliases: dict[str, dict[str, Sequence[AliasTarget]]] = {}
        # The number of versions a workflow had when it was deleted; a further version makes it live again.
        self._deleted: dict[str, int] = {}

    async def put(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        self._tables.check_open()
        versions = self._tables.workflows.setdefault(workflow_id, [])
        if versions and versions[-1].digest == digest and not self._is_deleted(workflow_id):
            return versions[-1]
        stored = StoredWorkflow(workflow_id, len(versions) + 1, definition, digest, created_at=now)
        versions.append(stored)
        self._runs.deploy(stored)
        return structs.replace(stored, is_new=True)

    async def get(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        versions = self._versions(workflow_id)
        if version is None:
            if not versions or self._is_deleted(workflow_id):
                raise no_workflow(workflow_id)
            return versions[-1]
        if not 1 <= version <= len(versions):
            raise no_workflow(workflow_id, version)
        return versions[version - 1]

    async def list(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        after = wanted.after or ""
        live = [one for one in self._tables.workflows if one > after and not self._is_deleted(one)]
        return [
            self._tables.workflows[workflow_id][-1] for workflow_id in sorted(live)[: wanted.limit]
        ]

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        versions = self._versions(workflow_id)
        if not versions:
            raise no_workflow(workflow_id)
        return versions[::-1]

    async def delete(self, workflow_id: str, now: int, *, force: bool) -> None:
        self._tables.check_open()
        jobs = self._tables.job_rows()
        count = sum(job.spec.workflow_id == workflow_id and not job.state.is_final for job in jobs)
        if count and not force:
            raise RequestRefused(
                f"workflow {workflow_id} has unfinished jobs: {count}; cancel them, or use force"
            )
        if not self._versions(workflow_id) or self._is_deleted(workflow_id):
            raise no_workflow(workflow_id)
        self._deleted[workflow_id] = len(self._versions(workflow_id))
        self._aliases.pop(workflow_id, None)
        self._runs.remove_schedule(workflow_id, now)

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        return dict(self._aliases.get(workflow_id, {}))

    async def put_alias(
        self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int
    ) -> None:
        self._tables.check_open()
        aliases = self._aliases.setdefault(workflow_id, {})
        if not targets:
            aliases.pop(alias, None)
            return
        if self._is_deleted(workflow_id):
            raise no_workflow(workflow_id)
        count = len(self._versions(workflow_id))
        if not all(1 <= target.version <= count for target in targets):
            raise no_versions(workflow_id, [target.version for target in targets])
        aliases[alias] = list(targets)

    def _versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        return self._tables.workflows.get(workflow_id, [])

    def _is_deleted(self, workflow_id: str) -> bool:
        return self._deleted.get(workflow_id) == len(self._versions(workflow_id))
