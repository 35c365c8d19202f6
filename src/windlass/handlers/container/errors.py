"""Errors of containers. Each has its own type, which retry rules can match."""

from windlass.core.errors import FatalError, RetryableError


class ImagePullFailed(RetryableError):
    """The image could not be pulled."""

    type = "image_pull_failed"


class ContainerConfigInvalid(FatalError):
    """The container cannot be created: an invalid image name, or a secret that does not exist."""

    type = "container_config_invalid"


class PodStartTimeout(RetryableError):
    """The container did not start in time."""

    type = "pod_start_timeout"


class OutOfMemory(RetryableError):
    """The container used more memory than its limit."""

    type = "oom_killed"


class DeadlineExceeded(RetryableError):
    """The cluster stopped the Job at its deadline."""

    type = "timeout"


class PodEvicted(RetryableError):
    """The cluster evicted the pod: resource pressure, preemption or a drained node."""

    type = "pod_evicted"


class NodeLost(RetryableError):
    """The node on which the pod ran was lost."""

    type = "node_lost"


class PodLost(RetryableError):
    """The pod or its Job was deleted before it finished."""

    type = "pod_lost"


class QuotaExceeded(RetryableError):
    """A quota of the namespace leaves no room for the Job or its pod at present."""

    type = "quota_exceeded"


class JobNameTaken(FatalError):
    """A Job with this name was not created by this attempt."""

    type = "job_name_taken"


class KubernetesUnavailable(RetryableError):
    """The API server did not respond, or only with server errors."""

    type = "kubernetes_unavailable"


class KubernetesRefused(FatalError):
    """The API server rejected the request."""

    type = "kubernetes_refused"


class AccessDenied(KubernetesRefused):
    """The API server does not accept the worker's credentials (401), or denies it this request (403).

    It also answers so for a moment after its start, until its access rules are loaded.
    """


class KubernetesUnusable(FatalError):
    """This worker cannot connect to a cluster: a missing extra or an invalid configuration."""

    type = "kubernetes_unusable"


# What a restarting API server does to a request that it served before and will serve again.
OUTAGES = (KubernetesUnavailable, AccessDenied)
Outage = KubernetesUnavailable | AccessDenied
