"""Schedules, runs and deliveries as tables."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from rich.table import Table
from rich.text import Text

from windlass.cli.output.console import Cells, console, new_table, print_rows
from windlass.cli.output.styles import RUN_STYLES
from windlass.cli.output.text import one_line
from windlass.cli.output.times import format_seconds, local_clock_time, local_time
from windlass.core.events import EventType
from windlass.wire import (
    DeliveryView,
    NextSlotsView,
    RunActionView,
    RunEventView,
    RunView,
    ScheduleView,
)

ERROR_CHARS_MAX = 120
RUN_STATE_CHANGED: str = EventType.RUN_STATE_CHANGED


def print_schedules(schedules: Sequence[ScheduleView]) -> None:
    """Print one line per schedule."""
    columns = ("workflow", "version", "schedule", "time zone", "state", "next slot")
    empty = "no schedules found; add `schedule:` to a workflow to create one"
    print_rows(schedules, _schedule_row, columns=columns, wrapped={"workflow"}, empty=empty)


def _schedule_row(schedule: ScheduleView) -> Cells:
    return (
        schedule.workflow_id,
        str(schedule.version),
        format_rule(schedule),
        schedule.timezone,
        _schedule_state(schedule),
        local_time(schedule.next_at),
    )


def print_schedule(schedule: ScheduleView) -> None:
    """Print one schedule."""
    out = console()
    out.print(
        Text.assemble(
            (schedule.workflow_id, "bold"),
            f" version {schedule.version}  ",
            _schedule_state(schedule),
        )
    )
    table = new_table("", "", wrapped={""})
    table.show_header = False
    table.add_row("schedule", f"{format_rule(schedule)} ({schedule.timezone})")
    if schedule.jitter_seconds:
        table.add_row("jitter", f"up to {format_seconds(schedule.jitter_seconds)}")
    table.add_row("next slot", local_time(schedule.next_at) or "none")
    table.add_row("last processed slot", local_time(schedule.slot_at) or "none")
    out.print(table)


def print_next(times: NextSlotsView) -> None:
    """Print one line per slot, in the schedule's time zone and in UTC."""
    slots = zip(times.local_times, times.times, strict=True)
    print_rows(slots, _slot_row, columns=(times.timezone, "UTC"), empty="no further slots")


def _slot_row(slot: tuple[str, str]) -> Cells:
    local, instant = slot
    return (f"{datetime.fromisoformat(local):%a %Y-%m-%d %H:%M:%S %z}", f"{instant[:19]}Z")


def print_runs(runs: Sequence[RunView]) -> None:
    """Print one line per run; `runs show` has the job and the attempt."""
    columns = ("run", "state", "slot", "reason")
    print_rows(runs, _run_row, columns=columns, wrapped={"run", "reason"}, empty="no runs found")


def _run_row(run: RunView) -> Cells:
    reason = Text(one_line(run.reason or "", ERROR_CHARS_MAX))
    return (run.run_id, _run_state(run), local_time(run.scheduled_at), reason)


def print_run(run: RunView) -> None:
    """Print a run with its states, violations and metrics."""
    out = console()
    out.print(
        Text.assemble(
            (run.run_id, "bold"), f" version {run.version}  ", _run_state(run), f"  {run.origin}"
        )
    )
    if run.job_id is not None:
        out.print(f"job {run.job_id}, attempt {run.attempt + 1}")
    if run.reason:
        out.print(Text(f"reason: {one_line(run.reason, len(run.reason))}"))
    transitions = new_table("time", "state")
    for transition in run.transitions:
        transitions.add_row(local_clock_time(transition.at), transition.state)
    out.print(transitions)
    if run.violations:
        out.print(_violations(run))
    if run.actions:
        out.print(_actions(run))
    metrics = _metrics(run)
    if metrics.row_count:
        out.print(metrics)


