"""Builds Jobs from an allow-list of fields, or from a whole pod spec if the administrator allows it."""

import math
from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from windlass.core.errors import FatalError, ParamsInvalid
from windlass.handlers.container.config import KubernetesConfig
from windlass.handlers.container.identity import (
    INSTANCE_LABEL,
    LABEL_CHARS_MAX,
    PREFIX,
    TASK_ANNOTATION,
    AttemptIdentity,
    followed_now,
)
from windlass.handlers.container.params import (
    ContainerParams,
    ContainerVolume,
    EnvFromSource,
    EnvVarSource,
    Toleration,
    only_one,
)
from windlass.handlers.container.pods import GRACE_SECONDS

MAIN = "main"
RESULT_FILE = "/dev/termination-log"
ENTRIES_MAX = 100
# The worker stops a container at its timeout; if no worker is left, the cluster stops it this much later.
DEADLINE_MARGIN_SECONDS = 30


class NotAllowed(FatalError):
    """The administrator does not allow nodes to do this."""

    type = "not_allowed"


class JobManifest(Struct, frozen=True):
    """A Job to create, and the name of the container that is the task."""

    body: dict[str, Any]
    main: str

    @property
    def name(self) -> str:
        """The name of the Job."""
        return str(self.body["metadata"]["name"])

    @property
    def grace_seconds(self) -> float:
        """How long its pod may take to stop once it is told to."""
        given = self.body["spec"]["template"]["spec"].get("terminationGracePeriodSeconds")
        return float(given) if isinstance(given, int) else GRACE_SECONDS

    @property
    def deadline_seconds(self) -> int:
        """When the cluster stops the Job by itself."""
        return int(self.body["spec"]["activeDeadlineSeconds"])

    @property
    def task(self) -> str:
        """The identity of the attempt that the Job belongs to."""
        return str(self.body["metadata"]["annotations"][TASK_ANNOTATION])


def build(
    params: ContainerParams,
    identity: AttemptIdentity,
    config: KubernetesConfig,
    timeout_seconds: float,
) -> JobManifest:
    """Build the Job of an attempt; raise ParamsInvalid or NotAllowed."""
    if params.pod_spec is not None:
        pod, main = _given_pod(params, params.pod_spec, identity, config)
    else:
        pod, main = _built_pod(params, identity, config), MAIN
    labels = {
        **_unreserved(params.labels, "labels"),
        **identity.labels,
        INSTANCE_LABEL: config.instance,
    }
    annotations = {
        **_unreserved(params.annotations, "annotations"),
        TASK_ANNOTATION: identity.text,
        **followed_now(),
    }
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": identity.name, "labels": labels, "annotations": annotations},
        "spec": {
            # The engine decides about further attempts; each has its own Job.
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": math.ceil(timeout_seconds) + DEADLINE_MARGIN_SECONDS,
            "ttlSecondsAfterFinished": config.ttl_seconds,
            "template": template,
        },
    }
    return JobManifest(body, main)


def _built_pod(
    params: ContainerParams, identity: AttemptIdentity, config: KubernetesConfig
) -> dict[str, Any]:
    _check_allowed(params, config)
    _check_counts(params)
    volumes = [_named_volume(volume, at) for at, volume in enumerate(params.volumes)]
    pod = {
        "restartPolicy": "Never",
        "containers": [_container(params, identity, config, volumes)],
        "volumes": [_volume(name, volume) for name, volume in volumes],
        "serviceAccountName": params.service_account,
        # A container without its own account gets no credentials of the cluster.
        "automountServiceAccountToken": params.service_account is not None,
        "nodeSelector": params.node_selector,
        "tolerations": [_toleration(toleration) for toleration in params.tolerations],
        "imagePullSecrets": [{"name": name} for name in params.image_pull_secrets],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    return _without_empty(pod)


def _check_allowed(params: ContainerParams, config: KubernetesConfig) -> None:
    if not params.image:
        raise ParamsInvalid("image is missing; a container node on Kubernetes must name an image")
    account = params.service_account
    if account is not None and account not in config.service_accounts:
        allowed = ", ".join(config.service_accounts) or "none"
        raise NotAllowed(
            f"service_account not allowed: {account!r}; the setting kubernetes.service_accounts allows: {allowed}"
        )
    if params.user == 0 and not config.allow_root:
        raise NotAllowed("user 0 (root) is not allowed; see the setting kubernetes.allow_root")


def _container(
    params: ContainerParams,
    identity: AttemptIdentity,
    config: KubernetesConfig,
    volumes: Sequence[tuple[str, ContainerVolume]],
) -> dict[str, Any]:
    resources = params.resources
    container = {
        "name": MAIN,
        "image": params.image,
        "imagePullPolicy": params.image_pull_policy,
        "command": params.command,
        "args": params.args,
        "workingDir": params.working_dir,
        "env": _variables(params, identity),
        "envFrom": [
            _source(source, f"env_from[{at}]") for at, source in enumerate(params.env_from)
        ],
        "resources": {
            "requests": {name: str(amount) for name, amount in resources.requests.items()},
            "limits": {name: str(amount) for name, amount in resources.limits.items()},
        },
        "volumeMounts": [_mount(name, volume) for name, volume in volumes],
        "securityContext": _security_context(params, config),
        "terminationMessagePath": RESULT_FILE,
    }
    return _without_empty(container)


def _toleration(toleration: Toleration) -> dict[str, Any]:
    return _without_empty(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value,
            "effect": toleration.effect,
            "tolerationSeconds": toleration.toleration_seconds,
        }
    )


