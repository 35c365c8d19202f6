"""Reads what a cluster says about Jobs and pods: whether the container runs, cannot run, or how it ended."""

from datetime import datetime

from msgspec import Struct

from windlass.core.errors import FatalError, RetryableError
from windlass.handlers.container.errors import (
    ContainerConfigInvalid,
    DeadlineExceeded,
    ImagePullFailed,
    NodeLost,
    OutOfMemory,
    PodEvicted,
)

IMAGE_FAILURES = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}
)
CONFIG_FAILURES = frozenset({"InvalidImageName", "CreateContainerConfigError", "CreateContainerError"})
EVICTIONS = frozenset(
    {
        "Evicted", "Preempting", "PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet",
        "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods",
        "OutOfephemeral-storage", "UnexpectedAdmissionError",
    }
)  # fmt: skip
NODE_LOSSES = frozenset({"NodeLost", "DeletionByTaintManager", "DeletionByPodGC"})


class ObjectMetadata(Struct, frozen=True, rename="camel"):
    """What every object has."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    annotations: dict[str, str] | None = None


class StatusCondition(Struct, frozen=True, rename="camel"):
    """One thing that is or is not the case."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerStateWaiting(Struct, frozen=True, rename="camel"):
    """A container that does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True, rename="camel"):
    """A container that runs."""

    started_at: datetime | None = None


class ContainerStateTerminated(Struct, frozen=True, rename="camel"):
    """A container that ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Struct, frozen=True, rename="camel"):
    """Exactly one of these."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """One container of a pod."""

    name: str
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, rename="camel"):
    """How a pod is."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[StatusCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ContainerSpec(Struct, frozen=True):
    """A container, by its name."""

    name: str = ""


class PodSpec(Struct, frozen=True, rename="camel"):
    """Where a pod is."""

    node_name: str = ""
    containers: list[ContainerSpec] = []


class Pod(Struct, frozen=True, rename="camel"):
    """A pod, as far as we read it."""

    metadata: ObjectMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether it will never run again."""
        return self.status.phase in ("Succeeded", "Failed")

    def state_of(self, container: str) -> ContainerState:
        """How one of its containers is."""
        for status in self.status.container_statuses or ():
            if status.name == container:
                return status.state
        return ContainerState()


class KubernetesJobStatus(Struct, frozen=True, rename="camel"):
    """How a Job is."""

    conditions: list[StatusCondition] | None = None


class KubernetesJob(Struct, frozen=True, rename="camel"):
    """A Job, as far as we read it."""

    metadata: ObjectMetadata
    status: KubernetesJobStatus = KubernetesJobStatus()

    def condition(self, kind: str) -> StatusCondition | None:
        """The condition of this kind, if it is the case."""
        return true_condition(self.status.conditions, kind)


def true_condition(conditions: list[StatusCondition] | None, kind: str) -> StatusCondition | None:
    """The condition of this kind, if it is the case."""
    return next((one for one in conditions or () if one.type == kind and one.status == "True"), None)


def started_at(pod: Pod, main: str) -> datetime | None:
    """When the container began to run; None as long as it did not."""
    state = pod.state_of(main)
    if state.running is not None:
        return state.running.started_at or pod.metadata.creation_timestamp
    return state.terminated.started_at if state.terminated is not None else None


def has_started(pod: Pod, main: str) -> bool:
    """Whether the container runs or ran."""
    state = pod.state_of(main)
    return state.running is not None or state.terminated is not None


def container_end(pod: Pod, main: str) -> ContainerStateTerminated | None:
    """How the container ended, once the pod is over: or once the container is, when others beside it never end."""
    terminated = pod.state_of(main).terminated
    if pod.is_over:
        return terminated or ContainerStateTerminated(exit_code=0 if pod.status.phase == "Succeeded" else -1)
    return terminated if len(pod.spec.containers) > 1 else None


def start_error(pod: Pod) -> Exception | None:
    """Why a pod that waits will not start, as far as waiting longer cannot help."""
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    for status in statuses:
        waiting = status.state.waiting
        if waiting is None:
            continue
        said = f"container {status.name!r} of pod {pod.metadata.name} cannot start: {waiting.reason}"
        said += f": {waiting.message}" if waiting.message else ""
        if waiting.reason in IMAGE_FAILURES:
            return ImagePullFailed(said)
        if waiting.reason in CONFIG_FAILURES:
            return ContainerConfigInvalid(said + _way_out(waiting.message))
    return None


def _way_out(message: str) -> str:
    if "non-root" in message or "runAsNonRoot" in message:
        return " (give the node a `user` above 0, or allow root with the setting kubernetes.allow_root)"
    return ""


def disruption_error(pod: Pod) -> Exception | None:
    """The cluster's own reason for the end of a pod, if it was that and not the program."""
    status = pod.status
    disruption = true_condition(status.conditions, "DisruptionTarget")
    reasons = [(status.reason, status.message)]
    if disruption is not None:
        reasons.append((disruption.reason, disruption.message))
    for reason, message in reasons:
        said = f"pod {pod.metadata.name} was taken away: {reason}" + (f": {message}" if message else "")
        if reason in NODE_LOSSES:
            return NodeLost(said)
        if reason in EVICTIONS or (reason and disruption is not None):
            return PodEvicted(said)
        if reason == "DeadlineExceeded":
            return DeadlineExceeded(said)
    return None


def out_of_memory_error(pod: Pod, main: str) -> Exception | None:
    """The error of a container that needed more memory than it may have."""
    terminated = pod.state_of(main).terminated
    if terminated is None or terminated.reason != "OOMKilled":
        return None
    return OutOfMemory(
        f"container {main!r} of pod {pod.metadata.name} used more memory than its limit "
        f"(exit code {terminated.exit_code}): raise resources.limits.memory"
    )


def waiting_reason(job: KubernetesJob | None, pod: Pod | None, main: str) -> str:
    """What is known about why the container does not run yet."""
    if pod is None:
        return "it has no pod" if job is not None else "it is gone"
    waiting = pod.state_of(main).waiting
    if waiting is not None and waiting.reason:
        return f"{waiting.reason}: {waiting.message}".rstrip(": ")
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{condition.reason}: {condition.message}".rstrip(": ")
    return f"its pod is {pod.status.phase}"


def job_error(job: KubernetesJob) -> RetryableError | FatalError | None:
    """The error of a Job that the cluster declared failed, where the pod cannot say more."""
    failed = job.condition("Failed")
    if failed is None:
        return None
    if failed.reason == "DeadlineExceeded":
        return DeadlineExceeded(f"Job {job.metadata.name} was stopped by the cluster: {failed.message}")
    return None
