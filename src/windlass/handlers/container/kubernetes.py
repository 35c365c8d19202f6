"""Runs a container as a Kubernetes Job: creates it or takes over the one that is there, sees it through, cleans up."""

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import Any

from windlass.handlers.command import ExitCodeError
from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.connection import ClusterConnection
from windlass.handlers.container.errors import (
    JobNameTaken,
    KubernetesRefused,
    KubernetesUnavailable,
    NodeLost,
    PodLost,
    PodStartTimeout,
)
from windlass.handlers.container.identity import TASK_ANNOTATION, identity_of
from windlass.handlers.container.manifest import JobManifest, KubernetesConfig, build
from windlass.handlers.container.params import ContainerParams, means_success, result_of, seconds_of
from windlass.handlers.container.pod_log import PodLog
from windlass.handlers.container.pod_watch import PodObservation, observe_pods
from windlass.handlers.container.pods import (
    ContainerStateTerminated,
    KubernetesJob,
    Pod,
    container_end,
    disruption_error,
    has_started,
    job_error,
    out_of_memory_error,
    start_error,
    started_at,
    waiting_reason,
)
from windlass.ports.handler import Context

DELETE_TRIES_MAX = 3


async def run_on_kubernetes(
    ctx: Context, order: ContainerParams, link: ClusterConnection, rules: KubernetesConfig
) -> dict[str, Any]:
    """Run the container to its end; the output of its node."""
    origin = order.origin
    identity = identity_of(ctx) if origin is None else identity_of(ctx, origin.workflow_id, origin.scheduled_at)
    manifest = build(order, identity, rules, ctx.timeout_seconds)
    start_seconds = rules.start_timeout_seconds
    if order.start_timeout is not None:
        start_seconds = seconds_of(order.start_timeout, "start_timeout")
    attempt = KubernetesAttempt(ctx, KubernetesApi(link), rules, manifest)
    try:
        terminated = await attempt.see_through(start_seconds)
        output = attempt.output(terminated, order)
        if not attempt.is_over:
            # Containers beside the task would go on without it.
            await attempt.remove()
        return output
    except (asyncio.CancelledError, Exception) as error:
        if not attempt.is_over and not _is_left_to_others(ctx, error):
            await attempt.remove()
        raise
    finally:
        attempt.tell_meta()
        await attempt.stop()


def _is_left_to_others(ctx: Context, error: BaseException) -> bool:
    """Whether the Job should go on: another worker takes the attempt over, or this one goes down as in a crash."""
    return isinstance(error, asyncio.CancelledError) and (ctx.handed_back or not ctx.cancelled)


