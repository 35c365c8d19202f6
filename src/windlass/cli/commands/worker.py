"""`windlass worker`: takes tasks of queues on a shared broker and runs their handlers."""

import logging

import click

from windlass.cli.commands.engine import drive
from windlass.cli.http_server import log_to_stderr
from windlass.cli.runner import run_async
from windlass.cli.user_code import import_modules
from windlass.process import Roles
from windlass.settings import load_settings


@click.command()
@click.option("--database", metavar="URL", help="The shared database (default: database_url).")
@click.option("--queues", metavar="NAMES", help="Queues to serve, with commas between them; * serves all.")
@click.option("--concurrency", type=click.IntRange(1, 100_000), help="Tasks at once (default: worker.concurrency, 64).")
@click.option("--processes", type=click.IntRange(1, 1_000), help="Child processes for isolated handlers.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
def command(
    database: str | None,
    queues: str | None,
    concurrency: int | None,
    processes: int | None,
    imports: tuple[str, ...],
) -> int:
    """Take tasks and run them, beside any number of other workers.

    SIGTERM and Ctrl-C take no more tasks, let running ones finish for a while and hand the others back; a second signal
    ends the process at once, and its tasks go to other workers when it is missed.
    """
    given = {
        "database_url": database,
        "worker.queues": queues,
        "worker.concurrency": concurrency,
        "worker.processes": processes,
        "worker.imports": list(imports) or None,
    }
    settings = load_settings({key: value for key, value in given.items() if value is not None}).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(drive(settings, Roles(worker=True)))
    return 0