def _violations(run: RunView) -> Table:
    table = new_table("time", "violated constraint", "details", wrapped={"details"})
    for violation in run.violations:
        message = Text(one_line(violation.message, ERROR_CHARS_MAX))
        table.add_row(local_clock_time(violation.at), violation.constraint, message)
    return table


def _actions(run: RunView) -> Table:
    table = new_table("time", "on", "action", "result", wrapped={"result"})
    for one in run.actions:
        result = Text(_action_result(one))
        table.add_row(local_clock_time(one.at), one.on.removeprefix("on_"), one.action, result)
    return table


def _action_result(action: RunActionView) -> str:
    """Return the job of an action, and why it failed."""
    job = "" if action.job_id is None else f"job {action.job_id}"
    if action.error is None:
        return job
    error = one_line(action.error, ERROR_CHARS_MAX)
    return f"{error} ({job})" if job else error


def print_run_events(events: Sequence[RunEventView]) -> None:
    """Print one line per event of a run or a schedule."""
    columns = ("seq", "time", "event", "details")
    print_rows(
        events, _run_event_row, columns=columns, wrapped={"details"}, empty="no events found"
    )


def _run_event_row(event: RunEventView) -> Cells:
    details = _describe(event)
    return (
        str(event.seq),
        local_time(event.timestamp),
        event.event_type,
        Text(one_line(details, len(details))),
    )


def _describe(event: RunEventView) -> str:
    """Return the data of an event; a change of state as its states and the reason."""
    data = dict(event.data)
    parts: list[str] = []
    if event.event_type == RUN_STATE_CHANGED:
        parts.append(f"{data.pop('previous_state')} → {data.pop('state')}")
        if data["attempt"] == 0:
            del data["attempt"]
        else:
            # As `runs show` counts them.
            data["attempt"] += 1
    parts += [
        f"{name}: {_format_detail(value)}"
        for name, value in data.items()
        if value not in (None, "")
    ]
    return ", ".join(parts)


def _format_detail(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(one)[:19] for one in cast("list[object]", value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _metrics(run: RunView) -> Table:
    table = new_table("metric", "value", wrapped={"value"})
    for name, value in run.metrics.items():
        # The error is the reason above the table.
        if value and name != "error" and not isinstance(value, dict):
            table.add_row(name, Text(_format_metric(value)))
    return table


def _format_metric(value: object) -> str:
    # Metrics that are false are not displayed.
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, int | float):
        return f"{value:g}"
    return str(value)


def print_deliveries(deliveries: Sequence[DeliveryView]) -> None:
    """Print one line per attempt to deliver a webhook."""
    columns = ("delivery", "outcome", "sent", "duration", "url and error")
    print_rows(
        deliveries,
        _delivery_row,
        columns=columns,
        wrapped={"delivery", "url and error"},
        empty="no deliveries found",
    )


def _delivery_row(delivery: DeliveryView) -> Cells:
    outcome = delivery.outcome
    if delivery.status is not None:
        outcome += f" {delivery.status}"
    details = delivery.url
    if delivery.error:
        details += f"\n{one_line(delivery.error, ERROR_CHARS_MAX)}"
    return (
        delivery.delivery_id,
        Text(outcome, RUN_STYLES.get(delivery.outcome, "")),
        local_time(delivery.sent_at),
        format_seconds(delivery.duration_seconds),
        Text(details),
    )


def format_rule(schedule: ScheduleView) -> str:
    """Return when a schedule is due."""
    if schedule.cron is not None:
        return schedule.cron
    if schedule.every_seconds is not None:
        return f"every {format_seconds(float(schedule.every_seconds))}"
    if schedule.at:
        return f"at {local_time(schedule.at)}"
    return ""


def _schedule_state(schedule: ScheduleView) -> Text:
    if not schedule.enabled:
        return Text("disabled", "dim")
    if schedule.paused:
        return Text("paused", "yellow")
    return Text("active", "green")


def _run_state(run: RunView) -> Text:
    if run.skipped:
        return Text("skipped", "dim")
    return Text(run.state, RUN_STYLES.get(run.state, ""))
