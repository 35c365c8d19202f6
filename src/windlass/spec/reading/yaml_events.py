"""Reads YAML as a stream of events, so that no depth, alias, tag or key of a document can harm the reader.

Places are not kept while reading: a second pass finds those that problems need.
"""

from collections.abc import Callable
from typing import NoReturn, cast

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    StreamEndEvent,
)

from windlass.spec.reading.findings import Findings, Path, Place, Unreadable
from windlass.spec.reading.plain_yaml import read_plain_yaml
from windlass.spec.reading.scalars import NUMBER_FIRST, WORDS, ScalarInvalid, resolve
from windlass.spec.reading.trees import is_array, is_object

DEPTH_MAX = 64
VALUES_MAX = 3_000_000
ALIASES_MAX = 1_000
ALIASED_VALUES_MAX = 100_000
KEY_LENGTH_MAX = 256
SHOWN_MAX = 60

Container = dict[str, object] | list[object]


def read_yaml(text: str, findings: Findings) -> object:
    """The plain tree of a document; Unreadable when it cannot be used, with the reason among the findings."""
    plain = read_plain_yaml(text)
    if plain is not None:
        return plain
    reader = _Reader(findings)
    try:
        tree = reader.read(_events(text))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        findings.add((), f"this is not YAML: {_reason(error)}", _advice(error), place=_error_place(error, text))
        raise Unreadable from None
    if reader.duplicates:
        places = find_in_yaml(text, frozenset((path, True) for path, _ in reader.duplicates))
        for path, place in reader.duplicates:
            first = places.get((path, True))
            at = f", first in line {first.line}, column {first.column}" if first else ""
            findings.add(path, f"the key '{path[-1]}' is given twice{at}", "remove one of the two", place=place)
    return tree


def _events(text: str) -> Callable[[], Event]:
    # The C parser is only asked for events: composing nodes in it overflows the stack on deep documents.
    loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return cast("Callable[[], Event]", loader(text).get_event)


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return f"{error.problem}" + (f" {error.context}" if error.context else "")
    if isinstance(error, yaml.reader.ReaderError):
        return f"{error.reason} (character {error.character!r})"
    return "it has half a surrogate pair" if isinstance(error, UnicodeEncodeError) else str(error)


def _advice(error: Exception) -> str:
    problem = str(getattr(error, "problem", ""))
    if "\\t" in problem:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in problem or "expected ',' or '}'" in problem:
        return "put quotes around a value that contains ': ', '{' or '}'"
    return "look at the indentation, quotes and brackets just before this place"


