"""`windlass run`: runs a workflow on the embedded engine, to its end, before the user's eyes."""

from pathlib import Path

import click
import msgspec
from msgspec import Raw, Struct

from windlass.cli.documents import read_input, read_workflow, report
from windlass.cli.output.job_view import follow, print_outcome, viewing
from windlass.cli.output.progress import Progress
from windlass.cli.runner import run_async, stop_signals, unless
from windlass.cli.user_code import import_modules
from windlass.core.errors import DefinitionInvalid, InputInvalid
from windlass.core.jobs import JobRecord
from windlass.factory import registry_of
from windlass.process import Embedded, JobResult, open_embedded
from windlass.settings import Settings, load_settings
from windlass.spec import definition_json
from windlass.views.jobs import job_shape

UNUSABLE, INTERRUPTED = 2, 130
NOTHING_YET: dict[str, object] = {"result_data": None, "error": None, "nodes": {}, "duration_seconds": None}


class Request(Struct, frozen=True):
    """What was asked for."""

    file: Path
    workflow_id: str
    # Checked and encoded.
    definition: Raw
    input: dict[str, object]
    as_json: bool
    resume: bool


class Outcome(Struct, frozen=True):
    """How far it went: nothing to take up, interrupted, or to the end."""

    job_id: str | None = None
    result: JobResult | None = None


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-i", "pairs", multiple=True, metavar="KEY=VALUE", help="One input; read as JSON where it is JSON.")
@click.option(
    "--input",
    "input_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON or YAML object; -i overrides its keys.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else.")
@click.option("--resume", is_flag=True, help="Take up the newest unfinished job of this workflow.")
@click.option("--database", metavar="URL", help="Where jobs are kept (default: sqlite:///.windlass/windlass.db).")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
def command(
    file: Path,
    pairs: tuple[str, ...],
    input_file: Path | None,
    as_json: bool,
    resume: bool,
    database: str | None,
    imports: tuple[str, ...],
) -> int:
    """Run a workflow here, to its end, and print its result.

    Exit code: 0 completed, 1 failed or cancelled, 2 unusable document or arguments, 130 interrupted by Ctrl-C or
    SIGTERM; then the job stays as it is, and --resume takes it up.
    """
    if resume and (pairs or input_file):
        raise click.UsageError("--resume takes up a job that has its input already; leave out -i and --input")
    settings = settings_for(database, imports)
    import_modules(settings.worker.imports)
    try:
        workflow_id, definition = _read(file, settings)
    except DefinitionInvalid as refused:
        report(file, refused.problems)
        return UNUSABLE
    try:
        request = Request(file, workflow_id, definition, read_input(input_file, pairs), as_json, resume)
        outcome = run_async(run_job(settings, request))
    except InputInvalid as refused:
        report(input_file or Path("input"), refused.problems)
        return UNUSABLE
    return conclude(request, outcome)


def _read(file: Path, settings: Settings) -> tuple[str, Raw]:
    definition, warnings = read_workflow(file, registry_of(settings), strict=True)
    report(file, warnings)
    return definition.workflow_id, definition_json(definition)


def settings_for(database: str | None, imports: tuple[str, ...]) -> Settings:
    """The settings of a run: its own machine may be reached unless somebody said otherwise."""
    flags: dict[str, object] = {}
    if database is not None:
        flags["database_url"] = database
    if imports:
        flags["worker.imports"] = list(imports)
    return load_settings(flags, preset={"http.allow_private": True}, preset_origin="default of run").settings


async def run_job(settings: Settings, request: Request) -> Outcome:
    """Run the job to its end, or until a signal; how far it went."""
    with stop_signals() as stop:
        async with open_embedded(settings, only_new_jobs=True) as embedded:
            job = await _begin(embedded, request)
            if job is None:
                return Outcome()
            if request.as_json:
                ended = await unless(stop, embedded.wait_end(job.spec.job_id))
            else:
                # A job that is taken up may be of an older version than the file.
                progress = Progress(await embedded.plan(job.spec.workflow_id, job.spec.version), job.spec.job_id)
                with viewing(progress) as view:
                    ended = await unless(stop, follow(embedded.watch(job.spec.job_id), view))
            return Outcome(job.spec.job_id, await embedded.result(job.spec.job_id) if ended else None)


async def _begin(embedded: Embedded, request: Request) -> JobRecord | None:
    if request.resume:
        job = await embedded.resumable(request.workflow_id)
        if job is not None:
            await embedded.resume(job.spec.job_id)
        return job
    workflow = await embedded.deploy_encoded(request.workflow_id, request.definition)
    return await embedded.submit(request.workflow_id, request.input, version=workflow.version)


def conclude(request: Request, outcome: Outcome) -> int:
    """Print what came of it; the exit code."""
    if outcome.result is not None:
        result = outcome.result
        job = job_shape(result.job, result.result_data, result.nodes)
        return print_outcome(job, as_json=request.as_json)
    if outcome.job_id is None:
        click.echo(f"there is no unfinished job of {request.workflow_id} to take up", err=True)
        return UNUSABLE
    if request.as_json:
        click.echo(msgspec.json.encode({"job_id": outcome.job_id, "status": "running", **NOTHING_YET}))
    again = f"windlass run {request.file} --resume"
    click.echo(f"interrupted: job {outcome.job_id} is unfinished; take it up with: {again}", err=True)
    return INTERRUPTED
