"""Kubernetes objects as far as they are read here, and what they say about a container: waiting, running, ended."""

from datetime import UTC, datetime

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
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
CONFIG_FAILURES = frozenset(
    {"InvalidImageName", "CreateContainerConfigError", "CreateContainerError"}
)
EVICTIONS = frozenset(
    {
        "Evicted", "Preempting", "PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet",
        "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods",
        "OutOfephemeral-storage", "UnexpectedAdmissionError",
    }
)  # fmt: skip
DEADLINE_EXCEEDED = "DeadlineExceeded"
# What a cluster sets where a pod spec has no grace period.
GRACE_SECONDS = 30.0
NODE_LOSSES = frozenset({"NodeLost", "DeletionByTaintManager", "DeletionByPodGC"})


class ObjectMetadata(Struct, frozen=True, rename="camel"):
    """The metadata of every object."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    annotations: dict[str, str] | None = None


class StatusCondition(Struct, frozen=True, rename="camel"):
    """One condition of an object's status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerStateWaiting(Struct, frozen=True, rename="camel"):
    """A container that is not running yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True, rename="camel"):
    """A running container."""

    started_at: datetime | None = None


class ContainerStateTerminated(Struct, frozen=True, rename="camel"):
    """A container that has terminated."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Struct, frozen=True, rename="camel"):
    """The state of a container: exactly one of these."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """The status of one container of a pod."""

    name: str
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[StatusCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ContainerSpec(Struct, frozen=True):
    """A container of a pod spec."""

    name: str = ""


class PodSpec(Struct, frozen=True, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    containers: list[ContainerSpec] = []


class Pod(Struct, frozen=True, rename="camel"):
    """A pod."""

    metadata: ObjectMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether the pod has finished."""
        return self.status.phase in ("Succeeded", "Failed")

    def state_of(self, container: str) -> ContainerState:
        """Return the state of one of its containers."""
        for status in self.status.container_statuses or ():
            if status.name == container:
                return status.state
        return ContainerState()


class PodTemplateSpec(Struct, frozen=True, rename="camel"):
    """The spec of the pods of a Job."""

    termination_grace_period_seconds: int | None = None


class PodTemplate(Struct, frozen=True):
    """The template of the pods of a Job."""

    spec: PodTemplateSpec = PodTemplateSpec()


class KubernetesJobSpec(Struct, frozen=True):
    """The spec of a Job."""

    template: PodTemplate = PodTemplate()


class KubernetesJobStatus(Struct, frozen=True, rename="camel"):
    """The status of a Job."""

    conditions: list[StatusCondition] | None = None


class KubernetesJob(Struct, frozen=True, rename="camel"):
    """A Job."""

    metadata: ObjectMetadata
    spec: KubernetesJobSpec = KubernetesJobSpec()
    status: KubernetesJobStatus = KubernetesJobStatus()

    @property
    def grace_seconds(self) -> float:
        """How long its pods may take to stop once they are told to."""
        grace = self.spec.template.spec.termination_grace_period_seconds
        return GRACE_SECONDS if grace is None else float(grace)

    @property
    def is_over(self) -> bool:
        """Whether its pods have finished; those of a Job that was stopped at its deadline may still be stopping."""
        if self.condition("Complete") is not None:
            return True
        failed = self.condition("Failed")
        return failed is not None and failed.reason != DEADLINE_EXCEEDED

    def condition(self, kind: str) -> StatusCondition | None:
        """Return the condition of this kind if it is true."""
        return true_condition(self.status.conditions, kind)


class ClusterEvent(Struct, frozen=True, rename="camel"):
    """What a component of the cluster reports about an object, for example that its pod cannot be created."""

    metadata: ObjectMetadata
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def last_at(self) -> datetime:
        """When it happened last; components use different fields for that."""
        at = self.last_timestamp or self.event_time or self.metadata.creation_timestamp
        return at or datetime.min.replace(tzinfo=UTC)

    @property
    def text(self) -> str:
        """The reason and the message."""
        return _with_message(self.reason, self.message)


