"""`windlass server`: the API server for production."""

import logging

import click

from windlass.cli.http_server import run_server
from windlass.cli.options import DATABASE, HOST, IMPORTS, PORT
from windlass.cli.process_log import log_to_stderr
from windlass.cli.runner import run_async, start_until_stopped, stop_signals
from windlass.cli.user_code import import_modules
from windlass.process import Roles
from windlass.settings import Settings
from windlass.settings_loader import load_settings


@click.command()
@HOST
@PORT
@DATABASE
@IMPORTS
@click.option(
    "--with-engine", is_flag=True, help="Also run an engine in this process (always on SQLite)."
)
@click.option(
    "--with-worker", is_flag=True, help="Also run a worker in this process (always on SQLite)."
)
def command(
    host: str | None,
    port: int | None,
    database: str | None,
    imports: tuple[str, ...],
    with_engine: bool,
    with_worker: bool,
) -> int:
    """Start the API server.

    On SQLite an engine and a worker run in the same process. On PostgreSQL start any number of `windlass engine` and
    `windlass worker` processes.

    Requests and errors are logged to standard error, one JSON object per line. On SIGTERM and Ctrl-C requests finish
    and running tasks are handed back; a second signal ends the process immediately. Nothing acknowledged is lost in
    either case.
    """
    settings = load_settings(server_flags(host, port, database, imports)).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(serve(settings, Roles(engine=with_engine, worker=with_worker)))
    return 0


def server_flags(
    host: str | None, port: int | None, database: str | None, imports: tuple[str, ...]
) -> dict[str, object]:
    """Return the settings that the flags of a server set."""
    return {
        "server.host": host,
        "server.port": port,
        "database_url": database,
        "worker.imports": list(imports) or None,
    }


async def serve(settings: Settings, roles: Roles) -> None:
    """Serve until a signal."""
    with stop_signals() as stop:
        async with start_until_stopped(stop, run_server(settings, roles=roles)) as started:
            if started is None:
                return
            _, url = started
            click.echo(f"Windlass is listening on {url}")
            await stop.wait()
            click.echo("stopping", err=True)
