"""`windlass worker`: runs tasks of a shared broker."""

import logging

import click

from windlass.cli.commands.engine import run_process
from windlass.cli.options import DATABASE, IMPORTS
from windlass.cli.process_log import log_to_stderr
from windlass.cli.runner import run_async
from windlass.cli.user_code import import_modules
from windlass.process import Roles
from windlass.settings_loader import load_settings


@click.command()
@DATABASE
@click.option("--queues", metavar="NAMES", help="Comma-separated queues to serve; * serves all.")
@click.option(
    "--concurrency", type=int, help="Concurrent tasks (default: the setting worker.concurrency)."
)
@click.option(
    "--processes",
    type=int,
    help="Processes for isolated handlers (default: the setting worker.processes).",
)
@IMPORTS
def command(
    database: str | None,
    queues: str | None,
    concurrency: int | None,
    processes: int | None,
    imports: tuple[str, ...],
) -> int:
    """Start a worker on a shared database.

    On SIGTERM and Ctrl-C the worker takes no more tasks, lets running ones finish for up to worker.drain_seconds and
    hands the others back. A second signal ends the process immediately, and its tasks go to other workers when its
    heartbeats are missed.
    """
    flags = {
        "database_url": database,
        "worker.queues": queues,
        "worker.concurrency": concurrency,
        "worker.processes": processes,
        "worker.imports": list(imports) or None,
    }
    settings = load_settings(flags).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(run_process(settings, Roles(worker=True)))
    return 0
