"""What a container node asks for: its params, and the text of results."""

import re
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from windlass.core.errors import ParamsInvalid

Runtime = Literal["process", "kubernetes"]
Quantity = str | int | float

# What a kubelet keeps of a termination message; the same for processes, so that nodes behave alike.
RESULT_BYTES_MAX = 4096
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(|k|[KMGTPE]i?)", re.ASCII)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?", re.ASCII)
_FACTORS = {"": 1, "k": 1000, **{unit: 1000**power for power, unit in enumerate("KMGTPE", 1)},
            **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}}  # fmt: skip
_SECONDS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class EnvVarSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A variable whose value a secret or a config map of the cluster holds."""

    key: str
    secret: str | None = None
    config_map: str | None = None
    optional: bool = False


class EnvFromSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A secret or a config map all of whose keys become variables."""

    secret: str | None = None
    config_map: str | None = None
    prefix: str = ""
    optional: bool = False


class ResourceRequirements(Struct, frozen=True, forbid_unknown_fields=True):
    """What a container is given at least and at most."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class EmptyDirVolume(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that lives as long as its pod."""

    medium: Literal["", "Memory"] = ""
    size_limit: str | None = None


class ContainerVolume(Struct, frozen=True, forbid_unknown_fields=True):
    """Files, and where the container finds them. Exactly one kind of source."""

    mount: str
    name: str | None = None
    secret: str | None = None
    config_map: str | None = None
    claim: str | None = None
    empty_dir: EmptyDirVolume | None = None
    sub_path: str | None = None
    read_only: bool = False


class Toleration(Struct, frozen=True, forbid_unknown_fields=True):
    """A taint of nodes that the pod puts up with."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class JobOrigin(Struct, frozen=True):
    """The job that the node is of, as its workflow's plan tells it."""

    workflow_id: str
    scheduled_at: datetime


class ContainerParams(Struct, frozen=True, kw_only=True):
    """The params of a container node."""

    runtime: Runtime | None = None
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: dict[str, str | EnvVarSource] = {}
    env_from: list[EnvFromSource] = []
    working_dir: str | None = None
    resources: ResourceRequirements = ResourceRequirements()
    cpu_seconds: int | None = None
    # None: 0 alone means success.
    exit_codes: list[int] | None = None
    volumes: list[ContainerVolume] = []
    user: int | None = None
    service_account: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    image_pull_secrets: list[str] = []
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    start_timeout: Quantity | None = None
    pod_spec: dict[str, Any] | None = None
    origin: JobOrigin | None = None


def means_success(order: ContainerParams, code: int) -> bool:
    """Whether the node takes this exit code for a good one."""
    return code == 0 if order.exit_codes is None else code in order.exit_codes


def only_one(place: str, **kinds: object) -> str:
    """The name of the one kind that is given; ParamsInvalid when it is none or several."""
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) != 1:
        said = f"both {' and '.join(given)}" if given else "none"
        raise ParamsInvalid(f"{place} names {said}: it takes one of {', '.join(kinds)}")
    return given[0]


def bytes_of(quantity: Quantity, place: str) -> int:
    """A Kubernetes quantity as a number of bytes."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or float(found[1]) <= 0:
        raise ParamsInvalid(f"{place} {quantity!r} is no amount of bytes: write 512Mi, 2G or a number")
    return int(float(found[1]) * _FACTORS[found[2]])


def seconds_of(duration: Quantity, place: str) -> float:
    """A duration of the workflow language as seconds."""
    found = _DURATION.fullmatch(str(duration))
    if found is None or float(found[1]) <= 0:
        raise ParamsInvalid(f"{place} {duration!r} is no duration: write 90, 90s, 5m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def result_of(message: str, last_line: str) -> Any:
    """What the program gives back: the JSON it left in its result file, else a last line that is a JSON object or
    array, else None."""
    if message.strip():
        try:
            return msgspec.json.decode(message)
        except (msgspec.DecodeError, RecursionError):
            pass
    if last_line[:1] in ("{", "["):
        try:
            return msgspec.json.decode(last_line)
        except (msgspec.DecodeError, RecursionError):
            pass
    return None
