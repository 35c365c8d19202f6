"""Connects to a cluster: by a kubeconfig, or by the service account of the worker's own pod."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

import msgspec

from windlass.handlers.container.config import KubernetesConfig
from windlass.handlers.container.connection import (
    REQUEST_SECONDS_MAX,
    ClusterConnection,
    RequestRateLimiter,
)
from windlass.handlers.container.errors import KubernetesUnusable
from windlass.handlers.container.orphan_cleaner import clean_orphans

# For the types only: the client is an extra.
if TYPE_CHECKING:
    from lightkube.config.models import User

ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
# Each container has two open streams: a watch and a log.
CONNECTIONS_MAX = 10_000
CONNECTIONS_IDLE_MAX = 20
# The versions of the credential plugin protocol; their responses have the same form.
EXEC_VERSION = "client.authentication.k8s.io/v1"
EXEC_VERSION_KNOWN = "client.authentication.k8s.io/v1beta1"
EXEC_INFO = {"kind": "ExecCredential", "apiVersion": EXEC_VERSION, "spec": {"interactive": False}}


def connect(
    config: KubernetesConfig, *, account_folder: str = ACCOUNT_FOLDER, random: Random | None = None
) -> ClusterConnection:
    """Connect to the cluster of the kubeconfig, or to the one this worker runs in; raise KubernetesUnusable."""
    try:
        # A large optional extra, loaded on first use.
        import httpx2
        from lightkube.config.client_adapter import user_auth, verify_cluster
        from lightkube.config.kubeconfig import KubeConfig
        from lightkube.config.models import User
        from lightkube.core.exceptions import ConfigError
    except ImportError as error:
        raise KubernetesUnusable(
            f"runtime 'kubernetes' requires a package that is missing ({error}); pip install 'windlass[kubernetes]'"
        ) from None
    try:
        if config.kubeconfig:
            kubeconfig = KubeConfig.from_file(config.kubeconfig)
        else:
            kubeconfig = KubeConfig.from_env(account_folder)
        cluster = kubeconfig.get(config.context)
        if cluster is None:
            raise ConfigError("no current context")
        user = _with_supported_plugin(cluster.user or User())
        client = httpx2.AsyncClient(
            base_url=cluster.cluster.server,
            auth=user_auth(user),
            verify=verify_cluster(cluster.cluster, user, cluster.abs_file, trust_env=False),
            timeout=REQUEST_SECONDS_MAX,
            limits=httpx2.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_IDLE_MAX
            ),
            trust_env=False,
        )
    except (ConfigError, OSError, ValueError, LookupError, TypeError) as error:
        source = config.kubeconfig or "the service account, $KUBECONFIG or ~/.kube/config"
        raise KubernetesUnusable(
            f"no cluster configuration in {source} ({error}); set kubernetes.kubeconfig to a file"
        ) from None
    connection = ClusterConnection(
        client,
        namespace=config.namespace or cluster.namespace.strip(),
        rate_limiter=RequestRateLimiter(
            config.requests_per_second, config.requests_burst, asyncio.get_running_loop().time
        ),
        random=random or Random(),
    )
    connection.orphan_cleaner = asyncio.create_task(
        clean_orphans(connection, config.instance, config.orphan_seconds)
    )
    return connection


def _with_supported_plugin(user: "User") -> "User":
    """Return the user with a v1 credential plugin called as v1beta1, the only version that the client supports."""
    plugin = user.exec
    if plugin is None or plugin.apiVersion != EXEC_VERSION:
        return user
    # An optional extra.
    from lightkube.config.models import NameValue

    error_message = NameValue(
        name="KUBERNETES_EXEC_INFO", value=msgspec.json.encode(EXEC_INFO).decode()
    )
    supported = msgspec.structs.replace(
        plugin, apiVersion=EXEC_VERSION_KNOWN, env=[*(plugin.env or []), error_message]
    )
    return msgspec.structs.replace(user, exec=supported)
