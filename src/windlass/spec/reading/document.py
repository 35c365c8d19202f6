"""Read texts into trees: detect the format, limit the size, and find positions."""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from windlass.core.json_length import is_longer_than
from windlass.spec.reading.findings import (
    Findings,
    FindPositions,
    OtherFormat,
    Position,
    Target,
    Unreadable,
)
from windlass.spec.reading.json_positions import find_in_json
from windlass.spec.reading.json_reader import read_json
from windlass.spec.reading.yaml_positions import find_in_yaml
from windlass.spec.reading.yaml_reader import read_yaml

DOCUMENT_BYTES_MAX = 32 << 20
TOO_LARGE_HINT = "split the workflow"

Format = Literal["yaml", "json"]


def _find_nothing(targets: frozenset[Target]) -> Mapping[Target, Position]:
    return {}


class Document(Struct):
    """The tree of a text, None if it is unreadable, and a function that finds positions in the text."""

    tree: object = None
    find_positions: FindPositions = _find_nothing


def read_document(
    text: str | bytes | dict[str, object], format: Format | None, findings: Findings
) -> Document:
    """Read a text. Without a format, a text that starts with a brace is JSON or YAML, any other is YAML."""
    if isinstance(text, dict):
        return read_value(text, findings)
    if len(text) > DOCUMENT_BYTES_MAX:
        message = f"document too large: {len(text)} bytes, limit {DOCUMENT_BYTES_MAX}"
        findings.add((), message, TOO_LARGE_HINT, position=Position(1, 1))
        return Document()
    try:
        decoded = _decode(text, findings)
        if format is None:
            return _read_any_document(decoded, findings)
        return _READERS[format](decoded, findings)
    except Unreadable:
        return Document()


def _read_any_document(text: str, findings: Findings) -> Document:
    if not text.lstrip().startswith("{"):
        return _read_yaml_document(text, findings)
    try:
        return _read_json_document(text, findings)
    except OtherFormat:
        return _read_flow_yaml(text, findings)


def _read_json_document(text: str, findings: Findings) -> Document:
    return Document(read_json(text, findings), lambda targets: find_in_json(text, targets))


def _read_yaml_document(text: str, findings: Findings) -> Document:
    return Document(read_yaml(text, findings), lambda targets: find_in_yaml(text, targets))


_READERS: Mapping[Format, Callable[[str, Findings], Document]] = {
    "json": _read_json_document,
    "yaml": _read_yaml_document,
}


def _read_flow_yaml(text: str, findings: Findings) -> Document:
    """Read a text that starts like JSON as YAML. If it is not YAML either, the JSON error remains."""
    yaml_findings = Findings()
    document = _read_yaml_document(text, yaml_findings)
    findings.replace(yaml_findings)
    return document


def read_value(value: dict[str, object], findings: Findings) -> Document:
    """Accept a tree that is already decoded, if it is valid JSON within the limits. It has no positions."""
    if is_longer_than(value, DOCUMENT_BYTES_MAX):
        findings.add(
            (), f"document too large: more than {DOCUMENT_BYTES_MAX} bytes", TOO_LARGE_HINT
        )
        return Document()
    try:
        # The encoding is also a copy, so later changes by the caller have no effect.
        encoded = msgspec.json.encode(value)
        tree = read_json(encoded.decode(), findings)
    except Unreadable:
        return Document()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        findings.add((), f"not JSON: {error}", "use plain dicts, lists, strings and numbers")
        return Document()
    if len(encoded) > DOCUMENT_BYTES_MAX:
        message = f"document too large: {len(encoded)} bytes, limit {DOCUMENT_BYTES_MAX}"
        findings.add((), message, TOO_LARGE_HINT)
    return Document(tree)


def _decode(text: str | bytes, findings: Findings) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            column = error.start - text.rfind(b"\n", 0, error.start)
            message = f"not UTF-8: byte 0x{text[error.start]:02x}"
            findings.reject((), message, "save the file as UTF-8", position=Position(line, column))
    return text.removeprefix("\ufeff")
