"""Waits until a deleted Job is gone, which is when its pods have stopped."""

import asyncio

from windlass.core.runs.containers import STOP_SECONDS_MAX
from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.errors import OUTAGES
from windlass.handlers.container.pods import KubernetesJob

GONE_PAUSE_SECONDS_MIN = 0.1
GONE_PAUSE_SECONDS_MAX = 2.0
# The cluster kills a pod at the end of its grace period; until its Job is gone it takes this much longer.
GONE_MARGIN_SECONDS = 15.0


def stop_seconds(grace_seconds: float) -> float:
    """Return how long a Job with this grace period may take to be gone once it is deleted."""
    return min(grace_seconds + GONE_MARGIN_SECONDS, STOP_SECONDS_MAX)


async def wait_until_gone(api: KubernetesApi, job: KubernetesJob) -> None:
    """Wait until the Job is gone, which is when its pods have stopped; callers bound it."""
    pause = GONE_PAUSE_SECONDS_MIN
    while True:
        await asyncio.sleep(pause)
        pause = min(pause * 2, GONE_PAUSE_SECONDS_MAX)
        try:
            found = await api.job(job.metadata.name)
        except OUTAGES:
            continue
        if found is None or found.metadata.uid != job.metadata.uid:
            return
