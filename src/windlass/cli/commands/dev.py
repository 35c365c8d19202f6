"""`windlass dev`: everything in one process, with the workflows and handlers of a directory."""

import asyncio
import logging
import shutil
import sys
from pathlib import Path

import click

from windlass import __version__
from windlass.api.ui import is_built
from windlass.cli.commands.server import server_flags
from windlass.cli.follow import follow_job
from windlass.cli.http_server import run_server
from windlass.cli.options import DATABASE, HOST, IMPORTS, PORT
from windlass.cli.process_log import log_to_stderr
from windlass.cli.runner import (
    run_async,
    run_until_stopped,
    start_until_stopped,
    stop_signals,
)
from windlass.cli.server_address import local_url
from windlass.cli.user_code import import_modules, reimport_modules, user_modules, without_bytecode
from windlass.cli.workflow_folder import Deployer, FileVersion, file_version
from windlass.client import Client
from windlass.core.errors import WindlassError
from windlass.factory import build_handlers
from windlass.server import Server
from windlass.settings import Settings
from windlass.settings_loader import load_settings, mask_secrets

FOLDER_POLL_SECONDS = 1.0


@click.command()
@click.argument(
    "folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@HOST
@PORT
@DATABASE
@IMPORTS
@click.option(
    "--run", "workflow_id", metavar="WORKFLOW", help="Run a job of this workflow after the start."
)
def command(
    folder: Path,
    host: str | None,
    port: int | None,
    database: str | None,
    imports: tuple[str, ...],
    workflow_id: str | None,
) -> int:
    """Start the API, an engine and a worker in one process, with the workflows of FOLDER
    (default: the current directory).

    Changed workflow files are deployed and changed handler modules are imported again; if one is invalid, its problems
    are printed and the previous version stays. Unfinished jobs are resumed. Ctrl-C and SIGTERM stop cleanly; a second
    signal ends the process immediately.
    """
    flags = server_flags(host, port, database, imports)
    preset: dict[str, object] = {"http.allow_private": True}
    settings = load_settings(flags, preset=preset, preset_origin="default of dev").settings
    log_to_stderr(logging.WARNING)
    with without_bytecode():
        modules = HandlerModules(settings, folder)
        run_async(develop(settings, modules, Deployer(folder), workflow_id))
    return 0


async def develop(
    settings: Settings, modules: "HandlerModules", deployer: Deployer, workflow_id: str | None
) -> None:
    """Serve and apply changes of the directory until a signal."""
    with stop_signals() as stop:
        starting = run_server(settings, deployer.deploy_changes)
        async with start_until_stopped(stop, starting) as started:
            if started is None:
                return
            server, url = started
            if workflow_id is not None:
                await run_until_stopped(stop, _run_job(url, workflow_id))
            if not stop.is_set():
                click.echo(_welcome(settings, url))
            await run_until_stopped(stop, _apply_changes(server, modules, deployer))
            click.echo("stopping: finishing requests, handing back running tasks", err=True)


def _welcome(settings: Settings, url: str) -> str:
    # Commands use the server at the address of the settings without a flag.
    default = load_settings().settings.server
    flag = ""
    if url not in (default.url, local_url(default.host, default.port)):
        flag = f" --server {url}"
    windlass = "windlass" if shutil.which("windlass") else sys.argv[0]
    page = f"{url}/" if is_built() else "not included in this build; run `make ui`"
    return (
        f"Windlass {__version__} is ready at {url}\n"
        f"  web UI:     {page}\n"
        f"  API:        {url}/api/v1/openapi.json\n"
        f"  database:   {mask_secrets(settings.database_url)}\n"
        f"  run a job:  {windlass} trigger WORKFLOW --wait{flag}\n"
        f"  list jobs:  {windlass} jobs list{flag}\n"
        "Press Ctrl-C to stop."
    )


async def _run_job(url: str, workflow_id: str) -> None:
    """Run a job as a client would. Errors are printed and the server continues."""
    click.echo(f"$ windlass trigger {workflow_id} --wait")
    async with Client(url) as client:
        try:
            job = await client.jobs.submit(workflow_id)
            await follow_job(client, job.job_id, as_json=False)
        except WindlassError as error:
            click.echo(f"error: {error}", err=True)


async def _apply_changes(server: Server, modules: "HandlerModules", deployer: Deployer) -> None:
    """Poll for changes until cancelled."""
    while True:
        await asyncio.sleep(FOLDER_POLL_SECONDS)
        if await asyncio.to_thread(modules.have_changed):
            modules.reload(server)
        await deployer.deploy_changes(server)


class HandlerModules:
    """The modules that declare handlers, and the modules of the directory that they import."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._names = settings.worker.imports
        self._folder = folder
        import_modules(self._names, folder)
        # Taken now, so that the first poll sees changes made during the start.
        self._versions = self._read_versions()

    def have_changed(self) -> bool:
        """Return whether a file differs from the imported one. Runs in a thread."""
        return self._read_versions() != self._versions

    def reload(self, server: Server) -> None:
        """Import all modules again, or keep all old ones. Running tasks finish with the code they started with."""
        versions = self._read_versions()

        try:
            handlers = reimport_modules(
                self._names,
                self._folder,
                lambda: build_handlers(self._settings, server.process.connections),
            )
        except WindlassError as error:
            # The next poll compares with the invalid file, so that it is reported once.
            self._versions = versions
            click.echo(f"error: {error}; the previous handlers stay", err=True)
            return
        self._versions = {
            file: versions.get(file, version) for file, version in self._read_versions().items()
        }
        server.process.handlers.clear()
        server.process.handlers.update(handlers)
        click.echo(f"handlers reloaded: {', '.join(self._names)}")

    def _read_versions(self) -> dict[Path, FileVersion | None]:
        return {
            file: file_version(file) for file in user_modules(self._names, self._folder).values()
        }
