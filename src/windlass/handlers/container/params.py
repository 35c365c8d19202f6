"""The params of a container node, and the values in them."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.core.durations import DURATION_RULE, parse_duration
from windlass.core.errors import ParamsInvalid
from windlass.handlers.container.config import Runtime

Quantity = str | int | float

# What a kubelet keeps of a termination message; the same for processes, so that both runtimes behave alike.
RESULT_BYTES_MAX = 4096
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(|k|[KMGTPE]i?)", re.ASCII)
_FACTORS = {"": 1, "k": 1000, **{unit: 1000**power for power, unit in enumerate("KMGTPE", 1)},
            **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}}  # fmt: skip


class EnvVarSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A variable whose value is stored in a secret or a config map of the cluster."""

    key: str
    secret: str | None = None
    config_map: str | None = None
    optional: bool = False


class EnvFromSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A secret or a config map whose keys all become variables."""

    secret: str | None = None
    config_map: str | None = None
    prefix: str = ""
    optional: bool = False


class ResourceRequirements(Struct, frozen=True, forbid_unknown_fields=True):
    """What a container requests, and its limits."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class EmptyDirVolume(Struct, frozen=True, forbid_unknown_fields=True):
    """A directory that exists as long as its pod."""

    medium: Literal["", "Memory"] = ""
    size_limit: str | None = None


class ContainerVolume(Struct, frozen=True, forbid_unknown_fields=True):
    """A volume and where it is mounted. Exactly one source is given."""

    mount: str
    name: str | None = None
    secret: str | None = None
    config_map: str | None = None
    claim: str | None = None
    empty_dir: EmptyDirVolume | None = None
    sub_path: str | None = None
    read_only: bool = False


class Toleration(Struct, frozen=True, forbid_unknown_fields=True):
    """A taint of nodes that the pod tolerates."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class JobOrigin(Struct, frozen=True):
    """The job that the node belongs to; set by the compiler, not by authors."""

    workflow_id: str
    scheduled_at: datetime
    run_id: str = ""


class ContainerParams(Struct, frozen=True, kw_only=True):
    """The params of a container node."""

    runtime: Annotated[
        Runtime | None,
        Meta(description="where the program runs; default: the setting `container.runtime`"),
    ] = None
    image: Annotated[str | None, Meta(description="container image; required on Kubernetes")] = None
    command: Annotated[
        list[str] | None, Meta(description="the program; required for processes")
    ] = None
    args: Annotated[list[str] | None, Meta(description="arguments of the program")] = None
    env: Annotated[dict[str, str | EnvVarSource], Meta(description="environment variables")] = {}
    env_from: Annotated[
        list[EnvFromSource], Meta(description="secrets and config maps as variables")
    ] = []
    working_dir: Annotated[str | None, Meta(description="working directory")] = None
    resources: Annotated[ResourceRequirements, Meta(description="requests and limits")] = (
        ResourceRequirements()
    )
    cpu_seconds: Annotated[int | None, Meta(description="CPU time limit of processes")] = None
    exit_codes: Annotated[
        list[int] | None, Meta(description="exit codes that mean success; default `[0]`")
    ] = None
    volumes: Annotated[
        list[ContainerVolume], Meta(description="volumes and where they are mounted")
    ] = []
    user: Annotated[int | None, Meta(description="numeric user id")] = None
    service_account: Annotated[
        str | None, Meta(description="one of the setting `kubernetes.service_accounts`")
    ] = None
    node_selector: Annotated[
        dict[str, str], Meta(description="labels of the nodes that may run the pod")
    ] = {}
    tolerations: Annotated[list[Toleration], Meta(description="taints that the pod tolerates")] = []
    image_pull_secrets: Annotated[list[str], Meta(description="secrets for pulling the image")] = []
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Meta(description="when the image is pulled"),
    ] = None
    labels: Annotated[dict[str, str], Meta(description="labels of the Job and its pod")] = {}
    annotations: Annotated[
        dict[str, str], Meta(description="annotations of the Job and its pod")
    ] = {}
    start_timeout: Annotated[
        Quantity | None,
        Meta(
            description="how long the container may take to start: a [duration](language.md#durations)"
        ),
    ] = None
    pod_spec: Annotated[
        dict[str, Any] | None,
        Meta(description="a whole pod spec, if `kubernetes.allow_pod_spec` allows it"),
    ] = None
    origin: JobOrigin | None = None


def is_success(params: ContainerParams, code: int) -> bool:
    """Whether the node accepts this exit code."""
    if params.exit_codes is None:
        return code == 0
    return code in params.exit_codes


def only_one(place: str, **kinds: object) -> str:
    """Return the name of the one value that is given; raise ParamsInvalid if there is none or more than one."""
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) != 1:
        listed = " and ".join(given) or "nothing"
        raise ParamsInvalid(f"{place} has {listed}; it needs exactly one of {', '.join(kinds)}")
    return given[0]


def parse_bytes(quantity: Quantity, place: str) -> int:
    """Convert a Kubernetes quantity to a number of bytes."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or float(found[1]) <= 0:
        raise ParamsInvalid(
            f"invalid quantity in {place}: {quantity!r}; write 512Mi, 2G or a number"
        )
    return int(float(found[1]) * _FACTORS[found[2]])


def parse_seconds(duration: Quantity, place: str) -> float:
    """Convert a duration of the workflow language to seconds."""
    seconds = parse_duration(duration)
    if seconds is None or seconds <= 0:
        raise ParamsInvalid(f"invalid duration in {place}: {duration!r}; {DURATION_RULE}")
    return seconds


def parse_result(message: str, last_line: str) -> Any:
    """Return the JSON in the result file, else a last line that is a JSON object or array, else None."""
    if message.strip():
        try:
            return msgspec.json.decode(message)
        except (msgspec.DecodeError, RecursionError):
            pass
    if last_line.startswith(("{", "[")):
        try:
            return msgspec.json.decode(last_line)
        except (msgspec.DecodeError, RecursionError):
            pass
    return None
