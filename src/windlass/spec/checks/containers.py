"""Checks the params of container nodes that a cluster would reject, as far as they contain no templates."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from windlass.spec.reading.findings import Findings, Path

_LABEL_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_DNS_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_QUANTITY = re.compile(
    r"\+?(?:\d+(?:\.\d*)?|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII
)
_LABEL_RULE = (
    "use up to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
)
_KEY_RULE = f"{_LABEL_RULE}; a DNS name and '/' may come before it"
_DNS_LABEL_RULE = (
    "use up to 63 lower case letters, digits or '-', beginning and ending with a letter or digit"
)
_DNS_NAME_RULE = "use up to 253 lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
_QUANTITY_RULE = "write a number with a unit of Kubernetes, such as 500m, 2, 512Mi or 4G"
_TEMPLATE = "{{"


def check_container_params(findings: Findings, path: Path, params: Mapping[str, Any]) -> None:
    """Record invalid names, labels and quantities."""
    _check_labels(findings, (*path, "labels"), params.get("labels"))
    _check_labels(findings, (*path, "node_selector"), params.get("node_selector"))
    for name in _object(params.get("annotations")):
        _check_key(findings, (*path, "annotations", name), name)
    _check_name(findings, (*path, "service_account"), params.get("service_account"))
    for at, name in enumerate(_list(params.get("image_pull_secrets"))):
        _check_name(findings, (*path, "image_pull_secrets", at), name)
    for place, source in _sources(path, params):
        for kind in ("secret", "config_map", "claim"):
            _check_name(findings, (*place, kind), _object(source).get(kind))
    for at, volume in enumerate(_list(params.get("volumes"))):
        name = _object(volume).get("name")
        if _is_invalid(name, _DNS_LABEL):
            place = (*path, "volumes", at, "name")
            findings.add(place, f"invalid name of a volume: {name!r}", _DNS_LABEL_RULE)
    _check_quantities(findings, (*path, "resources"), _object(params.get("resources")))


def _sources(path: Path, params: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    for name, value in _object(params.get("env")).items():
        yield (*path, "env", name), value
    for key in ("env_from", "volumes"):
        for at, value in enumerate(_list(params.get(key))):
            yield (*path, key, at), value


def _check_labels(findings: Findings, path: Path, labels: object) -> None:
    for name, value in _object(labels).items():
        _check_key(findings, (*path, name), name)
        if value != "" and _is_invalid(value, _LABEL_PART):
            findings.add((*path, name), f"invalid value of a label: {value!r}", _LABEL_RULE)


def _check_key(findings: Findings, path: Path, key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if _is_invalid(name, _LABEL_PART) or (slash and _is_invalid(prefix, _DNS_NAME)):
        findings.add(path, f"invalid name: {key!r}", _KEY_RULE, at_key=True)


def _check_name(findings: Findings, path: Path, name: object) -> None:
    if _is_invalid(name, _DNS_NAME):
        findings.add(path, f"invalid name of an object of a cluster: {name!r}", _DNS_NAME_RULE)


def _check_quantities(findings: Findings, path: Path, resources: Mapping[str, Any]) -> None:
    for kind in ("requests", "limits"):
        for name, value in _object(resources.get(kind)).items():
            text = str(value) if isinstance(value, int | float) else value
            if _is_invalid(text, _QUANTITY):
                findings.add((*path, kind, name), f"invalid quantity: {value!r}", _QUANTITY_RULE)


def _is_invalid(text: object, pattern: re.Pattern[str]) -> bool:
    """Whether a value is a text that does not match; the handler reports values of a wrong type."""
    return isinstance(text, str) and _TEMPLATE not in text and not pattern.fullmatch(text)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
