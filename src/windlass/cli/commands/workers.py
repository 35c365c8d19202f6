"""`windlass workers`: the workers of a server."""

import click

from windlass.cli.options import AS_JSON, SERVER
from windlass.cli.output.console import show
from windlass.cli.output.job_tables import print_unserved, print_workers
from windlass.cli.server_address import call_server
from windlass.client import Client
from windlass.wire import Page, QueueView, WorkerView


@click.command()
@SERVER
@AS_JSON
def command(server: str | None, as_json: bool) -> int:
    """List the workers of a server with their queues, tasks and last heartbeats, and tasks without a worker."""
    workers, queues = call_server(server, _read)
    status = show(Page(workers), as_json, lambda page: print_workers(page.items))
    if not as_json:
        print_unserved(queues)
    return status


async def _read(client: Client) -> tuple[list[WorkerView], list[QueueView]]:
    return await client.workers.list(), await client.workers.queues()
