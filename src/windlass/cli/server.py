"""`windlass server`: the API, the engine and a worker, for production."""

import logging

import click

from windlass.cli.loop import run_async, stop_signals
from windlass.cli.serving import log_to_stderr, serving
from windlass.cli.user_code import import_modules
from windlass.settings import Settings, load_settings


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen (default: server.host, 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65_535), help="Where to listen (default: server.port, 8470).")
@click.option("--database", metavar="URL", help="Where jobs are kept (default: sqlite:///.windlass/windlass.db).")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
def command(host: str | None, port: int | None, database: str | None, imports: tuple[str, ...]) -> int:
    """Serve the API, with the engine and a worker behind it.

    Requests and troubles are logged to standard error, a JSON object a line. SIGTERM and Ctrl-C let requests finish,
    hand running tasks back and stop; a second signal ends the process at once. Nothing acknowledged is lost either way.
    """
    settings = load_settings(flags_of(host, port, database, imports)).settings
    import_modules(settings.worker.imports)
    log_to_stderr(logging.INFO)
    run_async(serve(settings))
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


async def serve(settings: Settings) -> None:
    """Serve until a signal."""
    with stop_signals() as stop:
        async with serving(settings) as (_, url):
            click.echo(f"Windlass listens at {url}")
            await stop.wait()
            click.echo("stopping", err=True)
