"""`windlass deliveries`: every attempt to deliver a webhook, and delivering once more."""

import click

from windlass.cli.commands.jobs import AS_JSON, DATABASE
from windlass.cli.output.run_tables import print_deliveries
from windlass.cli.output.tables import print_json
from windlass.cli.run_sources import Wanted, look
from windlass.cli.server_address import SERVER, ask

LIST_MAX = 1_000


@click.group()
def command() -> None:
    """See what became of webhooks, and deliver them once more."""


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=20, show_default=True)
@click.option("--workflow", metavar="ID", help="Only deliveries of this workflow.")
@click.option("--job", metavar="ID", help="Only deliveries of this job.")
@click.option("--outcome", type=click.Choice(["delivered", "failed"]), help="Only those that ended so.")
@click.option("--cursor", metavar="CURSOR", help="Go on after a page: its next_cursor.")
def list_deliveries(
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    workflow: str | None,
    job: str | None,
    outcome: str | None,
    cursor: str | None,
) -> int:
    """List attempts to deliver, newest first."""
    page = look(server, database, lambda source: source.deliveries(Wanted(limit, workflow, outcome, job, cursor)))
    if as_json:
        print_json(page)
    else:
        print_deliveries(page.items)
    return 0


@command.command("redeliver")
@click.argument("delivery_id", metavar="DELIVERY")
@SERVER
@AS_JSON
def redeliver(delivery_id: str, server: str | None, as_json: bool) -> int:
    """Deliver once more, under the same webhook-id, by a job of its own."""
    done = ask(server, lambda client: client.deliveries.redeliver(delivery_id))
    if as_json:
        print_json(done)
    else:
        click.echo(f"job {done.job_id} delivers it again; follow it with: windlass jobs watch {done.job_id}")
    return 0
