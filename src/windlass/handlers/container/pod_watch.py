"""Observes a Job and its pods: a list, then a watch, then a list again, so that missed events are recovered."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.errors import OUTAGES
from windlass.handlers.container.patience import (
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    OnOutage,
)
from windlass.handlers.container.pods import KubernetesJob, Pod

# After a watch that ended sooner, the next one is delayed.
WATCH_SECONDS_MIN = 1.0


class PodObservation(Struct, frozen=True):
    """A Job (None if deleted) and its pods. `deleted` are pods in their last known state."""

    job: KubernetesJob | None
    pods: list[Pod]
    deleted: list[Pod] = []


async def observe_pods(
    api: KubernetesApi,
    name: str,
    reconcile_seconds: int,
    on_outage: OnOutage,
) -> AsyncGenerator[PodObservation]:
    """Yield the current state, then every change, without end.

    While the API server is unavailable or denies access, report it with the pause and wait: the pod runs without it.
    """
    loop = asyncio.get_running_loop()
    pause = PAUSE_SECONDS_MIN
    while True:
        began = loop.time()
        try:
            async with aclosing(_list_and_watch(api, name, reconcile_seconds)) as observations:
                async for observation in observations:
                    yield observation
        except OUTAGES as error:
            on_outage(error, pause)
        if loop.time() - began >= WATCH_SECONDS_MIN:
            pause = PAUSE_SECONDS_MIN
        else:
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)


async def _list_and_watch(
    api: KubernetesApi, name: str, seconds: int
) -> AsyncGenerator[PodObservation]:
    """List the pods, then watch them until the watch ends or a pod is deleted."""
    job = await api.mark_followed(name)
    listed = await api.pods(name)
    pods = {pod.metadata.uid: pod for pod in listed.items}
    yield PodObservation(job, list(pods.values()))
    async with aclosing(api.watch(name, listed.metadata.resource_version, seconds)) as events:
        async for kind, pod in events:
            if kind == "DELETED":
                pods.pop(pod.metadata.uid, None)
                yield PodObservation(job, list(pods.values()), [pod])
                return
            pods[pod.metadata.uid] = pod
            yield PodObservation(job, list(pods.values()))
