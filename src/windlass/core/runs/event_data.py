"""The data of events of runs and schedules as people and programs read it."""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from windlass.core.events import Event

# Keys whose values are instants, or lists of them.
INSTANTS = frozenset({"scheduled_at", "planned", "first", "last", "slots"})


def decoded_data(event: Event, instant: Callable[[int], str]) -> dict[str, Any]:
    """Return the data of an event, with its instants as text."""
    data: dict[str, Any] = {} if event.data is None else msgspec.json.decode(event.data)
    for name in data.keys() & INSTANTS:
        value = data[name]
        if isinstance(value, list):
            data[name] = [instant(at) for at in cast("list[int]", value)]
        elif value is not None:
            data[name] = instant(value)
    return data
