"""`windlass workers`: the workers of a server."""

import click

from windlass.cli.options import AS_JSON, SERVER
from windlass.cli.output.console import show
from windlass.cli.output.job_tables import print_workers
from windlass.cli.server_address import call_server
from windlass.wire import Page


@click.command()
@SERVER
@AS_JSON
def command(server: str | None, as_json: bool) -> int:
    """List the workers of a server with their queues, tasks and last heartbeats."""
    workers = call_server(server, lambda client: client.workers.list())
    return show(Page(workers), as_json, lambda page: print_workers(page.items))
