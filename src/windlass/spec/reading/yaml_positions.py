"""Find the positions of keys and values in YAML texts."""

from collections.abc import Callable, Iterator
from typing import cast

import yaml
from msgspec import Struct
from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    StreamEndEvent,
)

from windlass.spec.reading.findings import Path, Position, Target


class _Level(Struct):
    """An open collection, with the key (of a mapping) or the index (of a list) of its current entry."""

    path: Path
    is_mapping: bool
    key: str | None = None
    index: int = 0

    def entry_path(self) -> Path:
        """Return the path of the current entry."""
        if self.is_mapping:
            return (*self.path, self.key or "")
        return (*self.path, self.index)

    def advance(self) -> None:
        """Go to the next entry."""
        self.key = None
        self.index += 1


def iterate_events(text: str) -> Iterator[Event]:
    """Yield the events of a text. Raise yaml.YAMLError or UnicodeEncodeError where it is not YAML."""
    # The C parser only produces events: when it composes nodes, deep documents overflow the stack.
    loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    get_event = cast("Callable[[], Event]", loader(text).get_event)
    while True:
        event = get_event()
        yield event
        if isinstance(event, StreamEndEvent):
            return


def position_of(event: Event) -> Position:
    """Return the position where an event starts."""
    mark = cast("yaml.Mark", event.start_mark)
    return Position(mark.line + 1, mark.column + 1)


def find_in_yaml(text: str, targets: frozenset[Target]) -> dict[Target, Position]:
    """Return the first position of each key and value in a text that was read before."""
    positions: dict[Target, Position] = {}
    try:
        for target, event in _iterate_targets(text):
            if target in targets:
                positions.setdefault(target, position_of(event))
                if len(positions) == len(targets):
                    break
    except (yaml.YAMLError, UnicodeEncodeError):
        pass
    return positions


def _iterate_targets(text: str) -> Iterator[tuple[Target, Event]]:
    """Yield every key and every value of a text, with the event that starts it."""
    levels: list[_Level] = []
    for event in iterate_events(text):
        if isinstance(event, CollectionEndEvent):
            levels.pop()
            if levels:
                levels[-1].advance()
            continue
        if not isinstance(event, NodeEvent):
            continue
        path: Path = ()
        if levels:
            level = levels[-1]
            if level.is_mapping and level.key is None:
                level.key = getattr(event, "value", "")
                yield (level.entry_path(), True), event
                continue
            path = level.entry_path()
        yield (path, False), event
        if isinstance(event, CollectionStartEvent):
            levels.append(_Level(path, isinstance(event, MappingStartEvent)))
        elif levels:
            levels[-1].advance()
