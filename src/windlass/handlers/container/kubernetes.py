"""Runs a container as a Kubernetes Job: creates or adopts the Job, follows it to its end, cleans up."""

import asyncio
import logging
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from windlass.handlers.command import ExitCodeError
from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.config import KubernetesConfig
from windlass.handlers.container.connection import QUOTA_TEXT, ClusterConnection
from windlass.handlers.container.errors import (
    AccessDenied,
    KubernetesRefused,
    KubernetesUnavailable,
    NodeLost,
    Outage,
    PodLost,
    PodStartTimeout,
    QuotaExceeded,
)
from windlass.handlers.container.identity import AttemptIdentity, identity_of
from windlass.handlers.container.job_creation import JobCreation
from windlass.handlers.container.job_removal import stop_seconds, wait_until_gone
from windlass.handlers.container.manifest import JobManifest, build
from windlass.handlers.container.params import (
    ContainerParams,
    is_success,
    parse_result,
    parse_seconds,
)
from windlass.handlers.container.patience import DENIED_SECONDS_MAX, patiently
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

# How long reading the events of a container that did not start may take.
EVENTS_SECONDS_MAX = 5.0

log = logging.getLogger(__name__)


async def run_on_kubernetes(
    ctx: Context, params: ContainerParams, connection: ClusterConnection, config: KubernetesConfig
) -> dict[str, Any]:
    """Run the container to its end; return the output of its node."""
    identity = _identity(ctx, params)
    manifest = build(params, identity, config, ctx.timeout_seconds)
    start_seconds = config.start_timeout_seconds
    if params.start_timeout is not None:
        start_seconds = parse_seconds(params.start_timeout, "start_timeout")
    attempt = KubernetesAttempt(ctx, KubernetesApi(connection), config, manifest)
    # A stopped attempt is reported when its Job is gone, so that its slot and the next attempt wait for that.
    ctx.stops_within(attempt.stop_seconds)
    try:
        terminated = await attempt.follow(identity, start_seconds)
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
    return identity_of(ctx, origin.run_id, origin.scheduled_at)


def _is_continued_elsewhere(ctx: Context, error: BaseException) -> bool:
    """Whether the Job should keep running: the attempt was handed back, or this worker is being shut down."""
    return isinstance(error, asyncio.CancelledError) and (ctx.handed_back or not ctx.cancelled)


