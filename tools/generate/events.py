"""Event types for the web UI, and their reference table."""

from collections.abc import Iterator, Sequence

from tools.generate.output import Output
from windlass.core.events import EventType, Subject

OF_RUNS = (Subject.RUN, Subject.SCHEDULE)


def outputs() -> Iterator[Output]:
    """Generate the UI's union types and the table of the reference."""
    yield Output("ui/src/api/event_types.ts", _typescript())
    yield Output("docs/reference/events.md", _table(), block="event types")


def _typescript() -> str:
    of_jobs = [event for event in EventType if event.subject not in OF_RUNS]
    of_runs = [event for event in EventType if event.subject in OF_RUNS]
    return (
        "// Generated from src/windlass/core/events.py by `make generate`; do not edit.\n\n"
        "/** Events of jobs. */\n"
        f"{_declarations('EventType', 'EVENT_WORDS', of_jobs)}\n"
        "/** Events of runs and schedules. */\n"
        f"{_declarations('RunEventType', 'RUN_EVENT_WORDS', of_runs)}"
    )


def _declarations(type_name: str, words_name: str, events: Sequence[EventType]) -> str:
    union = "\n".join(f'  | "{event.value}"' for event in events)
    words = "\n".join(f'  {event.value}: "{event.label}",' for event in events)
    return (
        f"export type {type_name} =\n{union};\n\n"
        f"export const {words_name}: Record<{type_name}, string> = {{\n{words}\n}};\n"
    )


def _table() -> str:
    lines = ["| event type | about | status afterwards | `data` |", "|---|---|---|---|"]
    for event in EventType:
        keys = ", ".join(f"`{key}`" for key in event.data) or "-"
        status = f"`{event.status}`" if event.status else "unchanged"
        lines.append(f"| `{event.value}` | {event.subject} | {status} | {keys} |")
    return "\n".join(lines)
