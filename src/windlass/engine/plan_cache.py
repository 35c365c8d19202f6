"""Compiled plans by workflow version, compiled once and shared by all jobs of the version."""

from collections import OrderedDict
from collections.abc import Callable

from windlass.core.plan import Plan
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, webhook_plan
from windlass.ports.store import Store
from windlass.ports.store.workflows import StoredWorkflow

PLANS_MAX = 256


class Plans:
    """Reads definitions from the store and caches the most recently used plans. Versions never change."""

    def __init__(self, store: Store, compile_plan: Callable[[StoredWorkflow], Plan]) -> None:
        self._store = store
        self._compile = compile_plan
        self._plans: OrderedDict[tuple[str, int], Plan] = OrderedDict()

    async def get(self, workflow_id: str, version: int) -> Plan:
        """Return the plan of a version; WorkflowNotFound."""
        key = (workflow_id, version)
        plan = self._plans.get(key)
        if plan is None:
            if workflow_id == WEBHOOK_WORKFLOW:
                plan = webhook_plan(version)
            else:
                plan = self._compile(await self._store.workflows.get(workflow_id, version))
            self._plans[key] = plan
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan
