"""Texts to plain trees: which format it is, how large it may be, and where everything in it stands."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from windlass.spec.reading.findings import Findings, Locate, OtherFormat, Path, Place, Unreadable
from windlass.spec.reading.json_reader import find_in_json, read_json
from windlass.spec.reading.yaml_events import find_in_yaml, read_yaml

DOCUMENT_BYTES_MAX = 32 << 20

Format = Literal["yaml", "json"]


class Document:
    """A text that was read: its tree, and a way to find the places of what is wrong with it."""

    def __init__(self, tree: object, locate: Locate) -> None:
        self.tree = tree
        self.locate = locate


def read_document(text: str | bytes, format: Format | None, findings: Findings) -> Document:
    """Read a document; what is wrong goes to the findings, and the tree is None when nothing could be read."""
    if len(text) > DOCUMENT_BYTES_MAX:
        message = f"the document has {len(text)} bytes, over the limit of {DOCUMENT_BYTES_MAX}"
        findings.add((), message, "split the workflow", place=Place(1, 1))
        return Document(None, _nowhere)
    decoded = _decoded(text, findings)
    if decoded is None:
        return Document(None, _nowhere)
    chosen = format or ("json" if decoded.lstrip()[:1] == "{" else "yaml")
    try:
        if chosen == "json":
            return Document(read_json(decoded, findings), lambda wanted: find_in_json(decoded, wanted))
        return Document(read_yaml(decoded, findings), lambda wanted: find_in_yaml(decoded, wanted))
    except OtherFormat:
        return _as_flow_yaml(decoded, findings) if format is None else Document(None, _nowhere)
    except Unreadable:
        return Document(None, _nowhere)


def read_value(value: dict[str, object], findings: Findings) -> Document:
    """Take a tree that somebody decoded already, if it is JSON within the limits; it has no places."""
    try:
        # Also a copy: what the caller does with his afterwards changes nothing here.
        encoded = msgspec.json.encode(value)
        tree = read_json(encoded.decode(), findings)
    except Unreadable:
        return Document(None, _nowhere)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        findings.add((), f"the value is not JSON: {error}", "use plain dicts, lists, strings and numbers")
        return Document(None, _nowhere)
    if len(encoded) > DOCUMENT_BYTES_MAX:
        findings.add((), f"the document has {len(encoded)} bytes, over {DOCUMENT_BYTES_MAX}", "split the workflow")
    return Document(tree, _nowhere)


def _as_flow_yaml(text: str, findings: Findings) -> Document:
    """What begins like JSON may be YAML in braces; its own problems count only if it is not."""
    apart = Findings()
    try:
        tree = read_yaml(text, apart)
    except Unreadable:
        return Document(None, _nowhere)
    findings.replace(apart)
    return Document(tree, lambda wanted: find_in_yaml(text, wanted))


def _decoded(text: str | bytes, findings: Findings) -> str | None:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            column = error.start - text.rfind(b"\n", 0, error.start)
            findings.add((), "the document is not UTF-8", "save it as UTF-8", place=Place(line, column))
            return None
    return text.removeprefix("\ufeff")


def _nowhere(wanted: frozenset[tuple[Path, bool]]) -> Mapping[tuple[Path, bool], Place]:
    return {}
