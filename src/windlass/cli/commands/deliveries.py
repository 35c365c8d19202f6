"""`windlass deliveries`: the attempts to deliver webhooks, and delivering again."""

import click

from windlass.cli.options import AS_JSON, CURSOR, DATABASE, SERVER, WORKFLOW_FILTER
from windlass.cli.output.console import show
from windlass.cli.output.run_tables import print_deliveries
from windlass.cli.run_sources import DeliverySelection, read_runs
from windlass.cli.server_address import call_server

LIST_MAX = 1_000


@click.group()
def command() -> None:
    """List webhook deliveries, and repeat them."""


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=20, show_default=True)
@WORKFLOW_FILTER
@click.option("--job", metavar="ID", help="Only those of this job.")
@click.option(
    "--outcome", type=click.Choice(["delivered", "failed"]), help="Only those with this outcome."
)
@CURSOR
def list_deliveries(
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    workflow_id: str | None,
    job: str | None,
    outcome: str | None,
    cursor: str | None,
) -> int:
    """List deliveries, newest first."""
    selection = DeliverySelection(
        limit=limit, workflow_id=workflow_id, job_id=job, outcome=outcome, cursor=cursor
    )
    page = read_runs(server, database, lambda source: source.deliveries(selection))
    return show(page, as_json, lambda page: print_deliveries(page.items))


@command.command("redeliver")
@click.argument("delivery_id", metavar="DELIVERY")
@SERVER
@AS_JSON
def redeliver(delivery_id: str, server: str | None, as_json: bool) -> int:
    """Deliver a webhook again with the same id, in a new job."""
    redelivery = call_server(server, lambda client: client.deliveries.redeliver(delivery_id))
    job_id = redelivery.job_id
    text = f"job {job_id} delivers the webhook again; to follow it: windlass jobs watch {job_id}"
    return show(redelivery, as_json, lambda _: click.echo(text))
