"""What becomes of a Job and its pods: listed, then watched, then listed again, so that nothing missed stays missed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.errors import KubernetesUnavailable
from windlass.handlers.container.pods import KubernetesJob, Pod
from windlass.ports.handler import Context

PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 15.0
# A watch that ends sooner did not do well: the next one waits a little.
WATCH_SECONDS_MIN = 1.0


class PodObservation(Struct, frozen=True):
    """A Job, None when it is gone, and its pods. `gone` are pods as they were when they were deleted."""

    job: KubernetesJob | None
    pods: list[Pod]
    gone: list[Pod] = []


async def observe_pods(
    ctx: Context, api: KubernetesApi, name: str, reconcile_seconds: int
) -> AsyncGenerator[PodObservation]:
    """The state of things, at once and after every change, for as long as somebody asks. An API server that is away
    is waited for: the pod does not need it to go on."""
    loop = asyncio.get_running_loop()
    pause = PAUSE_SECONDS_MIN
    while True:
        began = loop.time()
        try:
            async with aclosing(_round(api, name, reconcile_seconds)) as seen:
                async for sighting in seen:
                    yield sighting
        except KubernetesUnavailable as error:
            ctx.log(f"the cluster is asked again in {pause:.2g} s ({error})", "debug")
        if loop.time() - began >= WATCH_SECONDS_MIN:
            pause = PAUSE_SECONDS_MIN
        else:
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)


async def _round(api: KubernetesApi, name: str, seconds: int) -> AsyncGenerator[PodObservation]:
    """One list and the watch after it, until that ends or a pod is gone."""
    job = await api.follow(name)
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
