"""The newest versions of workflows, cached by a store that is the only writer of its database."""

from windlass.ports.store.workflows import StoredWorkflow

WORKFLOWS_MAX = 64
DEFINITION_BYTES_MAX = 1 << 20


class WorkflowCache:
    """Caches the newest version of each workflow until it changes. A disabled cache is always empty."""

    def __init__(self, *, enabled: bool) -> None:
        self._is_enabled = enabled
        self._workflows: dict[str, StoredWorkflow] = {}
        # The number of changes so far: a version that was read before a change is not cached.
        self.changes = 0

    def get(self, workflow_id: str) -> StoredWorkflow | None:
        """Return the newest version, if it is cached."""
        return self._workflows.get(workflow_id)

    def put(self, workflow: StoredWorkflow, changes: int) -> None:
        """Cache a version, unless there were changes since `changes` was read."""
        if (
            not self._is_enabled
            or changes != self.changes
            or len(workflow.definition) > DEFINITION_BYTES_MAX
        ):
            return
        if len(self._workflows) >= WORKFLOWS_MAX:
            self._workflows.clear()
        self._workflows[workflow.workflow_id] = workflow

    def invalidate(self, workflow_id: str) -> None:
        """Remove a workflow that was changed, or may have been."""
        self.changes += 1
        self._workflows.pop(workflow_id, None)
