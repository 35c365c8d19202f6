"""How containers run: the runtime, and what administrators allow on Kubernetes."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Runtime = Literal["process", "kubernetes"]


class KubernetesConfig(Struct, frozen=True, kw_only=True):
    """What an administrator decided about containers on Kubernetes."""

    # Distinguishes the Jobs of several installations in one namespace.
    instance: str = "default"
    # None: that of the kubeconfig's context, or of the service account.
    namespace: str | None = None
    # None: the worker's service account, $KUBECONFIG or ~/.kube/config.
    kubeconfig: str | None = None
    context: str | None = None
    allow_pod_spec: bool = False
    allow_root: bool = False
    service_accounts: Sequence[str] = ()
    start_timeout_seconds: float = 120.0
    ttl_seconds: int = 600
    requests_per_second: float = 20.0
    requests_burst: int = 40
    log_bytes_max: int = 1024 * 1024
    reconcile_seconds: int = 60
    # A Job that no worker followed for this long is an orphan and is deleted.
    orphan_seconds: int = 3600


class ContainerConfig(Struct, frozen=True):
    """How containers run if their nodes do not choose a runtime, and what they may do on a cluster."""

    runtime: Runtime = "process"
    kubernetes: KubernetesConfig = KubernetesConfig()
