"""Event types for the web UI, and their reference table."""

from collections.abc import Iterator

from tools.generate.output import Output
from windlass.core.events import EventType


def outputs() -> Iterator[Output]:
    """Generate the UI's union type and the table of the reference."""
    yield Output("ui/src/api/event_types.ts", _typescript())
    yield Output("docs/reference/events.md", _table(), block="event types")


def _typescript() -> str:
    union = "\n".join(f'  | "{event.value}"' for event in EventType)
    words = "\n".join(f'  {event.value}: "{event.label}",' for event in EventType)
    return (
        "// Generated from src/windlass/core/events.py by `make generate`; do not edit.\n\n"
        f"export type EventType =\n{union};\n\n"
        f"export const EVENT_WORDS: Record<EventType, string> = {{\n{words}\n}};\n"
    )


def _table() -> str:
    lines = ["| event type | about | status afterwards | `data` |", "|---|---|---|---|"]
    for event in EventType:
        keys = ", ".join(f"`{key}`" for key in event.data) or "-"
        status = f"`{event.status}`" if event.status else "unchanged"
        lines.append(f"| `{event.value}` | {event.subject} | {status} | {keys} |")
    return "\n".join(lines)