def _given_pod(
    params: ContainerParams,
    pod_spec: dict[str, Any],
    identity: AttemptIdentity,
    config: KubernetesConfig,
) -> tuple[dict[str, Any], str]:
    """Return the pod of a node that gives a whole pod spec, and the name of its first container, the task."""
    if not config.allow_pod_spec:
        raise NotAllowed(
            "pod_spec is not allowed by the setting kubernetes.allow_pod_spec; use image, command, env, resources, "
            "volumes and other params"
        )
    if params.image is not None or params.volumes or params.command is not None:
        raise ParamsInvalid("pod_spec is the whole pod; put image, command and volumes into it")
    first, *others = _given_containers(pod_spec)
    name = str(first.get("name") or MAIN)
    main: dict[str, Any] = {
        **first,
        "name": name,
        "env": [*_variables(params, identity), *(first.get("env") or [])],
        "terminationMessagePath": RESULT_FILE,
    }
    return {**pod_spec, "containers": [main, *others], "restartPolicy": "Never"}, name


def _given_containers(pod_spec: dict[str, Any]) -> list[dict[str, Any]]:
    containers: object = pod_spec.get("containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise ParamsInvalid("pod_spec has no containers; its first container is the task")
    return cast("list[dict[str, Any]]", containers)


def _check_counts(params: ContainerParams) -> None:
    for name, entries in (
        ("env", params.env),
        ("env_from", params.env_from),
        ("volumes", params.volumes),
        ("tolerations", params.tolerations),
        ("image_pull_secrets", params.image_pull_secrets),
        ("node_selector", params.node_selector),
    ):
        if len(entries) > ENTRIES_MAX:
            raise ParamsInvalid(f"{name} has {len(entries)} entries; at most {ENTRIES_MAX}")


def _unreserved(given: dict[str, str], place: str) -> dict[str, str]:
    for name in given:
        if name.startswith(f"{PREFIX}/") or name in AttemptIdentity.RESERVED:
            raise ParamsInvalid(
                f"reserved name in {place}: {name!r}; Windlass sets it, use another name"
            )
    if len(given) > ENTRIES_MAX:
        raise ParamsInvalid(f"{place} has {len(given)} entries; at most {ENTRIES_MAX}")
    return given


def _variables(params: ContainerParams, identity: AttemptIdentity) -> list[dict[str, Any]]:
    variables: dict[str, str | EnvVarSource] = {**identity.variables(RESULT_FILE), **params.env}
    return [_variable(name, value) for name, value in variables.items()]


def _variable(name: str, value: str | EnvVarSource) -> dict[str, Any]:
    if isinstance(value, str):
        return {"name": name, "value": value}
    kind = only_one(f"env.{name}", secret=value.secret, config_map=value.config_map)
    if kind == "secret":
        field, holder = "secretKeyRef", value.secret
    else:
        field, holder = "configMapKeyRef", value.config_map
    return {
        "name": name,
        "valueFrom": {field: {"name": holder, "key": value.key, "optional": value.optional}},
    }


def _source(source: EnvFromSource, place: str) -> dict[str, Any]:
    kind = only_one(place, secret=source.secret, config_map=source.config_map)
    if kind == "secret":
        field, holder = "secretRef", source.secret
    else:
        field, holder = "configMapRef", source.config_map
    return {"prefix": source.prefix, field: {"name": holder, "optional": source.optional}}


def _named_volume(volume: ContainerVolume, at: int) -> tuple[str, ContainerVolume]:
    if not volume.mount.startswith("/"):
        raise ParamsInvalid(f"volumes[{at}].mount is not an absolute path: {volume.mount!r}")
    name = volume.name or f"volume-{at}"
    if len(name) > LABEL_CHARS_MAX:
        raise ParamsInvalid(
            f"volumes[{at}].name is too long: {name!r}; at most {LABEL_CHARS_MAX} characters"
        )
    return name, volume


def _volume(name: str, volume: ContainerVolume) -> dict[str, Any]:
    kind = only_one(
        f"volume {name}",
        secret=volume.secret,
        config_map=volume.config_map,
        claim=volume.claim,
        empty_dir=volume.empty_dir,
    )
    if kind == "secret":
        return {"name": name, "secret": {"secretName": volume.secret}}
    if kind == "config_map":
        return {"name": name, "configMap": {"name": volume.config_map}}
    if kind == "claim":
        return {
            "name": name,
            "persistentVolumeClaim": {"claimName": volume.claim, "readOnly": volume.read_only},
        }
    assert volume.empty_dir is not None
    empty = _without_empty(
        {"medium": volume.empty_dir.medium, "sizeLimit": volume.empty_dir.size_limit}
    )
    return {"name": name, "emptyDir": empty}


def _mount(name: str, volume: ContainerVolume) -> dict[str, Any]:
    mount = {
        "name": name,
        "mountPath": volume.mount,
        "subPath": volume.sub_path,
        "readOnly": volume.read_only,
    }
    return _without_empty(mount)


def _security_context(params: ContainerParams, config: KubernetesConfig) -> dict[str, Any]:
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "runAsUser": params.user}
    if not config.allow_root:
        context["runAsNonRoot"] = True
        context["capabilities"] = {"drop": ["ALL"]}
    return _without_empty(context)


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
