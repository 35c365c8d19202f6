"""What a store that alone writes to its database remembers of it: the newest versions of workflows."""

from windlass.ports.store.workflows import StoredWorkflow

KEPT_MAX = 64
DEFINITION_BYTES_MAX = 1 << 20


class WorkflowCache:
    """The newest version of each workflow that was read, until it is changed. One that is not `kept` knows nothing."""

    def __init__(self, *, kept: bool) -> None:
        self._is_kept = kept
        self._workflows: dict[str, StoredWorkflow] = {}
        # How often anything was changed: what was read before a change is not kept.
        self.changes = 0

    def get(self, workflow_id: str) -> StoredWorkflow | None:
        """The newest version, as far as it is known."""
        return self._workflows.get(workflow_id)

    def keep(self, workflow: StoredWorkflow, changes: int) -> None:
        """Remember what was read, if there were as many changes before it as there are now."""
        if not self._is_kept or changes != self.changes or len(workflow.definition) > DEFINITION_BYTES_MAX:
            return
        if len(self._workflows) >= KEPT_MAX:
            self._workflows.clear()
        self._workflows[workflow.workflow_id] = workflow

    def forget(self, workflow_id: str) -> None:
        """A workflow was changed, or may have been."""
        self.changes += 1
        self._workflows.pop(workflow_id, None)
