"""`windlass run`: runs a workflow in this process until it finishes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec
from msgspec import Raw, Struct

from windlass.cli.documents import read_input, read_workflow, report_problems
from windlass.cli.exit_codes import INTERRUPTED, INVALID
from windlass.cli.options import DATABASE, FILE, IMPORTS, INPUT_FILE, INPUT_PAIRS
from windlass.cli.output.display import open_display, show_events
from windlass.cli.output.progress import JobProgress
from windlass.cli.output.results import print_result, unfinished_document
from windlass.cli.runner import (
    run_async,
    run_until_stopped,
    start_until_stopped,
    stop_signals,
)
from windlass.cli.user_code import import_modules
from windlass.core.errors import DefinitionInvalid, InputInvalid
from windlass.core.jobs import JobRecord
from windlass.embedded import Embedded, open_embedded
from windlass.factory import build_handlers
from windlass.reader import JobResult
from windlass.settings import Settings
from windlass.settings_loader import load_settings
from windlass.spec import definition_json
from windlass.views.jobs import job_view


class RunOptions(Struct, frozen=True, kw_only=True):
    """The arguments of the command."""

    file: Path
    workflow_id: str
    # Checked and encoded.
    definition: Raw
    input: dict[str, object]
    as_json: bool
    resume: bool


class RunOutcome(Struct, frozen=True):
    """The job, None if there was none to resume; and its result, None if the command was interrupted."""

    job_id: str | None = None
    result: JobResult | None = None
    # Whether the command was not interrupted before the job was known.
    has_started: bool = True


@click.command()
@click.argument("file", type=FILE)
@INPUT_PAIRS
@INPUT_FILE
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else."
)
@click.option("--resume", is_flag=True, help="Resume the newest unfinished job of this workflow.")
@DATABASE
@IMPORTS
def command(
    file: Path,
    pairs: tuple[str, ...],
    input_file: Path | None,
    as_json: bool,
    resume: bool,
    database: str | None,
    imports: tuple[str, ...],
) -> int:
    """Run a workflow in this process until it finishes, and print its result.

    Exit code: 0 completed, 1 failed or cancelled, 2 invalid file or arguments, 130 interrupted by Ctrl-C or SIGTERM.
    An interrupted job stays unfinished; --resume continues it.
    """
    if resume and (pairs or input_file):
        raise click.UsageError(
            "--resume continues a job that already has an input: leave out -i and --input"
        )
    settings = run_settings(database, imports)
    import_modules(settings.worker.imports)
    try:
        workflow_id, definition = _read_definition(file, settings)
    except DefinitionInvalid as error:
        report_problems(file, error.problems)
        return INVALID
    try:
        request = RunOptions(
            file=file,
            workflow_id=workflow_id,
            definition=definition,
            input=read_input(input_file, pairs),
            as_json=as_json,
            resume=resume,
        )
        outcome = run_async(run_job(settings, request))
    except InputInvalid as error:
        report_problems(input_file or Path("input"), error.problems)
        return INVALID
    return print_outcome(request, outcome)


def run_settings(database: str | None, imports: tuple[str, ...]) -> Settings:
    """Return the settings of a run. Private addresses are allowed unless a setting forbids them."""
    flags = {"database_url": database, "worker.imports": list(imports) or None}
    return load_settings(
        flags, preset={"http.allow_private": True}, preset_origin="default of run"
    ).settings


def _read_definition(file: Path, settings: Settings) -> tuple[str, Raw]:
    # Returns no Definition: the encoded form takes a fraction of the memory.
    definition, warnings = read_workflow(file, build_handlers(settings), strict=True)
    report_problems(file, warnings)
    return definition.workflow_id, definition_json(definition)


async def run_job(settings: Settings, request: RunOptions) -> RunOutcome:
    """Run the job until it finishes or a signal arrives."""
    with stop_signals() as stop:
        async with start_until_stopped(stop, _started_job(settings, request)) as started:
            if started is None:
                return RunOutcome(has_started=False)
            embedded, job = started
            if job is None:
                return RunOutcome()
            job_id = job.spec.job_id
            if request.as_json:
                has_finished = await run_until_stopped(stop, embedded.wait_end(job_id))
            else:
                # A resumed job may be of an older version than the file.
                plan = await embedded.plan(job.spec.workflow_id, job.spec.version)
                with open_display(JobProgress(plan, job_id)) as display:
                    has_finished = await run_until_stopped(
                        stop, show_events(embedded.watch(job_id), display)
                    )
            if not has_finished:
                return RunOutcome(job_id)
            return RunOutcome(job_id, await embedded.result(job_id))


@asynccontextmanager
async def _started_job(
    settings: Settings, request: RunOptions
) -> AsyncGenerator[tuple[Embedded, JobRecord | None]]:
    """Start the engine and the job; the job is None if there is none to resume."""
    async with open_embedded(settings, only_new_jobs=True) as embedded:
        yield embedded, await _start_job(embedded, request)


async def _start_job(embedded: Embedded, request: RunOptions) -> JobRecord | None:
    if request.resume:
        job = await embedded.resumable(request.workflow_id)
        if job is not None:
            await embedded.resume(job.spec.job_id)
        return job
    workflow = await embedded.deploy_encoded(request.workflow_id, request.definition)
    return await embedded.submit(request.workflow_id, request.input, version=workflow.version)


def print_outcome(request: RunOptions, outcome: RunOutcome) -> int:
    """Print the result, or why there is none; return the exit code."""
    result = outcome.result
    if result is not None:
        job = job_view(result.job, result.result_data, result.nodes)
        return print_result(job, as_json=request.as_json)
    if not outcome.has_started:
        click.echo(
            "interrupted during the start; if the job was stored already, "
            f"`windlass run {request.file} --resume` continues it",
            err=True,
        )
        return INTERRUPTED
    if outcome.job_id is None:
        click.echo(f"no unfinished job of {request.workflow_id} to resume", err=True)
        return INVALID
    if request.as_json:
        click.echo(msgspec.json.encode(unfinished_document(outcome.job_id)))
    resume = f"windlass run {request.file} --resume"
    click.echo(f"interrupted: job {outcome.job_id} is unfinished; to resume it: {resume}", err=True)
    return INTERRUPTED