def _extend(timeout: asyncio.Timeout, seconds: float) -> None:
    when = timeout.when()
    if when is not None and not timeout.expired():
        timeout.reschedule(when + seconds)


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
        self.stop_seconds = stop_seconds(manifest.grace_seconds)
        self._name = manifest.name
        self._main = manifest.main
        self._creation = JobCreation(api, manifest, self._note_outage)
        # Why the state of the Job is not known at present.
        self._outage: Outage | None = None
        self._created_time: float | None = None
        self._job: KubernetesJob | None = None
        self._pod: Pod | None = None
        self._pod_start_seconds: float | None = None
        self._log: PodLog | None = None

    async def follow(
        self, identity: AttemptIdentity, start_seconds: float
    ) -> ContainerStateTerminated:
        """Create or adopt the Job, and follow it until its container has terminated."""
        try:
            async with asyncio.timeout(start_seconds) as start_timeout:
                # What its requests wait for those of other attempts is not part of the time that it has to start.
                self._api.on_queued = partial(_extend, start_timeout)
                if identity.attempt > 1:
                    await self._remove_earlier(identity, start_timeout)
                await self._create_or_adopt()
                terminated = await self._observe(start_timeout)
        except TimeoutError:
            raise await self._start_timeout_error(start_seconds) from None
        finally:
            self._api.on_queued = None
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
        """Delete the Job and wait a limited time until it is gone; the deletion is repeated until it succeeds."""
        deletion = self._api.connection.run_in_background(self._delete())
        if self._job is None and self._outage is not None:
            # The cluster cannot be asked whether there is a Job at all.
            return
        try:
            async with asyncio.timeout(self.stop_seconds):
                if job := await asyncio.shield(deletion):
                    await wait_until_gone(self._api, job)
        except TimeoutError:
            reason = self._outage or "its pod is still stopping"
            self._ctx.log(
                f"Job {self._name} is not gone after {self.stop_seconds:g} s: {reason}", "warning"
            )

    async def stop(self) -> None:
        """Stop reading the log."""
        if self._log is not None:
            await self._log.stop()

    async def _remove_earlier(
        self, identity: AttemptIdentity, start_timeout: asyncio.Timeout
    ) -> None:
        """Remove what earlier attempts of the task left running, before this one starts."""
        listed = await patiently(
            lambda: self._api.jobs(identity.task_labels), self._note_outage, DENIED_SECONDS_MAX
        )
        loop = asyncio.get_running_loop()
        for job in listed.items:
            if job.is_over or not identity.is_later_than(job.metadata.annotations):
                continue
            name, uid = job.metadata.name, job.metadata.uid
            self._ctx.log(f"removing Job {name} of an earlier attempt", "warning")
            await patiently(partial(self._api.delete, name, uid), self._note_outage)
            # The time that the earlier pod takes to stop is not part of the time that this one has to start.
            deadline_time, began = start_timeout.when(), loop.time()
            start_timeout.reschedule(None)
            await self._wait_until_gone(job)
            if deadline_time is not None:
                start_timeout.reschedule(deadline_time + loop.time() - began)
        self._outage = None

    async def _wait_until_gone(self, job: KubernetesJob) -> None:
        name, seconds_max = job.metadata.name, stop_seconds(job.grace_seconds)
        try:
            async with asyncio.timeout(seconds_max):
                await wait_until_gone(self._api, job)
        except TimeoutError:
            self._ctx.log(
                f"Job {name} of an earlier attempt is not gone after {seconds_max:g} s", "warning"
            )

    async def _create_or_adopt(self) -> None:
        self._job = await self._creation.create_or_adopt()
        self._outage = None
        if self._creation.is_new:
            self._created_time = asyncio.get_running_loop().time()
            self._ctx.log(f"created Job {self._name}", "debug")
            return
        self._ctx.log(
            f"adopted Job {self._name} of another worker; its log is read again from the start",
            "info",
        )

    async def _observe(self, start_timeout: asyncio.Timeout) -> ContainerStateTerminated:
        observations = observe_pods(
            self._api, self._name, self._config.reconcile_seconds, self._note_outage
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

    def _note_outage(self, error: Outage, pause: float) -> None:
        is_new_denial = isinstance(error, AccessDenied) and not isinstance(
            self._outage, AccessDenied
        )
        self._outage = error
        self._ctx.log(
            f"Kubernetes API unavailable, retrying in {pause:.2g} s: {error}",
            "warning" if is_new_denial else "debug",
        )

    async def _start_timeout_error(self, start_seconds: float) -> Exception:
        text = f"Job {self._name} did not start within {start_seconds:g} s"
        if self._outage is not None:
            return KubernetesUnavailable(f"{text}: {self._outage}")
        if self._job is None:
            return KubernetesUnavailable(f"{text}: the API server has not answered yet")
        text += f": {waiting_reason(self._job, self._pod, self._main)}"
        warnings = await self._warnings(self._job)
        if warnings:
            text += f"; last warning: {'; '.join(warnings)}"
        if any(QUOTA_TEXT in warning for warning in warnings):
            return QuotaExceeded(text)
        return PodStartTimeout(text)

    async def _warnings(self, job: KubernetesJob) -> list[str]:
        """Return the last warnings of the cluster about the Job and its pod, if the worker may read them."""
        objects = [("Job", job.metadata)]
        if self._pod is not None:
            objects.append(("pod", self._pod.metadata))
        found: list[str] = []
        with suppress(TimeoutError, KubernetesUnavailable, KubernetesRefused):
            async with asyncio.timeout(EVENTS_SECONDS_MAX):
                for kind, metadata in objects:
                    event = await self._api.last_warning(metadata.uid)
                    if event is not None:
                        found.append(f"{kind} {metadata.name}: {event.text}")
        return found

    def _evaluate(self, observation: PodObservation) -> ContainerStateTerminated | None:
        """Return how the container ended, None while it may still run; raise the error of a pod that failed."""
        self._outage = None
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

    async def _delete(self) -> KubernetesJob | None:
        """Delete the Job, however long the API server is away; the cluster itself ends it at its deadline."""
        if not await self._creation.may_have_created() and self._job is None:
            return None
        try:
            async with asyncio.timeout(self._manifest.deadline_seconds):
                return await self._delete_patiently()
        except (TimeoutError, KubernetesRefused) as error:
            reason = str(error) or "no answer of the API server"
            log.warning(
                "Job %s could not be deleted and ends at its deadline: %s", self._name, reason
            )
            return None

    async def _delete_patiently(self) -> KubernetesJob | None:
        job = self._job
        if job is None:
            # It may exist although no response to its creation was received.
            job = await patiently(partial(self._api.job, self._name), self._note_outage)
        if job is None or not self._creation.is_ours(job):
            return None
        await patiently(partial(self._api.delete, self._name, job.metadata.uid), self._note_outage)
        self._outage = None
        return job
