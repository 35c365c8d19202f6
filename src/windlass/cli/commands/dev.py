"""`windlass dev`: everything in one process, with the workflows and handlers of a folder, renewed as they change."""

import asyncio
import logging
import shutil
import sys
from pathlib import Path

import click

from windlass import __version__
from windlass.api.ui import is_built
from windlass.cli.commands.server import flags_of
from windlass.cli.follow import follow_to_end
from windlass.cli.http_server import log_to_stderr, serving
from windlass.cli.runner import run_async, stop_signals, unless
from windlass.cli.server_address import local_url
from windlass.cli.user_code import import_again, import_modules, user_modules, without_bytecode
from windlass.cli.workflow_folder import Deployer, Stamp, stamp
from windlass.client import Client
from windlass.core.errors import WindlassError
from windlass.factory import registry_of
from windlass.process import Server
from windlass.settings import Settings, load_settings, masked

POLL_SECONDS = 1.0


@click.command()
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--host", metavar="ADDRESS", help="Where to listen (default: server.host, 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65_535), help="Where to listen (default: server.port, 8470).")
@click.option("--database", metavar="URL", help="Where jobs are kept (default: sqlite:///.windlass/windlass.db).")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
@click.option("--run", "workflow_id", metavar="WORKFLOW", help="Run a job of this workflow once everything is up.")
def command(
    folder: Path,
    host: str | None,
    port: int | None,
    database: str | None,
    imports: tuple[str, ...],
    workflow_id: str | None,
) -> int:
    """Start the API, the engine and a worker in one process, with the workflows of FOLDER (default: this one).

    Workflow files are deployed again and handler modules imported again when they change; one that cannot be used is
    shown, and what was there before stays. Unfinished jobs are taken up. Ctrl-C or SIGTERM stops cleanly; a second one
    ends the process at once.
    """
    flags = flags_of(host, port, database, imports)
    preset: dict[str, object] = {"http.allow_private": True}
    settings = load_settings(flags, preset=preset, preset_origin="default of dev").settings
    log_to_stderr(logging.WARNING)
    with without_bytecode():
        modules = Modules(settings, folder)
        run_async(develop(settings, modules, Deployer(folder), workflow_id))
    return 0


async def develop(settings: Settings, modules: "Modules", deployer: Deployer, workflow_id: str | None) -> None:
    """Serve and keep up with the folder until a signal."""
    with stop_signals() as stop:
        async with serving(settings, deployer.renew) as (system, url):
            if workflow_id is not None:
                await unless(stop, _run_one(url, workflow_id))
            if not stop.is_set():
                click.echo(_invitation(settings, url))
            await unless(stop, _keep_up(system, modules, deployer))
            click.echo("stopping: requests finish, running tasks are handed back", err=True)


def _invitation(settings: Settings, url: str) -> str:
    # Commands find a server at the address of the settings by themselves.
    default = load_settings().settings.server
    more = "" if url in (default.url, local_url(default.host, default.port)) else f" --server {url}"
    windlass = "windlass" if shutil.which("windlass") else sys.argv[0]
    page = f"{url}/" if is_built() else "not in this build; `make ui` builds it"
    return (
        f"Windlass {__version__} is up at {url}\n"
        f"  web UI:    {page}\n"
        f"  the API:   {url}/api/v1/openapi.json\n"
        f"  database:  {masked(settings.database_url)}\n"
        f"  run a job: {windlass} trigger WORKFLOW --wait{more}\n"
        f"  look back: {windlass} jobs list{more}\n"
        "Ctrl-C stops it."
    )


async def _run_one(url: str, workflow_id: str) -> None:
    """Run a job as any client would. A workflow that cannot be run is told and ends nothing."""
    click.echo(f"$ windlass trigger {workflow_id} --wait")
    async with Client(url) as client:
        try:
            await follow_to_end(client, (await client.jobs.submit(workflow_id)).job_id, as_json=False)
        except WindlassError as error:
            click.echo(f"error: {error}", err=True)


async def _keep_up(system: Server, modules: "Modules", deployer: Deployer) -> None:
    """Look for changes again and again, until cancelled."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        if await asyncio.to_thread(modules.have_changed):
            modules.renew(system)
        await deployer.renew(system)


class Modules:
    """The modules that declare handlers, with what they import from the folder."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._names = settings.worker.imports
        self._folder = folder
        import_modules(self._names, folder)
        # Taken at once: what changes while everything starts is seen by the first look.
        self._stamps = self._look()

    def have_changed(self) -> bool:
        """Whether a file differs from the one that was imported; for a thread."""
        return self._look() != self._stamps

    def renew(self, system: Server) -> None:
        """Take changed modules over, all or none: the next task is run by the new code, running ones end in the old."""
        stamps = self._look()
        try:
            handlers = import_again(self._names, self._folder, lambda: registry_of(self._settings, system.connections))
        except WindlassError as error:
            # Told once: the next look compares with the file that was broken.
            self._stamps = stamps
            click.echo(f"error: {error}; the handlers stay as they were", err=True)
            return
        self._stamps = {file: stamps.get(file, now) for file, now in self._look().items()}
        system.handlers.clear()
        system.handlers.update(handlers)
        click.echo(f"handlers are new: {', '.join(self._names)}")

    def _look(self) -> dict[Path, Stamp | None]:
        return {file: stamp(file) for file in user_modules(self._names, self._folder).values()}
