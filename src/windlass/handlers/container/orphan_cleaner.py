"""Deletes Jobs that no worker follows: those of dead workers whose tasks were not taken over, and of ended attempts."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.connection import ClusterConnection
from windlass.handlers.container.errors import KubernetesRefused, KubernetesUnavailable
from windlass.handlers.container.identity import (
    FOLLOWED_ANNOTATION,
    INSTANCE_LABEL,
    MANAGED_BY,
    PREFIX,
    attempt_of,
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
    """Delete running Jobs that no worker followed for this long, and those of ended attempts; return their names."""
    followed_before = now - timedelta(seconds=orphan_seconds)
    jobs = await _listed(api, instance)
    latest = _latest_attempts(jobs)
    names: list[str] = []
    for job in jobs:
        meta = job.metadata
        if job.is_over or meta.deletion_timestamp is not None:
            continue
        # The version is a precondition: a Job that a worker has marked in the meantime is kept.
        is_unwanted = _is_superseded(job, latest) or _is_orphan(job, followed_before)
        if is_unwanted and await api.delete(meta.name, meta.uid, meta.resource_version):
            names.append(meta.name)
    return names


async def _listed(api: KubernetesApi, instance: str) -> list[KubernetesJob]:
    jobs: list[KubernetesJob] = []
    page_token = ""
    for _ in range(PAGES_MAX):
        page = await api.jobs({MANAGED_BY: PREFIX, INSTANCE_LABEL: instance}, page_token)
        jobs += page.items
        page_token = page.metadata.page_token
        if not page_token:
            break
    return jobs


def _latest_attempts(jobs: Iterable[KubernetesJob]) -> dict[str, int]:
    """Return the number of the latest attempt that has a Job, by task."""
    latest: dict[str, int] = {}
    for job in jobs:
        task, attempt = attempt_of(job.metadata.annotations)
        latest[task] = max(latest.get(task, 0), attempt)
    return latest


def _is_superseded(job: KubernetesJob, latest: Mapping[str, int]) -> bool:
    """Whether a later attempt of its task has a Job, so that its own attempt has ended."""
    task, attempt = attempt_of(job.metadata.annotations)
    return 0 < attempt < latest.get(task, 0)


def _is_orphan(job: KubernetesJob, followed_before: datetime) -> bool:
    try:
        followed_at = datetime.fromisoformat(
            (job.metadata.annotations or {}).get(FOLLOWED_ANNOTATION, "")
        )
    except ValueError:
        # Not created by Windlass.
        return False
    return followed_at.tzinfo is not None and followed_at < followed_before