def _error_place(error: Exception, text: str) -> Place:
    mark = cast("yaml.Mark | None", getattr(error, "problem_mark", None) or getattr(error, "context_mark", None))
    if mark is not None:
        return Place(mark.line + 1, mark.column + 1)
    at = min(cast("int", getattr(error, "position", getattr(error, "start", 0))), len(text))
    return Place(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def place_of(event: Event) -> Place:
    """Where an event starts."""
    mark = cast("yaml.Mark", event.start_mark)
    return Place(mark.line + 1, mark.column + 1)


class _Reader:
    """Builds the tree of one document. The outermost container is a list that holds the document."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.values = 0
        # The open collections around the current one, each with the key that waits for its value and its anchor.
        self.stack: list[tuple[Container, str | None, str | None]] = []
        self.anchors: dict[str, object] = {}
        self.aliases = 0
        self.aliased_values = 0
        self.documents = 0
        self.duplicates: list[tuple[Path, Place]] = []

    def read(self, get: Callable[[], Event]) -> object:
        """The tree of the only document; the loop is flat because it runs a million times for large workflows."""
        container: Container = []
        key: str | None = None
        mapping = False
        value: object
        while True:
            event = get()
            if isinstance(event, ScalarEvent):
                value = event.value
                if event.tag is not None:
                    self.refuse_tag(event, event.tag)
                if mapping and key is None:
                    key = self.key(event, value, container)
                    continue
                if value in WORDS or value[0] in NUMBER_FIRST or "\0" in value:
                    value = self.scalar(event, value)
                if event.anchor is not None:
                    self.anchors[event.anchor] = value
            elif isinstance(event, CollectionStartEvent):
                if mapping and key is None:
                    self.refuse(event, "a key must be a string", "write lists and objects after a key, not as a key")
                self.open(event)
                self.stack.append((container, key, event.anchor))
                mapping = type(event) is MappingStartEvent
                container = {} if mapping else []
                key = None
                continue
            elif isinstance(event, CollectionEndEvent):
                value = container
                container, key, anchor = self.stack.pop()
                mapping = type(container) is dict
                if anchor is not None:
                    self.anchors[anchor] = value
            elif isinstance(event, AliasEvent):
                if mapping and key is None:
                    self.refuse(event, "an alias cannot be a key", "write the key out")
                value = self.alias(event, event.anchor)
            elif isinstance(event, StreamEndEvent):
                return next(iter(container), None)
            else:
                self.begin(event)
                continue
            if mapping:
                container[key] = value  # pyright: ignore[reportArgumentType, reportCallIssue]
                key = None
            else:
                container.append(value)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    def refuse(self, event: Event, message: str, hint: str) -> NoReturn:
        """Stop reading."""
        self.findings.add((), message, hint, place=place_of(event))
        raise Unreadable

    def refuse_tag(self, event: Event, tag: str) -> None:
        """Tags would choose types; only the empty one, which says `string`, is harmless."""
        if tag != "!":
            self.refuse(event, f"tags such as {tag[:SHOWN_MAX]} are not allowed", "write the plain value")

    def begin(self, event: Event) -> None:
        """A document or the stream begins or ends."""
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self.refuse(event, "there is more than one document", "put each workflow into a file of its own")

    def open(self, event: CollectionStartEvent) -> None:
        """A collection begins."""
        if event.tag is not None:
            self.refuse_tag(event, event.tag)
        self.count(event)
        if len(self.stack) >= DEPTH_MAX:
            self.refuse(event, f"the document is nested deeper than {DEPTH_MAX} levels", "flatten it")

    def count(self, event: Event) -> None:
        """Keep the document within bounds."""
        self.values += 1
        if self.values > VALUES_MAX:
            self.refuse(event, f"the document has more than {VALUES_MAX} keys and collections", "split the workflow")

    def key(self, event: ScalarEvent, key: str, container: Container) -> str:
        """The key of a mapping, checked."""
        if key in WORDS or key[0] in NUMBER_FIRST or key == "<<" or len(key) > KEY_LENGTH_MAX or "\0" in key:
            self.check_key(event, key)
        if key in container:
            self.duplicates.append((self.path(key), place_of(event)))
        self.values += 1
        if self.values > VALUES_MAX:
            self.count(event)
        return key

    def path(self, key: str) -> Path:
        """Where the reader is: the waiting key or the next index of every open collection, then `key`."""
        around = [waiting if is_object(held) else len(held) for held, waiting, _ in self.stack[1:]]
        return (*(part for part in around if part is not None), key)

    def check_key(self, event: ScalarEvent, key: str) -> None:
        """Refuse keys that are no strings; quotes make any key a string."""
        if len(key) > KEY_LENGTH_MAX or "\0" in key:
            self.refuse(
                event, f"the key '{key[:SHOWN_MAX]}…' cannot be used", f"keys have 1 to {KEY_LENGTH_MAX} characters"
            )
        if not event.implicit[0]:
            return
        if key == "<<":
            self.refuse(event, "merge keys (<<) are not allowed", "write the keys out, or use `defaults`")
        try:
            value = resolve(key)
        except ScalarInvalid:
            value = None
        if not isinstance(value, str):
            shown = key[:SHOWN_MAX]
            self.refuse(event, f"the key {shown or '(empty)'} is not a string", f"put quotes around it: '{shown}'")

    def scalar(self, event: ScalarEvent, text: str) -> object:
        """The value of a scalar that may be something else than its text."""
        if "\0" in text:
            self.findings.add(
                (), "the string has a NUL character", "remove it: it cannot be stored", place=place_of(event)
            )
        if not event.implicit[0]:
            return text
        try:
            return resolve(text)
        except ScalarInvalid as error:
            self.findings.add((), str(error), "put quotes around it to make it a string", place=place_of(event))
            return None

    def alias(self, event: AliasEvent, name: str | None) -> object:
        """The value that an alias stands for, counted as if it were written out."""
        self.aliases += 1
        if name is None or name not in self.anchors:
            self.refuse(
                event, f"*{str(name)[:SHOWN_MAX]} stands for nothing before it", f"mark a value with &{name} first"
            )
        if self.aliases > ALIASES_MAX:
            self.refuse(event, f"there are more than {ALIASES_MAX} aliases", "write the values out, or use `defaults`")
        value = self.anchors[name]
        self.aliased_values += _size(value, ALIASED_VALUES_MAX)
        if self.aliased_values > ALIASED_VALUES_MAX:
            self.refuse(event, f"aliases make more than {ALIASED_VALUES_MAX} values", "write fewer values, once each")
        return value


def _size(value: object, limit: int) -> int:
    """How many values there are in a value, counting no further than just over the limit."""
    size = 0
    stack = [value]
    while stack and size <= limit:
        here = stack.pop()
        size += 1
        if is_object(here):
            stack.extend(here.values())
        elif is_array(here):
            stack.extend(here)
    return size


def find_in_yaml(text: str, wanted: frozenset[tuple[Path, bool]]) -> dict[tuple[Path, bool], Place]:
    """The places of keys (True) and values (False), the first of each, in a text that was read before."""
    places: dict[tuple[Path, bool], Place] = {}
    # The open collections: its own path, the key that waits for a value, and the next index (None in a mapping).
    stack: list[tuple[Path, str | None, int | None]] = []
    path: Path = ()
    key: str | None = None
    index: int | None = None
    get = _events(text)
    while len(places) < len(wanted):
        try:
            event = get()
        except (yaml.YAMLError, UnicodeEncodeError):
            return places
        if isinstance(event, StreamEndEvent):
            return places
        if isinstance(event, CollectionEndEvent):
            path, key, index = stack.pop()
        elif isinstance(event, (ScalarEvent, AliasEvent, CollectionStartEvent)):
            if index is None and stack and key is None:
                key = event.value if isinstance(event, ScalarEvent) else ""
                if ((*path, key), True) in wanted:
                    places.setdefault(((*path, key), True), place_of(event))
                continue
            part = key if index is None else index
            here: Path = path if not stack or part is None else (*path, part)
            if (here, False) in wanted:
                places.setdefault((here, False), place_of(event))
            if isinstance(event, CollectionStartEvent):
                stack.append((path, None, None if index is None else index + 1))
                path, key, index = here, None, None if isinstance(event, MappingStartEvent) else 0
                continue
            key, index = None, None if index is None else index + 1
    return places
