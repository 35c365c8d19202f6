"""`windlass schedules`: looks at schedules of the embedded database or of a server, and acts on those of a server."""

from pathlib import Path

import click

from windlass.cli.commands.jobs import AS_JSON, DATABASE
from windlass.cli.documents import read_input, report
from windlass.cli.output.run_tables import print_next, print_schedule, print_schedules
from windlass.cli.output.tables import print_json
from windlass.cli.run_sources import look
from windlass.cli.server_address import SERVER, ask
from windlass.core.errors import InputInvalid
from windlass.wire import ScheduleView

UNUSABLE = 2
LIST_MAX = 1_000
TIMES_MAX = 1_000


@click.group()
def command() -> None:
    """See when workflows start by themselves; pause them, start them now, make up for the past.

    With --server or WINDLASS_SERVER the schedules are those of a server; without, list, show and next read the
    embedded database.
    """


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=100, show_default=True)
@click.option("--cursor", metavar="CURSOR", help="Go on after a page: its next_cursor.")
def list_schedules(server: str | None, database: str | None, as_json: bool, limit: int, cursor: str | None) -> int:
    """List schedules, each with its next slot."""
    page = look(server, database, lambda source: source.schedules(limit, cursor))
    if as_json:
        print_json(page)
    else:
        print_schedules(page.items)
    return 0


@command.command("show")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@DATABASE
@AS_JSON
def show_schedule(workflow_id: str, server: str | None, database: str | None, as_json: bool) -> int:
    """Show the schedule of a workflow."""
    return _told(look(server, database, lambda source: source.schedule(workflow_id)), as_json)


@command.command("next")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@DATABASE
@AS_JSON
@click.option("--count", "-n", type=click.IntRange(1, TIMES_MAX), default=5, show_default=True)
def show_next(workflow_id: str, server: str | None, database: str | None, as_json: bool, count: int) -> int:
    """Show the slots to come, on the schedule's own clock and in UTC."""
    times = look(server, database, lambda source: source.next(workflow_id, count))
    if as_json:
        print_json(times)
    else:
        print_next(times)
    return 0


@command.command("pause")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@AS_JSON
def pause_schedule(workflow_id: str, server: str | None, as_json: bool) -> int:
    """Start no further runs; those under way go on."""
    return _told(ask(server, lambda client: client.schedules.pause(workflow_id)), as_json)


@command.command("resume")
@click.argument("workflow_id", metavar="WORKFLOW")
@SERVER
@AS_JSON
def resume_schedule(workflow_id: str, server: str | None, as_json: bool) -> int:
    """Go on with the next slot; what fell into the pause is not made up for."""
    return _told(ask(server, lambda client: client.schedules.resume(workflow_id)), as_json)


@command.command("trigger")
@click.argument("workflow_id", metavar="WORKFLOW")
@click.option("-i", "pairs", multiple=True, metavar="KEY=VALUE", help="One input; read as JSON where it is JSON.")
@click.option(
    "--input",
    "input_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON or YAML object; -i overrides its keys.",
)
@click.option("--key", metavar="KEY", help="An idempotency key: asked again with it, the same job is given back.")
@SERVER
@AS_JSON
def trigger(
    workflow_id: str,
    pairs: tuple[str, ...],
    input_file: Path | None,
    key: str | None,
    server: str | None,
    as_json: bool,
) -> int:
    """Start a run now, under the workflow's constraints; with the schedule's input unless another is given."""
    given = read_input(input_file, pairs) if pairs or input_file is not None else None
    try:
        job = ask(server, lambda client: client.schedules.trigger(workflow_id, given, idempotency_key=key))
    except InputInvalid as refused:
        report(input_file or Path("input"), refused.problems)
        return UNUSABLE
    if as_json:
        print_json(job)
    else:
        click.echo(f"job {job.job_id} is {job.status}; its run: windlass runs list --workflow {workflow_id}")
    return 0


@command.command("backfill")
@click.argument("workflow_id", metavar="WORKFLOW")
@click.option("--since", required=True, metavar="INSTANT", help="The first instant, as 2026-05-01T00:00:00Z.")
@click.option("--until", required=True, metavar="INSTANT", help="The last instant.")
@SERVER
@AS_JSON
def backfill(workflow_id: str, since: str, until: str, server: str | None, as_json: bool) -> int:
    """Run the slots of a range in the past that have no run yet, oldest first."""
    done = ask(server, lambda client: client.schedules.backfill(workflow_id, since, until))
    if as_json:
        print_json(done)
        return 0
    if not done.slots:
        click.echo(f"{workflow_id} has no slots from {since} to {until}")
        return 0
    first, last = done.slots[0][:19], done.slots[-1][:19]
    click.echo(f"{len(done.slots)} slots from {first}Z to {last}Z; those without a run get one")
    return 0


def _told(schedule: ScheduleView, as_json: bool) -> int:
    if as_json:
        print_json(schedule)
    else:
        print_schedule(schedule)
    return 0
