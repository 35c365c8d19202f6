"""`windlass engine`: drives jobs on a shared database."""

import logging

import click

from windlass.cli.options import DATABASE, IMPORTS
from windlass.cli.process_log import log_to_stderr
from windlass.cli.runner import run_async, start_until_stopped, stop_signals
from windlass.cli.user_code import import_modules
from windlass.process import Roles, open_process, require_shared
from windlass.settings import Settings
from windlass.settings_loader import load_settings


@click.command()
@DATABASE
@click.option("--with-worker", is_flag=True, help="Also run tasks in this process.")
@IMPORTS
def command(database: str | None, with_worker: bool, imports: tuple[str, ...]) -> int:
    """Start an engine on a shared database. Engines distribute the shards among themselves.

    On SIGTERM and Ctrl-C the engine finishes the current batch and returns the leases of its shards, so that other
    engines take over at once. A second signal ends the process immediately, and other engines take over when its leases
    expire. Nothing is lost in either case.
    """
    settings = load_settings(
        {"database_url": database, "worker.imports": list(imports) or None}
    ).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(run_process(settings, Roles(engine=True, worker=with_worker)))
    return 0


async def run_process(settings: Settings, roles: Roles) -> None:
    """Run until a signal."""
    require_shared(settings)
    names = [name for name, is_on in (("engine", roles.engine), ("worker", roles.worker)) if is_on]
    with stop_signals() as stop:
        async with start_until_stopped(stop, open_process(settings, roles)) as process:
            if process is None:
                return
            click.echo(f"Windlass {' and '.join(names)} {process.name} is ready")
            await stop.wait()
            click.echo("stopping", err=True)
