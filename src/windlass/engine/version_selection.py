"""Which version of a workflow is meant: a number, an alias, or the newest."""

from zlib import crc32

from windlass.core.errors import WorkflowNotFound
from windlass.ports.store import Store

LATEST = "latest"


async def version_of(store: Store, workflow_id: str, wanted: int | str | None, key: str) -> int:
    """The version; where an alias splits, the same one for the same key. WorkflowNotFound."""
    if wanted is None or wanted == LATEST:
        return (await store.workflows.get(workflow_id)).version
    if isinstance(wanted, int):
        return (await store.workflows.get(workflow_id, wanted)).version
    targets = (await store.workflows.aliases(workflow_id)).get(wanted, ())
    if not targets:
        raise WorkflowNotFound(f"workflow {workflow_id} has no alias {wanted!r}; set it, or name a version")
    place = crc32(key.encode()) % max(1, sum(target.weight for target in targets))
    for target in targets:
        place -= target.weight
        if place < 0:
            return target.version
    return targets[-1].version
