"""Read YAML strictly, event by event, so that no depth, alias, tag or key of a document can harm the reader."""

from typing import Any, NoReturn, cast

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

from windlass.spec.reading.findings import Findings, Path, Position, Unreadable
from windlass.spec.reading.scalars import ScalarInvalid, parse_scalar
from windlass.spec.reading.trees import count_values
from windlass.spec.reading.yaml_positions import find_in_yaml, iterate_events, position_of

DEPTH_MAX = 64
VALUES_MAX = 3_000_000
ALIASES_MAX = 1_000
ALIASED_VALUES_MAX = 100_000
KEY_LENGTH_MAX = 256
SHOWN_MAX = 60


def read_strictly(text: str, findings: Findings) -> object:
    """Return the tree of a document. Raise Unreadable, with the reason among the findings, if there is none."""
    reader = _Reader(findings)
    try:
        for event in iterate_events(text):
            reader.read(event)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        position = _error_position(error, text)
        findings.add((), f"invalid YAML: {_reason(error)}", _advice(error), position=position)
        raise Unreadable from None
    reader.report_duplicates(text)
    return reader.tree()


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        if error.context:
            return f"{error.problem} {error.context}"
        return str(error.problem)
    if isinstance(error, yaml.reader.ReaderError):
        return f"{error.reason} (character {error.character!r})"
    if isinstance(error, UnicodeEncodeError):
        return "half a surrogate pair"
    return str(error)


def _advice(error: Exception) -> str:
    problem = str(getattr(error, "problem", ""))
    if "\\t" in problem:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in problem or "expected ',' or '}'" in problem:
        return "put quotes around a value that contains ': ', '{' or '}'"
    return "check the indentation, quotes and brackets just before this position"


def _error_position(error: Exception, text: str) -> Position:
    mark = cast(
        "yaml.Mark | None",
        getattr(error, "problem_mark", None) or getattr(error, "context_mark", None),
    )
    if mark is not None:
        return Position(mark.line + 1, mark.column + 1)
    offset = min(cast("int", getattr(error, "position", getattr(error, "start", 0))), len(text))
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


class _Level(Struct):
    """An open collection, and the key in a mapping that has no value yet."""

    container: Any
    anchor: str | None = None
    key: str | None = None

    @property
    def expects_key(self) -> bool:
        """Whether the next value is a key."""
        return self.key is None and type(self.container) is dict

    def put(self, value: object) -> None:
        """Add a value to the collection."""
        if self.key is None:
            self.container.append(value)
        else:
            self.container[self.key] = value
            self.key = None


