"""Event types for the web UI, and their reference table."""

from collections.abc import Iterator, Sequence

from tools.generate.output import Output
from windlass.core.events import EventType, Subject

PAGE = "docs/reference/events.md"
# The API returns the events of jobs only.
OF_JOBS = (Subject.JOB, Subject.NODE, Subject.LOOP, Subject.ITERATION)
OF_RUNS = (Subject.RUN, Subject.SCHEDULE)

TYPESCRIPT = """\
// Generated from src/windlass/core/events.py by `make generate`; do not edit.

interface EventDeclaration {
  subject: %(subjects)s;
  /** The status of the subject after the event; null if the event does not change it. */
  status: string | null;
  label: string;
}

/** The types of the events of jobs. */
export const EVENTS = {
%(events)s
} as const satisfies Record<string, EventDeclaration>;

export type EventType = keyof typeof EVENTS;

/** The types that change the status of a subject. */
export type StatusEventType<Subject extends EventDeclaration["subject"]> = {
  [Type in EventType]: (typeof EVENTS)[Type] extends { subject: Subject; status: string } ? Type : never;
}[EventType];
"""


def outputs() -> Iterator[Output]:
    """Generate the UI's declarations and the tables of the reference."""
    yield Output("ui/src/api/event_types.ts", _typescript())
    yield Output(PAGE, _table(OF_JOBS), "events of jobs")
    yield Output(PAGE, _table(OF_RUNS), "events of runs")


def _typescript() -> str:
    subjects = " | ".join(f'"{subject}"' for subject in OF_JOBS)
    events = "\n".join(_declaration(event) for event in EventType if event.subject in OF_JOBS)
    return TYPESCRIPT % {"subjects": subjects, "events": events}


def _declaration(event: EventType) -> str:
    status = "null"
    if event.status is not None:
        status = f'"{event.status}"'
    return f'  {event.value}: {{ subject: "{event.subject}", status: {status}, label: "{event.label}" }},'


def _table(subjects: Sequence[Subject]) -> str:
    lines = ["| event type | about | status afterwards | `data` |", "|---|---|---|---|"]
    for event in EventType:
        if event.subject not in subjects:
            continue
        keys = ", ".join(f"`{key}`" for key in event.data) or "-"
        status = f"`{event.status}`" if event.status else "unchanged"
        lines.append(f"| `{event.value}` | {event.subject} | {status} | {keys} |")
    return "\n".join(lines)
