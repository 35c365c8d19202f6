"""`windlass schedules`: shows schedules of a database or a server, and changes those of a server."""

from pathlib import Path

import click

from windlass.cli.documents import read_input, report_problems
from windlass.cli.exit_codes import INVALID
from windlass.cli.options import (
    AS_JSON,
    CURSOR,
    DATABASE,
    EVENTS_AFTER,
    EVENTS_LIMIT,
    IDEMPOTENCY_KEY,
    INPUT_FILE,
    INPUT_PAIRS,
    SERVER,
)
from windlass.cli.output.console import print_json, show
from windlass.cli.output.run_tables import (
    print_next,
    print_run_events,
    print_schedule,
    print_schedules,
)
from windlass.cli.output.text import plural
from windlass.cli.run_sources import read_events, read_runs
from windlass.cli.server_address import call_server
from windlass.core.errors import InputInvalid

LIST_MAX = 1_000
SLOTS_MAX = 1_000
# Why a backfill leaves slots out.
LEFT_OUT = {
    "has_run": "with a run that ended",
    "in_progress": "with a run in progress",
    "scheduled": "left to the schedule",
}


@click.group()
def command() -> None:
    """List, pause and trigger schedules.

    With --server or WINDLASS_SERVER these commands use a server. Without, list, show, next and events read the
    database.
    """


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=100, show_default=True)
@CURSOR
def list_schedules(
    server: str | None, database: str | None, as_json: bool, limit: int, cursor: str | None
) -> int:
    """List schedules, each with its next slot."""
    page = read_runs(server, database, lambda source: source.schedules(limit, cursor))
    return show(page, as_json, lambda page: print_schedules(page.items))


@command.command("show")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@DATABASE
@AS_JSON
def show_schedule(workflow_id: str, server: str | None, database: str | None, as_json: bool) -> int:
    """Show the schedule of a workflow."""
    return show(
        read_runs(server, database, lambda source: source.schedule(workflow_id)),
        as_json,
        print_schedule,
    )


@command.command("next")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@DATABASE
@AS_JSON
@click.option("--count", "-n", type=click.IntRange(1, SLOTS_MAX), default=5, show_default=True)
def show_next(
    workflow_id: str, server: str | None, database: str | None, as_json: bool, count: int
) -> int:
    """Show the next slots, in the schedule's time zone and in UTC."""
    times = read_runs(server, database, lambda source: source.next(workflow_id, count))
    return show(times, as_json, print_next)


@command.command("events")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@DATABASE
@AS_JSON
@EVENTS_LIMIT
@EVENTS_AFTER
def list_schedule_events(
    workflow_id: str,
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    after: int,
) -> int:
    """List the events of a schedule, with the slots that it missed."""
    page = read_events(
        server, database, lambda source: source.schedule_events(workflow_id, after), limit=limit
    )
    return show(page, as_json, lambda page: print_run_events(page.items))


@command.command("pause")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@AS_JSON
def pause_schedule(workflow_id: str, server: str | None, as_json: bool) -> int:
    """Pause a schedule: start no further runs. Active runs continue."""
    return show(
        call_server(server, lambda client: client.schedules.pause(workflow_id)),
        as_json,
        print_schedule,
    )


@command.command("resume")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@AS_JSON
def resume_schedule(workflow_id: str, server: str | None, as_json: bool) -> int:
    """Resume a schedule with its next slot. Slots during the pause are not made up."""
    return show(
        call_server(server, lambda client: client.schedules.resume(workflow_id)),
        as_json,
        print_schedule,
    )


@command.command("trigger")
@click.argument("workflow_id", metavar="WORKFLOW")
@INPUT_PAIRS
@INPUT_FILE
@IDEMPOTENCY_KEY
@SERVER
@AS_JSON
def trigger(
    workflow_id: str,
    pairs: tuple[str, ...],
    input_file: Path | None,
    idempotency_key: str | None,
    server: str | None,
    as_json: bool,
) -> int:
    """Start a run now, subject to the workflow's constraints.

    The input is that of the schedule unless another one is given.
    """
    try:
        input: dict[str, object] | None = None
        if pairs or input_file is not None:
            input = read_input(input_file, pairs)
        job = call_server(
            server,
            lambda client: client.schedules.trigger(
                workflow_id, input, idempotency_key=idempotency_key
            ),
        )
    except InputInvalid as error:
        report_problems(input_file or Path("input"), error.problems)
        return INVALID
    text = f"job {job.job_id} is {job.status}; to list its run: windlass runs list --workflow {workflow_id}"
    return show(job, as_json, lambda _: click.echo(text))


@command.command("backfill")
@click.argument("workflow_id", metavar="WORKFLOW")
@click.option(
    "--since",
    required=True,
    metavar="INSTANT",
    help="Start of the range, such as 2026-05-01T00:00:00Z.",
)
@click.option("--until", required=True, metavar="INSTANT", help="End of the range.")
@SERVER
@AS_JSON
def backfill(workflow_id: str, since: str, until: str, server: str | None, as_json: bool) -> int:
    """Run the past slots of a range that have no run, or whose run was cancelled or ended without a job."""
    backfill = call_server(
        server, lambda client: client.schedules.backfill(workflow_id, since, until)
    )
    if as_json:
        print_json(backfill)
        return 0
    if backfill.slots:
        first, last = backfill.slots[0][:19], backfill.slots[-1][:19]
        click.echo(f"started {plural(len(backfill.slots), 'run')}, from {first}Z to {last}Z")
    else:
        click.echo(f"started no runs of {workflow_id} from {since} to {until}")
    if backfill.left_out:
        reasons = ", ".join(
            f"{count} {LEFT_OUT.get(name, name)}" for name, count in backfill.left_out.items()
        )
        click.echo(f"left out {plural(sum(backfill.left_out.values()), 'slot')}: {reasons}")
    return 0
