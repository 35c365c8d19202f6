"""Runs a container as a Kubernetes Job: creates or adopts the Job, follows it to its end, cleans up."""

import asyncio
from contextlib import aclosing, suppress
from typing import Any

from windlass.handlers.command import ExitCodeError
from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.config import KubernetesConfig
from windlass.handlers.container.connection import ClusterConnection
from windlass.handlers.container.errors import (
    JobNameTaken,
    KubernetesRefused,
    KubernetesUnavailable,
    NodeLost,
    PodLost,
    PodStartTimeout,
)
from windlass.handlers.container.identity import TASK_ANNOTATION, AttemptIdentity, identity_of
from windlass.handlers.container.manifest import JobManifest, build
from windlass.handlers.container.params import (
    ContainerParams,
    is_success,
    parse_result,
    parse_seconds,
)
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
    ctx: Context, params: ContainerParams, connection: ClusterConnection, config: KubernetesConfig
) -> dict[str, Any]:
    """Run the container to its end; return the output of its node."""
    manifest = build(params, _identity(ctx, params), config, ctx.timeout_seconds)
    start_seconds = config.start_timeout_seconds
    if params.start_timeout is not None:
        start_seconds = parse_seconds(params.start_timeout, "start_timeout")
    attempt = KubernetesAttempt(ctx, KubernetesApi(connection), config, manifest)
    try:
        terminated = await attempt.follow(start_seconds)
        output = attempt.output(terminated, params)
        if not attempt.is_over:
            # Sidecar containers would keep running.
            await attempt.remove()
        return output
    except (asyncio.CancelledError, Exception) as error:
        if not attempt.is_over and not _is_continued_elsewhere(ctx, error):
            await attempt.remove()
        raise
    finally:
        attempt.record_meta()
        await attempt.stop()


def _identity(ctx: Context, params: ContainerParams) -> AttemptIdentity:
    origin = params.origin
    if origin is None:
        return identity_of(ctx)
    return identity_of(ctx, origin.workflow_id, origin.scheduled_at)


def _is_continued_elsewhere(ctx: Context, error: BaseException) -> bool:
    """Whether the Job should keep running: the attempt was handed back, or this worker is being shut down."""
    return isinstance(error, asyncio.CancelledError) and (ctx.handed_back or not ctx.cancelled)


