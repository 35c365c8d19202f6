"""Deletes Jobs that no worker follows: those of dead workers whose tasks were not taken over."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.connection import ClusterConnection
from windlass.handlers.container.errors import KubernetesRefused, KubernetesUnavailable
from windlass.handlers.container.identity import (
    FOLLOWED_ANNOTATION,
    INSTANCE_LABEL,
    MANAGED_BY,
    PREFIX,
)
from windlass.handlers.container.pods import KubernetesJob

# The first check is delayed too: a worker that takes over a Job needs time to mark it.
CHECK_SECONDS_MAX = 300.0
CHECKS_PER_LIMIT = 4
PAGES_MAX = 100

log = logging.getLogger(__name__)


async def clean_orphans(connection: ClusterConnection, instance: str, orphan_seconds: int) -> None:
    """Delete orphaned Jobs periodically, until cancelled."""
    while True:
        await asyncio.sleep(min(CHECK_SECONDS_MAX, orphan_seconds / CHECKS_PER_LIMIT))
        try:
            names = await delete_orphans(
                KubernetesApi(connection), instance, datetime.now(UTC), orphan_seconds
            )
        except (KubernetesUnavailable, KubernetesRefused) as error:
            log.warning("orphaned Jobs cannot be listed: %s", error)
        else:
            if names:
                log.warning("deleted %d orphaned Jobs: %s", len(names), ", ".join(names))


async def delete_orphans(
    api: KubernetesApi, instance: str, now: datetime, orphan_seconds: int
) -> list[str]:
    """Delete the running Jobs that no worker followed for this long; return their names."""
    followed_before = now - timedelta(seconds=orphan_seconds)
    names: list[str] = []
    page_token = ""
    for _ in range(PAGES_MAX):
        page = await api.jobs({MANAGED_BY: PREFIX, INSTANCE_LABEL: instance}, page_token)
        for job in page.items:
            # The version is a precondition: a Job that a worker has marked in the meantime is kept.
            meta = job.metadata
            if _is_orphan(job, followed_before) and await api.delete(
                meta.name, meta.uid, meta.resource_version
            ):
                names.append(meta.name)
        page_token = page.metadata.page_token
        if not page_token:
            break
    return names


def _is_orphan(job: KubernetesJob, followed_before: datetime) -> bool:
    if (
        job.condition("Complete")
        or job.condition("Failed")
        or job.metadata.deletion_timestamp is not None
    ):
        return False
    try:
        followed_at = datetime.fromisoformat(
            (job.metadata.annotations or {}).get(FOLLOWED_ANNOTATION, "")
        )
    except ValueError:
        # Not created by Windlass.
        return False
    return followed_at.tzinfo is not None and followed_at < followed_before
