"""Log lines about runs: transitions, violations, actions and errors, each with the fields of its run."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from windlass.core.events import Event, EventType
from windlass.core.runs.changes import RunChanges
from windlass.core.runs.event_data import decoded_data
from windlass.core.runs.registry import Run
from windlass.core.runs.rows import RunRow
from windlass.core.runs.states import RunState
from windlass.core.runs.webhooks import instant_text

log = logging.getLogger("windlass.runs")

# Events that are not listed are logged at the level of transitions.
LEVELS: Mapping[str, int] = {
    EventType.CONSTRAINT_VIOLATED: logging.WARNING,
    EventType.SLOTS_MISSED: logging.WARNING,
    EventType.CHECK_FAILED: logging.ERROR,
    EventType.ACTION_FAILED: logging.ERROR,
}
# The data that the text of a line ends with.
DETAILS: Mapping[str, Sequence[str]] = {
    EventType.RUN_CREATED: ("origin",),
    EventType.RUN_STATE_CHANGED: ("state", "reason"),
    EventType.CONSTRAINT_VIOLATED: ("constraint", "message"),
    EventType.CHECK_FAILED: ("constraint", "error"),
    EventType.ACTION_STARTED: ("action",),
    EventType.ACTION_COMPLETED: ("on", "action"),
    EventType.ACTION_FAILED: ("on", "action", "error"),
    EventType.CALL_STARTED: ("for", "url"),
    EventType.SLOTS_MISSED: ("count",),
}
_FAILURES = (RunState.FAILED, RunState.ORPHANED)

EventData = Mapping[str, Any]


def log_runs(changes: RunChanges) -> None:
    """Log what a commit stored about runs and schedules."""
    if not log.isEnabledFor(logging.ERROR):
        return
    for (workflow_id, run_id), events in changes.events.items():
        decoded = [(event, decoded_data(event, instant_text)) for event in events]
        row = changes.runs.get(run_id)
        subject = f"run {run_id}" if run_id else f"schedule {workflow_id}"
        for (event, data), moment in zip(decoded, _moments(row, decoded), strict=True):
            level = _level(event, data)
            if log.isEnabledFor(level):
                fields = {"workflow_id": workflow_id, "event": event.type, **moment, **data}
                fields["at"] = instant_text(event.at)
                log.log(level, "%s: %s", subject, _text(event, data), extra={"fields": fields})


def log_heartbeats(runs: Iterable[Run]) -> None:
    """Log that the active runs of a shard are served."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for run in runs:
        if not run.is_planned:
            fields = {
                "workflow_id": run.workflow_id,
                "event": "heartbeat",
                "run_id": run.id,
                "job_id": run.job_id,
                "scheduled_at": instant_text(run.scheduled_at),
                "state": run.state.value,
                "attempt": run.attempt,
            }
            log.debug("run %s: heartbeat", run.id, extra={"fields": fields})


def _level(event: Event, data: EventData) -> int:
    if EventType(event.type) is EventType.RUN_STATE_CHANGED and data["state"] in _FAILURES:
        return logging.ERROR
    return LEVELS.get(event.type, logging.INFO)


def _text(event: Event, data: EventData) -> str:
    details = [data.get(name) for name in DETAILS.get(event.type, ())]
    words = [EventType(event.type).words, *[str(one) for one in details if one is not None]]
    return ": ".join(words)


def _moments(
    row: RunRow | None, events: Sequence[tuple[Event, EventData]]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of a run at each of its events; a commit may have several."""
    if row is None:
        yield from ({} for _ in events)
        return
    state, attempt = _before(row, events)
    for event, data in events:
        if EventType(event.type) is EventType.RUN_STATE_CHANGED:
            state, attempt = data["state"], data["attempt"]
        yield {
            "run_id": row.run_id,
            "job_id": row.job_id,
            "scheduled_at": instant_text(row.scheduled_at),
            "state": state,
            "attempt": attempt,
        }


def _before(row: RunRow, events: Sequence[tuple[Event, EventData]]) -> tuple[str, int]:
    """Return the state and the attempt of a run before the events of a commit."""
    for event, data in events:
        if EventType(event.type) is EventType.RUN_STATE_CHANGED:
            # The attempt that follows begins with `retrying`.
            is_next = data["state"] == RunState.RETRYING
            return data["previous_state"], data["attempt"] - is_next
    return row.state.value, row.attempt
