"""`windlass runs`: shows runs of a database or a server, and cancels those of a server."""

import click

from windlass.cli.options import (
    AS_JSON,
    CURSOR,
    DATABASE,
    EVENTS_AFTER,
    EVENTS_LIMIT,
    SERVER,
    WORKFLOW_FILTER,
)
from windlass.cli.output.console import show
from windlass.cli.output.run_tables import print_run, print_run_events, print_runs
from windlass.cli.run_sources import RunSelection, read_events, read_runs
from windlass.cli.server_address import call_server
from windlass.core.runs.states import RunState

LIST_MAX = 1_000


@click.group()
def command() -> None:
    """List, show and cancel runs: the lifecycles around jobs that have a schedule or constraints.

    With --server or WINDLASS_SERVER these commands use a server. Without, list, show and events read the database.
    """


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=20, show_default=True)
@WORKFLOW_FILTER
@click.option(
    "--state",
    type=click.Choice([state.value for state in RunState]),
    help="Only runs in this state.",
)
@CURSOR
def list_runs(
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    workflow_id: str | None,
    state: str | None,
    cursor: str | None,
) -> int:
    """List runs, newest slot first."""
    selection = RunSelection(limit=limit, workflow_id=workflow_id, state=state, cursor=cursor)
    page = read_runs(server, database, lambda source: source.runs(selection))
    return show(page, as_json, lambda page: print_runs(page.items))


@command.command("show")
@click.argument("run_id", metavar="RUN")
@SERVER
@DATABASE
@AS_JSON
def show_run(run_id: str, server: str | None, database: str | None, as_json: bool) -> int:
    """Show a run with its states, violations and metrics."""
    run = read_runs(server, database, lambda source: source.run(run_id))
    return show(run, as_json, print_run)


@command.command("events")
@click.argument("run_id", metavar="RUN")
@SERVER
@DATABASE
@AS_JSON
@EVENTS_LIMIT
@EVENTS_AFTER
def list_run_events(
    run_id: str, server: str | None, database: str | None, as_json: bool, limit: int, after: int
) -> int:
    """List the events of a run: its states, violations, actions and calls."""
    page = read_events(
        server, database, lambda source: source.run_events(run_id, after), limit=limit
    )
    return show(page, as_json, lambda page: print_run_events(page.items))


@command.command("cancel")
@click.argument("run_id", metavar="RUN")
@SERVER
@AS_JSON
@click.option("--reason", metavar="TEXT", help="The reason, stored with the run.")
def cancel_run(run_id: str, server: str | None, as_json: bool, reason: str | None) -> int:
    """Cancel a run and its job. Finished runs do not change."""
    run = call_server(server, lambda client: client.runs.cancel(run_id, reason))
    return show(run, as_json, lambda run: click.echo(f"run {run.run_id} is {run.state}"))
