"""Builds Jobs: from an allow-list of fields, or around a whole pod spec where the administrator lets nodes give one."""

import math
from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from windlass.core.errors import FatalError, ParamsInvalid
from windlass.handlers.container.identity import (
    INSTANCE_LABEL,
    LABEL_CHARS_MAX,
    PREFIX,
    TASK_ANNOTATION,
    AttemptIdentity,
    followed_now,
)
from windlass.handlers.container.params import ContainerParams, ContainerVolume, EnvFromSource, EnvVarSource, only_one

MAIN = "main"
RESULT_FILE = "/dev/termination-log"
ENTRIES_MAX = 100
# The worker stops a container in time. So much later the cluster does, should no worker be left.
DEADLINE_MARGIN_SECONDS = 30


class KubernetesConfig(Struct, frozen=True, kw_only=True):
    """What an administrator decided about containers on Kubernetes."""

    # Tells the Jobs of several installations in one namespace apart.
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
    # A Job that no worker followed for so long is nobody's, and deleted.
    orphan_seconds: int = 3600


class NotAllowed(FatalError):
    """Something that the administrator does not let nodes do."""

    type = "not_allowed"


class JobManifest(Struct, frozen=True):
    """A Job to create, and which of its containers is the task."""

    body: dict[str, Any]
    main: str


def build(
    order: ContainerParams, identity: AttemptIdentity, rules: KubernetesConfig, timeout_seconds: float
) -> JobManifest:
    """The Job for an attempt. ParamsInvalid, NotAllowed."""
    if order.pod_spec is not None:
        pod, main = _given(order, identity, rules)
    else:
        pod, main = _built(order, identity, rules), MAIN
    labels = {**_unreserved(order.labels, "labels"), **identity.labels, INSTANCE_LABEL: rules.instance}
    annotations = {**_unreserved(order.annotations, "annotations"), TASK_ANNOTATION: identity.text, **followed_now()}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": identity.name, "labels": labels, "annotations": annotations},
        "spec": {
            # The engine decides about further attempts, and each of them has a Job of its own.
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": math.ceil(timeout_seconds) + DEADLINE_MARGIN_SECONDS,
            "ttlSecondsAfterFinished": rules.ttl_seconds,
            "template": template,
        },
    }
    return JobManifest(body, main)


def _built(order: ContainerParams, identity: AttemptIdentity, rules: KubernetesConfig) -> dict[str, Any]:
    if not order.image:
        raise ParamsInvalid("image is missing: on Kubernetes a container node names the image to run")
    if order.service_account is not None and order.service_account not in rules.service_accounts:
        allowed = ", ".join(rules.service_accounts) or "none"
        raise NotAllowed(
            f"service_account {order.service_account!r} is not one that nodes may use ({allowed}): "
            "the setting kubernetes.service_accounts lists them"
        )
    if order.user == 0 and not rules.allow_root:
        raise NotAllowed("user 0 is root, which the setting kubernetes.allow_root does not allow")
    _refuse_too_many(order)
    volumes = [_named(volume, at) for at, volume in enumerate(order.volumes)]
    container = {
        "name": MAIN,
        "image": order.image,
        "imagePullPolicy": order.image_pull_policy,
        "command": order.command,
        "args": order.args,
        "workingDir": order.working_dir,
        "env": [_variable(name, value) for name, value in _variables(order, identity).items()],
        "envFrom": [_source(source, f"env_from[{at}]") for at, source in enumerate(order.env_from)],
        "resources": {
            "requests": {name: str(amount) for name, amount in order.resources.requests.items()},
            "limits": {name: str(amount) for name, amount in order.resources.limits.items()},
        },
        "volumeMounts": [_mount(name, volume) for name, volume in volumes],
        "securityContext": _confined(order, rules),
        "terminationMessagePath": RESULT_FILE,
    }
    return _present(
        {
            "restartPolicy": "Never",
            "containers": [_present(container)],
            "volumes": [_volume(name, volume) for name, volume in volumes],
            "serviceAccountName": order.service_account,
            # A container that was given no account of its own has no business with the cluster.
            "automountServiceAccountToken": order.service_account is not None,
            "nodeSelector": order.node_selector,
            "tolerations": [
                _present(
                    {
                        "key": one.key,
                        "operator": one.operator,
                        "value": one.value,
                        "effect": one.effect,
                        "tolerationSeconds": one.toleration_seconds,
                    }
                )
                for one in order.tolerations
            ],
            "imagePullSecrets": [{"name": name} for name in order.image_pull_secrets],
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        }
    )


