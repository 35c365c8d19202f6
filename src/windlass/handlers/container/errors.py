"""The ways in which containers fail. Each has a type of its own, which retry rules can tell apart."""

from windlass.core.errors import FatalError, RetryableError


class ImagePullFailed(RetryableError):
    """The image could not be loaded."""

    type = "image_pull_failed"


class ContainerConfigInvalid(FatalError):
    """The node of the cluster cannot make the container: a bad image name, a secret that is not there."""

    type = "container_config_invalid"


class PodStartTimeout(RetryableError):
    """The container did not run in time."""

    type = "pod_start_timeout"


class OutOfMemory(RetryableError):
    """The container used more memory than its limit."""

    type = "oom_killed"


class DeadlineExceeded(RetryableError):
    """The cluster stopped the Job because its time was over."""

    type = "timeout"


class PodEvicted(RetryableError):
    """The cluster took the pod's place away: pressure, preemption, a node that is drained."""

    type = "pod_evicted"


class NodeLost(RetryableError):
    """The machine that the pod ran on is gone."""

    type = "node_lost"


class PodLost(RetryableError):
    """The pod, or its Job, vanished before it ended."""

    type = "pod_lost"


class JobNameTaken(FatalError):
    """A Job of this name belongs to somebody else."""

    type = "job_name_taken"


class KubernetesUnavailable(RetryableError):
    """The API server did not answer, or only with errors of its own."""

    type = "kubernetes_unavailable"


class KubernetesRefused(FatalError):
    """The API server will not do this."""

    type = "kubernetes_refused"


class KubernetesUnusable(FatalError):
    """This worker has no way to a cluster: an extra that is missing, or a configuration that cannot be used."""

    type = "kubernetes_unusable"
