"""`windlass runs`: looks at runs of the embedded database or of a server, and stops those of a server."""

import click

from windlass.cli.commands.jobs import AS_JSON, DATABASE
from windlass.cli.output.run_tables import print_run, print_runs
from windlass.cli.output.tables import print_json
from windlass.cli.run_sources import Wanted, look
from windlass.cli.server_address import SERVER, ask
from windlass.core.runs.states import RunState

LIST_MAX = 1_000


@click.group()
def command() -> None:
    """Look at runs: the lifecycles around jobs that have a schedule or constraints.

    With --server or WINDLASS_SERVER they are those of a server; without, list and show read the embedded database.
    """


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=20, show_default=True)
@click.option("--workflow", metavar="ID", help="Only runs of this workflow.")
@click.option("--state", type=click.Choice([state.value for state in RunState]), help="Only runs in this state.")
@click.option("--cursor", metavar="CURSOR", help="Go on after a page: its next_cursor.")
def list_runs(
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    workflow: str | None,
    state: str | None,
    cursor: str | None,
) -> int:
    """List runs, newest slot first."""
    page = look(server, database, lambda source: source.runs(Wanted(limit, workflow, state, cursor=cursor)))
    if as_json:
        print_json(page)
    else:
        print_runs(page.items)
    return 0


@command.command("show")
@click.argument("run_id", metavar="RUN")
@SERVER
@DATABASE
@AS_JSON
def show_run(run_id: str, server: str | None, database: str | None, as_json: bool) -> int:
    """Show a run: its states and when it entered them, violations, figures."""
    run = look(server, database, lambda source: source.run(run_id))
    if as_json:
        print_json(run)
    else:
        print_run(run)
    return 0


@command.command("cancel")
@click.argument("run_id", metavar="RUN")
@SERVER
@AS_JSON
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the run.")
def cancel_run(run_id: str, server: str | None, as_json: bool, reason: str | None) -> int:
    """Stop a run and its job. One that has ended stays as it is."""
    run = ask(server, lambda client: client.runs.cancel(run_id, reason))
    if as_json:
        print_json(run)
    else:
        click.echo(f"run {run.run_id} is {run.state}")
    return 0