def true_condition(conditions: list[StatusCondition] | None, kind: str) -> StatusCondition | None:
    """Return the condition of this kind if it is true."""
    for condition in conditions or ():
        if condition.type == kind and condition.status == "True":
            return condition
    return None


def started_at(pod: Pod, main: str) -> datetime | None:
    """Return when the container started; None if it has not."""
    state = pod.state_of(main)
    if state.running is not None:
        return state.running.started_at or pod.metadata.creation_timestamp
    if state.terminated is not None:
        return state.terminated.started_at
    return None


def has_started(pod: Pod, main: str) -> bool:
    """Whether the container is running or has run."""
    state = pod.state_of(main)
    return state.running is not None or state.terminated is not None


def container_end(pod: Pod, main: str) -> ContainerStateTerminated | None:
    """Return how the container ended; None while it or its pod may still run.

    If the pod has other containers, which may never end, the end of this one is enough.
    """
    terminated = pod.state_of(main).terminated
    if not pod.is_over:
        if len(pod.spec.containers) > 1:
            return terminated
        return None
    if terminated is not None:
        return terminated
    if pod.status.phase == "Succeeded":
        return ContainerStateTerminated(exit_code=0)
    return ContainerStateTerminated(exit_code=-1)


def start_error(pod: Pod) -> Exception | None:
    """Return why a waiting pod will not start; None if waiting longer may help."""
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    for status in statuses:
        waiting = status.state.waiting
        if waiting is None:
            continue
        reason = _with_message(waiting.reason, waiting.message)
        message = f"container {status.name!r} of pod {pod.metadata.name} cannot start: {reason}"
        if waiting.reason in IMAGE_FAILURES:
            return ImagePullFailed(message)
        if waiting.reason in CONFIG_FAILURES:
            return ContainerConfigInvalid(message + _advice(waiting.message))
    return None


def _advice(message: str) -> str:
    if "non-root" in message or "runAsNonRoot" in message:
        return (
            "; set `user` to a number above 0, or allow root with the setting kubernetes.allow_root"
        )
    return ""


def disruption_error(pod: Pod) -> Exception | None:
    """Return the error of a pod that the cluster ended, not the program."""
    status = pod.status
    disruption = true_condition(status.conditions, "DisruptionTarget")
    reasons = [(status.reason, status.message)]
    if disruption is not None:
        reasons.append((disruption.reason, disruption.message))
    for reason, message in reasons:
        text = f"pod {pod.metadata.name} was evicted: {_with_message(reason, message)}"
        if reason in NODE_LOSSES:
            return NodeLost(text)
        if reason in EVICTIONS or (reason and disruption is not None):
            return PodEvicted(text)
        if reason == DEADLINE_EXCEEDED:
            return DeadlineExceeded(text)
    return None


def out_of_memory_error(pod: Pod, main: str) -> Exception | None:
    """Return the error of a container that exceeded its memory limit."""
    terminated = pod.state_of(main).terminated
    if terminated is None or terminated.reason != "OOMKilled":
        return None
    return OutOfMemory(
        f"container {main!r} of pod {pod.metadata.name} exceeded its memory limit (exit code {terminated.exit_code}); "
        "raise resources.limits.memory"
    )


def waiting_reason(job: KubernetesJob | None, pod: Pod | None, main: str) -> str:
    """Describe why the container is not running yet."""
    if pod is None and job is None:
        return "it was deleted"
    if pod is None:
        return "it has no pod"
    waiting = pod.state_of(main).waiting
    if waiting is not None and waiting.reason:
        return _with_message(waiting.reason, waiting.message)
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return _with_message(condition.reason, condition.message)
    return f"its pod is {pod.status.phase}"


def job_error(job: KubernetesJob) -> RetryableError | FatalError | None:
    """Return the error of a Job that the cluster stopped at its deadline."""
    failed = job.condition("Failed")
    if failed is None or failed.reason != DEADLINE_EXCEEDED:
        return None
    return DeadlineExceeded(f"Job {job.metadata.name} was stopped by the cluster: {failed.message}")


def _with_message(reason: str, message: str) -> str:
    return f"{reason}: {message}".rstrip(": ")
