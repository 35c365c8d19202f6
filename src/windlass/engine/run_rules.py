"""Loads into the registry what the rules about runs need to know of a workflow."""

import logging

from windlass.core.errors import StoreUnavailable
from windlass.core.ids import WorkflowId
from windlass.core.runs.registry import RunRegistry
from windlass.core.runs.rules import RunRules
from windlass.engine.plan_cache import Plans
from windlass.ports.store import Store

# Rules of versions that stay in memory although no run uses them.
RULES_MAX = 1_000
log = logging.getLogger("windlass.engine")


class RunRulesLoader:
    """The rules of versions, and the results of last runs."""

    def __init__(self, registry: RunRegistry, store: Store, plans: Plans) -> None:
        # Workflows whose rows or rules cannot be used. They wait for an operator; the others continue.
        self.quarantined: set[WorkflowId] = set()
        self._registry = registry
        self._store = store
        self._plans = plans

    async def load(self, workflow_id: WorkflowId, version: int) -> bool:
        """Load the rules of a version; return False and quarantine the workflow when that fails."""
        if (workflow_id, version) in self._registry.rules:
            return True
        try:
            plan = await self._plans.get(workflow_id, version)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception(
                "workflow %s quarantined: version %d cannot be compiled", workflow_id, version
            )
            self.quarantined.add(workflow_id)
            return False
        if plan.runs is not None:
            self._forget_unused()
            self.put(workflow_id, version, plan.runs)
        return True

    def put(self, workflow_id: WorkflowId, version: int, rules: RunRules) -> None:
        """Keep the rules of a version."""
        self._registry.rules[workflow_id, version] = rules

    def _forget_unused(self) -> None:
        registry = self._registry
        if len(registry.rules) < RULES_MAX + 2 * len(registry.workflows):
            return
        used = {(run.workflow_id, run.version) for run in registry.runs()}
        registry.rules = {key: rules for key, rules in registry.rules.items() if key in used}

    async def load_last_success(self, workflow_id: WorkflowId) -> None:
        """Load whether the last run of a workflow succeeded, unless the registry has the workflow."""
        if workflow_id not in self._registry.workflows:
            found = await self._store.runs.last_successes([workflow_id])
            self._registry.workflow(workflow_id).last_succeeded = found.get(workflow_id)
