"""`windlass trigger`: starts a job on a server."""

from pathlib import Path

import click

from windlass.cli.documents import read_input, report
from windlass.cli.follow import follow_to_end
from windlass.cli.output.tables import print_json
from windlass.cli.server_address import SERVER, ask_until_stopped
from windlass.client import Client
from windlass.core.errors import InputInvalid
from windlass.wire import SubmittedView

UNUSABLE, INTERRUPTED = 2, 130


@click.command()
@click.argument("workflow_id", metavar="WORKFLOW")
@click.option("-i", "pairs", multiple=True, metavar="KEY=VALUE", help="One input; read as JSON where it is JSON.")
@click.option(
    "--input",
    "input_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON or YAML object; -i overrides its keys.",
)
@click.option("--version", metavar="VERSION", help="A version's number or an alias (default: latest).")
@click.option("--key", metavar="KEY", help="An idempotency key: asked again with it, the same job is given back.")
@click.option("--priority", type=click.IntRange(-1_000, 1_000), default=0, show_default=True)
@click.option("--wait", is_flag=True, help="Follow the job to its end and print its result, as `windlass run` does.")
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    workflow_id: str,
    pairs: tuple[str, ...],
    input_file: Path | None,
    version: str | None,
    key: str | None,
    priority: int,
    wait: bool,
    server: str | None,
    as_json: bool,
) -> int:
    """Start a job of a deployed workflow on a server.

    Exit code: 0 accepted (with --wait: completed), 1 failed or cancelled, 2 refused or no server, 130 interrupted; the
    job goes on without this command.
    """
    accepted: list[SubmittedView] = []

    async def start(client: Client) -> int:
        given = read_input(input_file, pairs)
        wanted = int(version) if version is not None and version.isdigit() else version
        job = await client.jobs.submit(workflow_id, given, version=wanted, idempotency_key=key, priority=priority)
        accepted.append(job)
        if wait:
            return await follow_to_end(client, job.job_id, as_json=as_json)
        _print(job, as_json)
        return 0

    try:
        code = ask_until_stopped(server, start)
    except InputInvalid as refused:
        report(input_file or Path("input"), refused.problems)
        return UNUSABLE
    if code == INTERRUPTED and accepted:
        job_id = accepted[0].job_id
        click.echo(f"job {job_id} goes on; follow it with: windlass jobs watch {job_id}", err=True)
    return code


def _print(job: SubmittedView, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        click.echo(f"job {job.job_id} is {job.status}; follow it with: windlass jobs watch {job.job_id}")
