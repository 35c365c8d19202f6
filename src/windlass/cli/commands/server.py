"""`windlass server`: the API, the engine and a worker, for production."""

import logging

import click

from windlass.cli.http_server import log_to_stderr, serving
from windlass.cli.runner import run_async, stop_signals
from windlass.cli.user_code import import_modules
from windlass.process import Roles
from windlass.settings import Settings, load_settings


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen (default: server.host, 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65_535), help="Where to listen (default: server.port, 8470).")
@click.option("--database", metavar="URL", help="Where jobs are kept (default: sqlite:///.windlass/windlass.db).")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
@click.option("--with-engine", is_flag=True, help="Drive jobs in this process too (on SQLite it always does).")
@click.option("--with-worker", is_flag=True, help="Run tasks in this process too (on SQLite it always does).")
def command(
    host: str | None,
    port: int | None,
    database: str | None,
    imports: tuple[str, ...],
    with_engine: bool,
    with_worker: bool,
) -> int:
    """Serve the API. On SQLite the engine and a worker are in the same process; on PostgreSQL `windlass engine` and
    `windlass worker` run beside it, as many of each as you like.

    Requests and troubles are logged to standard error, a JSON object a line. SIGTERM and Ctrl-C let requests finish,
    hand running tasks back and stop; a second signal ends the process at once. Nothing acknowledged is lost either way.
    """
    settings = load_settings(flags_of(host, port, database, imports)).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(serve(settings, Roles(engine=with_engine, worker=with_worker)))
    return 0


def flags_of(host: str | None, port: int | None, database: str | None, imports: tuple[str, ...]) -> dict[str, object]:
    """The settings that flags stand for."""
    given = {
        "server.host": host,
        "server.port": port,
        "database_url": database,
        "worker.imports": list(imports) or None,
    }
    return {key: value for key, value in given.items() if value is not None}


async def serve(settings: Settings, roles: Roles) -> None:
    """Serve until a signal."""
    with stop_signals() as stop:
        async with serving(settings, roles=roles) as (_, url):
            click.echo(f"Windlass listens at {url}")
            await stop.wait()
            click.echo("stopping", err=True)
