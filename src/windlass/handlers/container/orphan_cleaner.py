"""Finds Jobs that no worker follows any more, and deletes them: those of dead workers whose tasks nobody wants back."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.connection import ClusterConnection
from windlass.handlers.container.errors import KubernetesRefused, KubernetesUnavailable
from windlass.handlers.container.identity import FOLLOWED_ANNOTATION
from windlass.handlers.container.pods import KubernetesJob

# The first look comes late too: whoever takes over from a dead worker must have had time to say so.
LOOK_SECONDS_MAX = 300.0
LOOKS_PER_LIMIT = 4
PAGES_MAX = 100

log = logging.getLogger(__name__)


async def keep(link: ClusterConnection, instance: str, orphan_seconds: int) -> None:
    """Look again and again, for as long as the worker lives."""
    while True:
        await asyncio.sleep(min(LOOK_SECONDS_MAX, orphan_seconds / LOOKS_PER_LIMIT))
        try:
            names = await delete_orphans(KubernetesApi(link), instance, datetime.now(UTC), orphan_seconds)
        except (KubernetesUnavailable, KubernetesRefused) as error:
            log.warning("Jobs without a worker cannot be looked for: %s", error)
        else:
            if names:
                log.warning("%d Jobs were deleted that no worker followed any more: %s", len(names), ", ".join(names))


async def delete_orphans(api: KubernetesApi, instance: str, now: datetime, orphan_seconds: int) -> list[str]:
    """Delete the Jobs that run and that nobody followed for so long; their names."""
    followed_before = now - timedelta(seconds=orphan_seconds)
    names: list[str] = []
    begin = ""
    for _ in range(PAGES_MAX):
        page = await api.jobs(instance, begin)
        for job in page.items:
            # The version is part of the question: a worker that has followed it meanwhile keeps it.
            meta = job.metadata
            if _is_orphan(job, followed_before) and await api.delete(meta.name, meta.uid, meta.resource_version):
                names.append(meta.name)
        begin = page.metadata.begin
        if not begin:
            break
    return names


def _is_orphan(job: KubernetesJob, followed_before: datetime) -> bool:
    if job.condition("Complete") or job.condition("Failed") or job.metadata.deletion_timestamp is not None:
        return False
    try:
        followed_at = datetime.fromisoformat((job.metadata.annotations or {}).get(FOLLOWED_ANNOTATION, ""))
    except ValueError:
        # Nothing that we made.
        return False
    return followed_at.tzinfo is not None and followed_at < followed_before
