"""`windlass engine`: drives jobs on a shared database, together with any number of others."""

import logging

import click

from windlass.cli.http_server import log_to_stderr
from windlass.cli.runner import run_async, stop_signals
from windlass.cli.user_code import import_modules
from windlass.process import Roles, open_process, require_shared
from windlass.settings import Settings, load_settings


@click.command()
@click.option("--database", metavar="URL", help="The shared database (default: database_url).")
@click.option("--with-worker", is_flag=True, help="Run tasks in this process too.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
def command(database: str | None, with_worker: bool, imports: tuple[str, ...]) -> int:
    """Own shards of the jobs and drive them; several engines share the shards by themselves.

    SIGTERM and Ctrl-C finish the batch at hand and give the shards to other engines; a second signal ends the process
    at once, and the others take its shards over when their leases run out. Nothing is lost either way.
    """
    given = {"database_url": database, "worker.imports": list(imports) or None}
    settings = load_settings({key: value for key, value in given.items() if value is not None}).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(drive(settings, Roles(engine=True, worker=with_worker)))
    return 0


async def drive(settings: Settings, roles: Roles) -> None:
    """Run until a signal."""
    with stop_signals() as stop:
        require_shared(settings)
        async with open_process(settings, roles) as process:
            click.echo(
                f"Windlass {'engine and worker' if roles.engine and roles.worker else _one(roles)} {process.name} is up"
            )
            await stop.wait()
            click.echo("stopping", err=True)


def _one(roles: Roles) -> str:
    return "engine" if roles.engine else "worker"
