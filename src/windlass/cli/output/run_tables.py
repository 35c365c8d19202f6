"""Schedules, runs and deliveries as tables and lines for people."""

from collections.abc import Sequence
from datetime import datetime

import click
from rich.table import Table
from rich.text import Text

from windlass.cli.output.progress import one_line, spell_seconds
from windlass.cli.output.tables import console, when
from windlass.wire import DeliveryView, NextSlotsView, RunView, ScheduleView

ERROR_CHARS_MAX = 120
COLOURS = {
    "completed": "green",
    "delivered": "green",
    "failed": "red",
    "orphaned": "red",
    "cancelled": "yellow",
    "retrying": "yellow",
    "running": "cyan",
}
UNWRAPPED = frozenset({"workflow", "next", "run", "state", "slot", "delivery", "outcome", "sent", "time", "at"})


def print_schedules(schedules: Sequence[ScheduleView]) -> None:
    """A line a schedule."""
    if not schedules:
        click.echo("no schedules: `schedule:` in a workflow's definition makes one")
        return
    table = _table("workflow", "version", "when", "zone", "state", "next")
    for one in schedules:
        row = (one.workflow_id, str(one.version), spell_when(one), one.timezone, _condition(one))
        table.add_row(*row, when(one.next_at) if one.next_at else "")
    console().print(table)


def print_schedule(schedule: ScheduleView) -> None:
    """One schedule."""
    out = console()
    heading = Text.assemble((schedule.workflow_id, "bold"), f" version {schedule.version}  ", _condition(schedule))
    out.print(heading)
    table = _table("", "")
    table.show_header = False
    table.add_row("when", f"{spell_when(schedule)} ({schedule.timezone})")
    if schedule.jitter_seconds:
        table.add_row("jitter", f"up to {spell_seconds(schedule.jitter_seconds)}")
    table.add_row("next", when(schedule.next_at) if schedule.next_at else "none")
    table.add_row("slots dealt with until", when(schedule.slot_at) if schedule.slot_at else "")
    out.print(table)


def print_next(times: NextSlotsView) -> None:
    """A line a slot: on the schedule's clock, and in UTC."""
    if not times.times:
        click.echo("nothing is due any more")
        return
    table = _table(f"in {times.timezone}", "in UTC")
    for local, instant in zip(times.local_times, times.times, strict=True):
        table.add_row(f"{datetime.fromisoformat(local):%a %Y-%m-%d %H:%M:%S %z}", instant[:19] + "Z")
    console().print(table)


def print_runs(runs: Sequence[RunView]) -> None:
    """A line a run."""
    if not runs:
        click.echo("no such runs")
        return
    table = _table("run", "state", "slot", "attempt", "job", "")
    for run in runs:
        row = (run.run_id, _state(run), when(run.scheduled_at), str(run.attempt + 1), run.job_id or "")
        table.add_row(*row, Text(one_line(run.reason or "", ERROR_CHARS_MAX)))
    console().print(table)


def print_run(run: RunView) -> None:
    """A run with its states, violations and figures."""
    out = console()
    out.print(Text.assemble((run.run_id, "bold"), f" version {run.version}  ", _state(run), f"  {run.origin}"))
    if run.job_id is not None:
        out.print(f"job {run.job_id}, attempt {run.attempt + 1}")
    if run.reason:
        out.print(Text(one_line(run.reason, len(run.reason))))
    table = _table("at", "state")
    for one in run.transitions:
        table.add_row(when(one.at, exact=True), one.state)
    out.print(table)
    if run.violations:
        broken = _table("at", "constraint", "")
        for one in run.violations:
            broken.add_row(when(one.at, exact=True), one.constraint, Text(one_line(one.message, ERROR_CHARS_MAX)))
        out.print(broken)
    figures = {name: value for name, value in run.metrics.items() if value and not isinstance(value, dict)}
    if figures:
        counted = _table("figure", "")
        for name, value in figures.items():
            counted.add_row(name, Text(_figure(value)))
        out.print(counted)


def print_deliveries(deliveries: Sequence[DeliveryView]) -> None:
    """A line an attempt."""
    if not deliveries:
        click.echo("no such deliveries")
        return
    table = _table("delivery", "outcome", "status", "sent", "took", "url", "")
    for one in deliveries:
        outcome = Text(one.outcome, COLOURS.get(one.outcome, ""))
        row = (one.delivery_id, outcome, str(one.status or ""), when(one.sent_at), spell_seconds(one.duration_seconds))
        table.add_row(*row, one.url, Text(one_line(one.error or "", ERROR_CHARS_MAX)))
    console().print(table)


def spell_when(schedule: ScheduleView) -> str:
    """When a schedule is due, in a few words."""
    if schedule.cron is not None:
        return schedule.cron
    if schedule.every_seconds is not None:
        return f"every {spell_seconds(float(schedule.every_seconds))}"
    return f"at {when(schedule.at)}" if schedule.at else ""


def _figure(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _condition(schedule: ScheduleView) -> Text:
    if not schedule.enabled:
        return Text("disabled", "dim")
    return Text("paused", "yellow") if schedule.paused else Text("active", "green")


def _state(run: RunView) -> Text:
    return Text("skipped" if run.skipped else run.state, "dim" if run.skipped else COLOURS.get(run.state, ""))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column in UNWRAPPED)
    return table