class _Reader:
    """Builds the tree of one document from its events."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        # The outermost level is a list that contains the document.
        self._documents: list[object] = []
        self._levels = [_Level(self._documents)]
        self._document_starts = 0
        self._values = 0
        self._anchors: dict[str, object] = {}
        self._aliases = 0
        self._aliased_values = 0
        self._duplicates: list[tuple[Path, Position]] = []

    def tree(self) -> object:
        """Return the only document; None if there is none."""
        if not self._documents:
            return None
        return self._documents[0]

    def read(self, event: Event) -> None:
        """Process one event."""
        if isinstance(event, ScalarEvent):
            self._read_scalar(event)
        elif isinstance(event, CollectionStartEvent):
            self._open(event)
        elif isinstance(event, CollectionEndEvent):
            closed = self._levels.pop()
            self._put(closed.container, closed.anchor)
        elif isinstance(event, AliasEvent):
            self._put(self._resolve(event), None)
        elif isinstance(event, DocumentStartEvent):
            self._document_starts += 1
            if self._document_starts > 1:
                self._reject(event, "more than one document", "put each workflow into its own file")

    def report_duplicates(self, text: str) -> None:
        """Report keys that occur twice, with the positions of both."""
        if not self._duplicates:
            return
        first_positions = find_in_yaml(
            text, frozenset((path, True) for path, _ in self._duplicates)
        )
        for path, position in self._duplicates:
            self._findings.add_duplicate_key(path, first_positions.get((path, True)), position)

    def _reject(self, event: Event, message: str, hint: str) -> NoReturn:
        self._findings.reject((), message, hint, position=position_of(event))

    def _put(self, value: object, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        self._levels[-1].put(value)

    def _count_value(self, event: Event) -> None:
        self._values += 1
        if self._values > VALUES_MAX:
            self._reject(
                event, f"more than {VALUES_MAX} keys and collections", "split the workflow"
            )

    def _check_tag(self, event: ScalarEvent | CollectionStartEvent) -> None:
        """Reject tags, which select types. The tag `!` only marks a string and is harmless."""
        if event.tag is not None and event.tag != "!":
            self._reject(
                event, f"tags are not allowed: {event.tag[:SHOWN_MAX]}", "write the plain value"
            )

    def _open(self, event: CollectionStartEvent) -> None:
        if self._levels[-1].expects_key:
            self._reject(
                event, "a key must be a string: this is a list or an object", "write it after a key"
            )
        self._check_tag(event)
        self._count_value(event)
        if len(self._levels) > DEPTH_MAX:
            self._reject(event, f"nested deeper than {DEPTH_MAX} levels", "flatten the document")
        container: dict[str, object] | list[object] = []
        if isinstance(event, MappingStartEvent):
            container = {}
        self._levels.append(_Level(container, event.anchor))

    def _read_scalar(self, event: ScalarEvent) -> None:
        self._check_tag(event)
        level = self._levels[-1]
        if level.expects_key:
            self._check_key(event)
            if event.value in level.container:
                self._duplicates.append((self._path(event.value), position_of(event)))
            self._count_value(event)
            level.key = event.value
        else:
            self._put(self._parse(event), event.anchor)

    def _path(self, key: str) -> Path:
        """Return the path of a key in the innermost open collection."""
        path: list[str | int] = []
        for level in self._levels[1:-1]:
            if level.key is None:
                path.append(len(level.container))
            else:
                path.append(level.key)
        return (*path, key)

    def _check_key(self, event: ScalarEvent) -> None:
        key = event.value
        shown = key[:SHOWN_MAX]
        if len(key) > KEY_LENGTH_MAX or "\0" in key:
            hint = f"use 1 to {KEY_LENGTH_MAX} characters without NUL"
            self._reject(event, f"invalid key: '{shown}…'", hint)
        is_quoted = not event.implicit[0]
        if is_quoted:
            return
        if key == "<<":
            self._reject(
                event, "merge keys are not allowed: <<", "write the keys out, or use `defaults`"
            )
        try:
            value = parse_scalar(key)
        except ScalarInvalid:
            value = None
        if not isinstance(value, str):
            self._reject(
                event,
                f"a key must be a string: {shown or '(empty)'}",
                f"put quotes around it: '{shown}'",
            )

    def _parse(self, event: ScalarEvent) -> object:
        text = event.value
        if "\0" in text:
            self._findings.add(
                (), "invalid character in string: NUL", "remove it", position=position_of(event)
            )
        is_quoted = not event.implicit[0]
        if is_quoted:
            return text
        try:
            return parse_scalar(text)
        except ScalarInvalid as error:
            hint = "put quotes around it to make it a string"
            self._findings.add((), str(error), hint, position=position_of(event))
            return None

    def _resolve(self, event: AliasEvent) -> object:
        """Return the value of an alias. It counts towards the limits as if it were written out."""
        if self._levels[-1].expects_key:
            self._reject(event, "an alias cannot be a key", "write the key out")
        name = str(event.anchor)
        if name not in self._anchors:
            self._reject(
                event,
                f"unknown alias: *{name[:SHOWN_MAX]}",
                f"mark a value before it with &{name[:SHOWN_MAX]}",
            )
        self._aliases += 1
        if self._aliases > ALIASES_MAX:
            self._reject(
                event, f"more than {ALIASES_MAX} aliases", "write the values out, or use `defaults`"
            )
        value = self._anchors[name]
        self._aliased_values += count_values(value, ALIASED_VALUES_MAX)
        if self._aliased_values > ALIASED_VALUES_MAX:
            self._reject(
                event,
                f"aliases expand to more than {ALIASED_VALUES_MAX} values",
                "use fewer aliases",
            )
        return value
