"""`windlass workers`: the workers that a server sees."""

import click

from windlass.cli.output.tables import print_json, print_workers
from windlass.cli.server_address import SERVER, ask
from windlass.wire import Page


@click.command()
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(server: str | None, as_json: bool) -> int:
    """List the workers of a server: what they serve, how much they run, and when they were last heard of."""
    workers = ask(server, lambda client: client.workers.list())
    if as_json:
        print_json(Page(workers))
    else:
        print_workers(workers)
    return 0
