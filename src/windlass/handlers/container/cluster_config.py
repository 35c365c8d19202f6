"""Finds the way to a cluster: a kubeconfig, or the account of the pod that the worker itself runs in."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

import msgspec

from windlass.handlers.container.connection import REQUEST_SECONDS_MAX, ClusterConnection, RequestRateLimiter
from windlass.handlers.container.errors import KubernetesUnusable
from windlass.handlers.container.manifest import KubernetesConfig
from windlass.handlers.container.orphan_cleaner import keep

# For the types only: the client is an extra.
if TYPE_CHECKING:
    from lightkube.config.models import User

ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
# Watches and followed logs stay open, two for each container.
CONNECTIONS_MAX = 10_000
CONNECTIONS_IDLE_MAX = 20
# The protocol of credential plugins: both versions answer alike.
EXEC_VERSION = "client.authentication.k8s.io/v1"
EXEC_VERSION_KNOWN = "client.authentication.k8s.io/v1beta1"
EXEC_INFO = {"kind": "ExecCredential", "apiVersion": EXEC_VERSION, "spec": {"interactive": False}}


def connect(
    rules: KubernetesConfig, *, account_folder: str = ACCOUNT_FOLDER, chance: Random | None = None
) -> ClusterConnection:
    """A line to the cluster of the kubeconfig, or to the one this worker runs in. KubernetesUnusable."""
    try:
        # An extra, and large; only who uses it pays for it.
        import httpx2
        from lightkube.config.client_adapter import user_auth, verify_cluster
        from lightkube.config.kubeconfig import KubeConfig
        from lightkube.config.models import User
        from lightkube.core.exceptions import ConfigError
    except ImportError as error:
        raise KubernetesUnusable(
            f"runtime kubernetes needs a package that is missing ({error}): pip install 'windlass[kubernetes]'"
        ) from None
    try:
        # A file that is named goes before the worker's surroundings.
        found = KubeConfig.from_file(rules.kubeconfig) if rules.kubeconfig else KubeConfig.from_env(account_folder)
        config = found.get(rules.context)
        if config is None:
            raise ConfigError("no current context")
        user = _with_plugin(config.user or User())
        client = httpx2.AsyncClient(
            base_url=config.cluster.server,
            auth=user_auth(user),
            verify=verify_cluster(config.cluster, user, config.abs_file, trust_env=False),
            timeout=REQUEST_SECONDS_MAX,
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_IDLE_MAX),
            trust_env=False,
        )
    except (ConfigError, OSError, ValueError, LookupError, TypeError) as error:
        place = rules.kubeconfig or "the service account, $KUBECONFIG or ~/.kube/config"
        raise KubernetesUnusable(
            f"no cluster can be reached with {place} ({error}): the setting kubernetes.kubeconfig names a file"
        ) from None
    pace = RequestRateLimiter(rules.requests_per_second, rules.requests_burst, asyncio.get_running_loop().time)
    link = ClusterConnection(client, rules.namespace or config.namespace.strip(), pace, chance or Random())
    link.keeping = asyncio.create_task(keep(link, rules.instance, rules.orphan_seconds))
    return link


def _with_plugin(user: "User") -> "User":
    """The user, with a credential plugin of the newer version asked in the way that the client knows."""
    plugin = user.exec
    if plugin is None or plugin.apiVersion != EXEC_VERSION:
        return user
    # The client is an extra.
    from lightkube.config.models import NameValue

    error_message = NameValue(name="KUBERNETES_EXEC_INFO", value=msgspec.json.encode(EXEC_INFO).decode())
    asked = msgspec.structs.replace(plugin, apiVersion=EXEC_VERSION_KNOWN, env=[*(plugin.env or []), error_message])
    return msgspec.structs.replace(user, exec=asked)
