"""`windlass trigger`: starts a job on a server."""

from pathlib import Path
from typing import Any

import click

from windlass.cli.documents import read_input, report_problems
from windlass.cli.exit_codes import INTERRUPTED, INVALID
from windlass.cli.follow import follow_job
from windlass.cli.options import IDEMPOTENCY_KEY, INPUT_FILE, INPUT_PAIRS, SERVER, version_option
from windlass.cli.output.console import print_json
from windlass.cli.server_address import call_server_until_stopped
from windlass.client import Client
from windlass.core.errors import InputInvalid
from windlass.core.fields import PRIORITY_MAX, PRIORITY_MIN
from windlass.wire import SubmittedView


@click.command()
@click.argument("workflow_id", metavar="WORKFLOW")
@INPUT_PAIRS
@INPUT_FILE
@version_option("Version number or alias (default: the default alias, or latest).")
@IDEMPOTENCY_KEY
@click.option(
    "--priority",
    type=click.IntRange(PRIORITY_MIN, PRIORITY_MAX),
    default=0,
    show_default=True,
    help="Higher first.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Follow the job until it finishes and print its result, as `run` does.",
)
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    workflow_id: str,
    pairs: tuple[str, ...],
    input_file: Path | None,
    wait: bool,
    server: str | None,
    as_json: bool,
    # The options that are named like a field of the request.
    **options: Any,
) -> int:
    """Start a job of a deployed workflow on a server.

    Exit code: 0 accepted (with --wait: completed), 1 failed or cancelled, 2 rejected or no server, 130 interrupted;
    the job continues on the server.
    """
    submitted: list[SubmittedView] = []

    async def start(client: Client) -> int:
        job = await client.jobs.submit(workflow_id, read_input(input_file, pairs), **options)
        submitted.append(job)
        if wait:
            return await follow_job(client, job.job_id, as_json=as_json)
        _print_submitted(job, as_json)
        return 0

    try:
        code = call_server_until_stopped(server, start)
    except InputInvalid as error:
        report_problems(input_file or Path("input"), error.problems)
        return INVALID
    if code == INTERRUPTED and submitted:
        job_id = submitted[0].job_id
        click.echo(f"job {job_id} continues; to follow it: windlass jobs watch {job_id}", err=True)
    return code


def _print_submitted(job: SubmittedView, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        click.echo(
            f"job {job.job_id} is {job.status}; to follow it: windlass jobs watch {job.job_id}"
        )