class KubernetesAttempt:
    """One Job under our eyes."""

    def __init__(self, ctx: Context, api: KubernetesApi, rules: KubernetesConfig, manifest: JobManifest) -> None:
        # The container has ended by itself: its Job stays for whoever may have to read it again, until its TTL.
        self.is_over = False
        self._ctx = ctx
        self._api = api
        self._rules = rules
        self._manifest = manifest
        self._name: str = manifest.body["metadata"]["name"]
        self._main = manifest.main
        self._creating: asyncio.Task[KubernetesJob | None] | None = None
        self._created_when: float | None = None
        self._job: KubernetesJob | None = None
        self._pod: Pod | None = None
        self._pod_start_seconds: float | None = None
        self._log: PodLog | None = None

    async def see_through(self, start_seconds: float) -> ContainerStateTerminated:
        """Create or adopt the Job, and follow it to the end of its container."""
        seen: PodObservation | None = None
        try:
            async with asyncio.timeout(start_seconds) as until_start:
                await self._create_or_adopt()
                watched = observe_pods(self._ctx, self._api, self._name, self._rules.reconcile_seconds)
                async with aclosing(watched) as looks:
                    async for seen in looks:
                        terminated = self._judge(seen)
                        if self._log is not None:
                            until_start.reschedule(None)
                        if terminated is not None:
                            break
                    else:
                        raise PodLost(f"nobody looks at Job {self._name} any more")
        except TimeoutError:
            why = waiting_reason(self._job, self._pod, self._main)
            raise PodStartTimeout(f"Job {self._name} did not start within {start_seconds:g} s: {why}") from None
        if self._log is not None:
            await self._log.finish()
        self._refuse_disruption(terminated)
        return terminated

    def output(self, terminated: ContainerStateTerminated, order: ContainerParams) -> dict[str, Any]:
        """What the node returns; the error of a container that failed."""
        code, pod = terminated.exit_code, self._pod
        self._ctx.meta["exit_code"] = code
        if not means_success(order, code):
            said = self._log.end if self._log is not None else ""
            said = said or terminated.message or terminated.reason
            raise ExitCodeError(f"container {self._main!r} exited with code {code}" + (f": {said}" if said else ""))
        return {
            "exit_code": code,
            "runtime": "kubernetes",
            "job_name": self._name,
            "pod_name": pod.metadata.name if pod is not None else None,
            "pod_start_seconds": self._pod_start_seconds,
            "api_calls": self._api.calls,
            "result": result_of(terminated.message, self._log.last_line if self._log is not None else ""),
            **({"truncated": True} if self._log is not None and self._log.truncated else {}),
        }

    def tell_meta(self) -> None:
        """Leave beside the output what is known in every case, failures included."""
        meta = self._ctx.meta
        meta["runtime"] = "kubernetes"
        meta["job_name"] = self._name
        meta["api_calls"] = self._api.calls
        if self._pod is not None:
            meta["pod_name"] = self._pod.metadata.name
            meta["node_name"] = self._pod.spec.node_name
        if self._pod_start_seconds is not None:
            meta["pod_start_seconds"] = self._pod_start_seconds

    async def remove(self) -> None:
        """Delete the Job and its pods, even when this attempt is stopped meanwhile."""
        await asyncio.shield(self._api.link.spawn(self._remove()))

    async def stop(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            await self._log.stop()

    async def _create_or_adopt(self) -> None:
        # A request that is under way cannot be taken back: it comes to its end, so that what it made can be removed.
        self._creating = self._api.link.spawn(self._api.create(self._manifest.body))
        created = await asyncio.shield(self._creating)
        if created is not None:
            self._job = created
            self._created_when = asyncio.get_running_loop().time()
            self._ctx.log(f"created Job {self._name}", "debug")
            return
        found = await self._api.job(self._name)
        if found is None or found.metadata.deletion_timestamp is not None:
            raise PodLost(f"Job {self._name} of this attempt is being deleted")
        if not self._is_ours(found):
            task = (found.metadata.annotations or {}).get(TASK_ANNOTATION, "nobody")
            raise JobNameTaken(f"Job {self._name} is there already and belongs to {task}: delete or rename it")
        self._job = found
        self._ctx.log(f"took over Job {self._name}, which another worker began; its log is told again", "info")

    def _judge(self, seen: PodObservation) -> ContainerStateTerminated | None:
        """What a look at the Job means: how its container ended, None while it may still run; or it raises."""
        if seen.job is not None:
            self._job = seen.job
        known = self._pod
        pods = [*seen.gone, *seen.pods]
        others = [pod for pod in pods if known is not None and pod.metadata.uid != known.metadata.uid]
        if others or len(seen.pods) > 1:
            names = ", ".join(sorted(pod.metadata.name for pod in pods))
            raise PodLost(
                f"Job {self._name} has made another pod after the first ({names}): the attempt is not repeated"
            )
        if not pods:
            return self._judge_without_pod(seen, known)
        self._pod = pod = pods[0]
        if has_started(pod, self._main):
            self._note_start(pod)
        terminated = container_end(pod, self._main)
        if terminated is not None:
            # Nothing to remove, unless containers beside ours go on.
            self.is_over = pod.is_over
            return terminated
        if pod.metadata.deletion_timestamp is not None and isinstance(lost := disruption_error(pod), NodeLost):
            # No kubelet is left to say how it ended.
            raise lost
        if seen.gone:
            # Its Job may know more; the next list asks it.
            return None
        if (error := start_error(pod)) is not None:
            raise error
        return None

    def _judge_without_pod(self, seen: PodObservation, known: Pod | None) -> ContainerStateTerminated | None:
        if seen.job is None or seen.job.metadata.deletion_timestamp is not None:
            raise PodLost(f"Job {self._name} was deleted by somebody else")
        if seen.job.condition("Complete") is not None:
            self.is_over = True
            return ContainerStateTerminated(exit_code=0)
        if (error := job_error(seen.job)) is not None:
            self.is_over = True
            raise error
        if known is not None or seen.job.condition("Failed") is not None:
            name = known.metadata.name if known is not None else "of this attempt"
            raise PodLost(f"pod {name} of Job {self._name} vanished before it ended")
        return None

    def _note_start(self, pod: Pod) -> None:
        if self._log is not None:
            return
        self._ctx.started()
        self._pod_start_seconds = self._start_latency(pod)
        self._log = PodLog(self._ctx, self._api, pod.metadata.name, self._main, self._rules.log_bytes_max)

    def _start_latency(self, pod: Pod) -> float | None:
        if self._created_when is not None:
            return round(asyncio.get_running_loop().time() - self._created_when, 3)
        # Somebody else created it: the cluster's own instants, in whole seconds.
        began: datetime | None = started_at(pod, self._main)
        made = self._job.metadata.creation_timestamp if self._job is not None else None
        return max(0.0, (began - made).total_seconds()) if began is not None and made is not None else None

    def _refuse_disruption(self, terminated: ContainerStateTerminated) -> None:
        """Raise what ended the container, if that was not the program itself."""
        self._ctx.meta["exit_code"] = terminated.exit_code
        pod = self._pod
        if pod is None or pod.status.phase == "Succeeded":
            return
        error = disruption_error(pod) or out_of_memory_error(pod, self._main)
        if error is None and self._job is not None:
            error = job_error(self._job)
        if error is None and pod.metadata.deletion_timestamp is not None and terminated.exit_code != 0:
            error = PodLost(f"pod {pod.metadata.name} was deleted while it ran")
        if error is not None:
            raise error

    async def _remove(self) -> None:
        if self._creating is not None:
            await asyncio.wait([self._creating])
            if not self._creating.cancelled() and isinstance(self._creating.exception(), KubernetesRefused):
                return
        for tries in range(1, DELETE_TRIES_MAX + 1):
            try:
                # Nobody may have looked yet at what there is under this name.
                job = self._job or await self._api.job(self._name)
                if job is not None and self._is_ours(job):
                    await self._api.delete(self._name, job.metadata.uid)
                return
            except (KubernetesUnavailable, KubernetesRefused) as error:
                if tries == DELETE_TRIES_MAX or isinstance(error, KubernetesRefused):
                    said = f"Job {self._name} could not be deleted and ends at its deadline: {error}"
                    self._ctx.log(said, "warning")
                    return

    def _is_ours(self, job: KubernetesJob) -> bool:
        ours = self._manifest.body["metadata"]["annotations"][TASK_ANNOTATION]
        return (job.metadata.annotations or {}).get(TASK_ANNOTATION) == ours