def _given(order: ContainerParams, identity: AttemptIdentity, rules: KubernetesConfig) -> tuple[dict[str, Any], str]:
    """The pod of a node that writes all of it. Its first container is the task."""
    if not rules.allow_pod_spec:
        raise NotAllowed(
            "pod_spec is given, which the setting kubernetes.allow_pod_spec does not allow: use image, command, env, "
            "resources, volumes and the like"
        )
    pod = dict(order.pod_spec or {})
    containers: object = pod.get("containers")
    first = cast("list[object]", containers)[0] if isinstance(containers, list) and containers else None
    if not isinstance(first, dict):
        raise ParamsInvalid("pod_spec has no containers: its first one is the task")
    if order.image is not None or order.volumes or order.command is not None:
        raise ParamsInvalid("pod_spec is the whole pod: image, command and volumes belong into it, not beside it")
    main = dict(cast("dict[str, Any]", first))
    main["name"] = str(main.get("name") or MAIN)
    ours = [_variable(name, value) for name, value in _variables(order, identity).items()]
    main["env"] = [*ours, *cast("list[Any]", main.get("env") or [])]
    main["terminationMessagePath"] = RESULT_FILE
    pod["containers"] = [main, *cast("list[Any]", containers)[1:]]
    pod["restartPolicy"] = "Never"
    return pod, main["name"]


def _refuse_too_many(order: ContainerParams) -> None:
    for name, entries in (
        ("env", order.env),
        ("env_from", order.env_from),
        ("volumes", order.volumes),
        ("tolerations", order.tolerations),
        ("image_pull_secrets", order.image_pull_secrets),
        ("node_selector", order.node_selector),
    ):
        if len(entries) > ENTRIES_MAX:
            raise ParamsInvalid(f"{name} has {len(entries)} entries: {ENTRIES_MAX} is the most")


def _unreserved(given: dict[str, str], place: str) -> dict[str, str]:
    reserved = [name for name in given if name.startswith(f"{PREFIX}/") or name in AttemptIdentity.RESERVED]
    if reserved:
        raise ParamsInvalid(f"{place} has {reserved[0]!r}, which Windlass sets itself: choose another name")
    if len(given) > ENTRIES_MAX:
        raise ParamsInvalid(f"{place} has {len(given)} entries: {ENTRIES_MAX} is the most")
    return given


def _variables(order: ContainerParams, identity: AttemptIdentity) -> dict[str, str | EnvVarSource]:
    return {**identity.variables(RESULT_FILE), **order.env}


def _variable(name: str, value: str | EnvVarSource) -> dict[str, Any]:
    if isinstance(value, str):
        return {"name": name, "value": value}
    kind = only_one(f"env.{name}", secret=value.secret, config_map=value.config_map)
    field, held_by = ("secretKeyRef", value.secret) if kind == "secret" else ("configMapKeyRef", value.config_map)
    return {"name": name, "valueFrom": {field: {"name": held_by, "key": value.key, "optional": value.optional}}}


def _source(source: EnvFromSource, place: str) -> dict[str, Any]:
    kind = only_one(place, secret=source.secret, config_map=source.config_map)
    field, held_by = ("secretRef", source.secret) if kind == "secret" else ("configMapRef", source.config_map)
    return {"prefix": source.prefix, field: {"name": held_by, "optional": source.optional}}


def _named(volume: ContainerVolume, at: int) -> tuple[str, ContainerVolume]:
    if not volume.mount.startswith("/"):
        raise ParamsInvalid(f"volumes[{at}].mount {volume.mount!r} is no absolute path")
    name = volume.name or f"volume-{at}"
    if len(name) > LABEL_CHARS_MAX:
        raise ParamsInvalid(f"volumes[{at}].name {name!r} is longer than {LABEL_CHARS_MAX} characters")
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
    empty = _present({"medium": volume.empty_dir.medium, "sizeLimit": volume.empty_dir.size_limit})
    return {"name": name, "emptyDir": empty}


def _mount(name: str, volume: ContainerVolume) -> dict[str, Any]:
    mount = {"name": name, "mountPath": volume.mount, "subPath": volume.sub_path, "readOnly": volume.read_only}
    return _present(mount)


def _confined(order: ContainerParams, rules: KubernetesConfig) -> dict[str, Any]:
    confined: dict[str, Any] = {"allowPrivilegeEscalation": False, "runAsUser": order.user}
    if not rules.allow_root:
        confined |= {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    return _present(confined)


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