class KubernetesAttempt:
    """The Job of one attempt."""

    def __init__(
        self, ctx: Context, api: KubernetesApi, config: KubernetesConfig, manifest: JobManifest
    ) -> None:
        # The pod has finished by itself: its Job is kept until its TTL, in case another worker must read it again.
        self.is_over = False
        self._ctx = ctx
        self._api = api
        self._config = config
        self._manifest = manifest
        self._name: str = manifest.body["metadata"]["name"]
        self._main = manifest.main
        self._creating: asyncio.Task[KubernetesJob | None] | None = None
        self._created_time: float | None = None
        self._job: KubernetesJob | None = None
        self._pod: Pod | None = None
        self._pod_start_seconds: float | None = None
        self._log: PodLog | None = None

    async def follow(self, start_seconds: float) -> ContainerStateTerminated:
        """Create or adopt the Job, and follow it until its container has terminated."""
        try:
            async with asyncio.timeout(start_seconds) as start_timeout:
                await self._create_or_adopt()
                terminated = await self._observe(start_timeout)
        except TimeoutError:
            reason = waiting_reason(self._job, self._pod, self._main)
            raise PodStartTimeout(
                f"Job {self._name} did not start within {start_seconds:g} s: {reason}"
            ) from None
        if self._log is not None:
            await self._log.finish()
        self._raise_disruption(terminated)
        return terminated

    def output(
        self, terminated: ContainerStateTerminated, params: ContainerParams
    ) -> dict[str, Any]:
        """Return the output of the node; raise the error of a container that failed."""
        code = terminated.exit_code
        self._ctx.meta["exit_code"] = code
        log_end = last_line = ""
        if self._log is not None:
            log_end, last_line = self._log.end, self._log.last_line
        if not is_success(params, code):
            message = f"container {self._main!r} exited with code {code}"
            if reason := log_end or terminated.message or terminated.reason:
                message += f": {reason}"
            raise ExitCodeError(message)
        pod_name = None
        if self._pod is not None:
            pod_name = self._pod.metadata.name
        output: dict[str, Any] = {
            "exit_code": code,
            "runtime": "kubernetes",
            "job_name": self._name,
            "pod_name": pod_name,
            "pod_start_seconds": self._pod_start_seconds,
            "api_calls": self._api.calls,
            "result": parse_result(terminated.message, last_line),
        }
        if self._log is not None and self._log.truncated:
            output["truncated"] = True
        return output

    def record_meta(self) -> None:
        """Set what is known in every case, including failures, in the meta of the attempt."""
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
        """Delete the Job and its pods, even if this attempt is cancelled meanwhile."""
        await asyncio.shield(self._api.connection.run_in_background(self._remove()))

    async def stop(self) -> None:
        """Stop reading the log."""
        if self._log is not None:
            await self._log.stop()

    async def _create_or_adopt(self) -> None:
        # The request completes even on a cancel, so that a Job that it created can be removed.
        self._creating = self._api.connection.run_in_background(
            self._api.create(self._manifest.body)
        )
        created = await asyncio.shield(self._creating)
        if created is not None:
            self._job = created
            self._created_time = asyncio.get_running_loop().time()
            self._ctx.log(f"created Job {self._name}", "debug")
            return
        found = await self._api.job(self._name)
        if found is None or found.metadata.deletion_timestamp is not None:
            raise PodLost(f"Job {self._name} of this attempt is being deleted")
        if not self._is_ours(found):
            owner = (found.metadata.annotations or {}).get(TASK_ANNOTATION, "an unknown owner")
            raise JobNameTaken(
                f"Job {self._name} exists already and belongs to {owner}; delete or rename it"
            )
        self._job = found
        self._ctx.log(
            f"adopted Job {self._name} of another worker; its log is read again from the start",
            "info",
        )

    async def _observe(self, start_timeout: asyncio.Timeout) -> ContainerStateTerminated:
        observations = observe_pods(
            self._ctx, self._api, self._name, self._config.reconcile_seconds
        )
        async with aclosing(observations):
            async for observation in observations:
                terminated = self._evaluate(observation)
                if self._log is not None:
                    # The container has started.
                    start_timeout.reschedule(None)
                if terminated is not None:
                    return terminated
        raise PodLost(f"the watch of Job {self._name} ended")

    def _evaluate(self, observation: PodObservation) -> ContainerStateTerminated | None:
        """Return how the container ended, None while it may still run; raise the error of a pod that failed."""
        if observation.job is not None:
            self._job = observation.job
        pods = [*observation.deleted, *observation.pods]
        self._reject_second_pod(pods, observation)
        if not pods:
            return self._evaluate_without_pod(observation)
        self._pod = pod = pods[0]
        if has_started(pod, self._main):
            self._note_start(pod)
        terminated = container_end(pod, self._main)
        if terminated is not None:
            # False while sidecar containers are running.
            self.is_over = pod.is_over
            return terminated
        if pod.metadata.deletion_timestamp is not None:
            lost = disruption_error(pod)
            if isinstance(lost, NodeLost):
                # No kubelet is left to report how the container ended.
                raise lost
        # The Job of a deleted pod may know more; the next list shows it.
        if not observation.deleted and (error := start_error(pod)) is not None:
            raise error
        return None

    def _reject_second_pod(self, pods: list[Pod], observation: PodObservation) -> None:
        has_other = self._pod is not None and any(
            pod.metadata.uid != self._pod.metadata.uid for pod in pods
        )
        if has_other or len(observation.pods) > 1:
            names = ", ".join(sorted(pod.metadata.name for pod in pods))
            raise PodLost(
                f"Job {self._name} created a second pod ({names}); an attempt must not run twice"
            )

    def _evaluate_without_pod(self, observation: PodObservation) -> ContainerStateTerminated | None:
        job = observation.job
        if job is None or job.metadata.deletion_timestamp is not None:
            raise PodLost(f"Job {self._name} was deleted by another client")
        if job.condition("Complete") is not None:
            self.is_over = True
            return ContainerStateTerminated(exit_code=0)
        if (error := job_error(job)) is not None:
            self.is_over = True
            raise error
        if self._pod is not None:
            raise PodLost(
                f"pod {self._pod.metadata.name} of Job {self._name} was deleted before it finished"
            )
        if job.condition("Failed") is not None:
            raise PodLost(f"the pod of Job {self._name} was deleted before it finished")
        return None

    def _note_start(self, pod: Pod) -> None:
        if self._log is not None:
            return
        self._ctx.started()
        self._pod_start_seconds = self._start_latency(pod)
        self._log = PodLog(
            self._ctx, self._api, pod.metadata.name, self._main, self._config.log_bytes_max
        )

    def _start_latency(self, pod: Pod) -> float | None:
        if self._created_time is not None:
            return round(asyncio.get_running_loop().time() - self._created_time, 3)
        # Another worker created the Job: use the cluster's timestamps, which have whole seconds.
        began = started_at(pod, self._main)
        if began is None or self._job is None or self._job.metadata.creation_timestamp is None:
            return None
        return max(0.0, (began - self._job.metadata.creation_timestamp).total_seconds())

    def _raise_disruption(self, terminated: ContainerStateTerminated) -> None:
        """Raise what ended the container, if that was not the program itself."""
        self._ctx.meta["exit_code"] = terminated.exit_code
        pod = self._pod
        if pod is None or pod.status.phase == "Succeeded":
            return
        error = disruption_error(pod) or out_of_memory_error(pod, self._main) or self._job_error()
        if error is not None:
            raise error
        if pod.metadata.deletion_timestamp is not None and terminated.exit_code != 0:
            raise PodLost(f"pod {pod.metadata.name} was deleted while it ran")

    def _job_error(self) -> Exception | None:
        if self._job is None:
            return None
        return job_error(self._job)

    async def _remove(self) -> None:
        if self._creating is not None:
            await asyncio.wait([self._creating])
            if not self._creating.cancelled() and isinstance(
                self._creating.exception(), KubernetesRefused
            ):
                return
        try:
            for _ in range(DELETE_TRIES_MAX - 1):
                with suppress(KubernetesUnavailable):
                    await self._delete()
                    return
            await self._delete()
        except (KubernetesUnavailable, KubernetesRefused) as error:
            message = f"Job {self._name} could not be deleted and ends at its deadline: {error}"
            self._ctx.log(message, "warning")

    async def _delete(self) -> None:
        # The Job may exist although no response to its creation was received.
        job = self._job or await self._api.job(self._name)
        if job is not None and self._is_ours(job):
            await self._api.delete(self._name, job.metadata.uid)

    def _is_ours(self, job: KubernetesJob) -> bool:
        ours = self._manifest.body["metadata"]["annotations"][TASK_ANNOTATION]
        return (job.metadata.annotations or {}).get(TASK_ANNOTATION) == ours
