"""`windlass deploy`: stores workflows on a server."""

from pathlib import Path
from typing import Literal

import click
import msgspec

from windlass.cli.documents import report_problems
from windlass.cli.exit_codes import COMPLETED, INVALID
from windlass.cli.options import FILE, SERVER
from windlass.cli.output.console import print_json
from windlass.cli.server_address import call_server
from windlass.client import Client, DeployedWorkflow
from windlass.core.errors import DefinitionInvalid, Problem

Outcome = DeployedWorkflow | list[Problem]


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: file -> outcome.")
def command(files: tuple[Path, ...], server: str | None, as_json: bool) -> int:
    """Deploy workflows to a server, each as a new version if it differs from the newest one.

    Problems of all files are listed. Valid files are deployed even if others are invalid; the exit code is then 2.
    """
    contents = {file: file.read_bytes() for file in files}

    async def deploy_all(client: Client) -> dict[Path, Outcome]:
        return {file: await _deploy(client, file, content) for file, content in contents.items()}

    outcomes = call_server(server, deploy_all)
    if as_json:
        print_json({str(file): _document(outcome) for file, outcome in outcomes.items()})
    code = COMPLETED
    for file, outcome in outcomes.items():
        if isinstance(outcome, DeployedWorkflow):
            _report_deployed(file, outcome, as_json=as_json)
        else:
            report_problems(file, outcome)
            code = INVALID
    return code


async def _deploy(client: Client, file: Path, content: bytes) -> Outcome:
    format: Literal["json", "yaml"] = "yaml"
    if file.suffix == ".json":
        format = "json"
    try:
        return await client.workflows.deploy(content, format=format)
    except DefinitionInvalid as error:
        return list(error.problems)


def _report_deployed(file: Path, outcome: DeployedWorkflow, *, as_json: bool) -> None:
    workflow = outcome.workflow
    warnings = [
        msgspec.convert(warning, Problem, from_attributes=True) for warning in workflow.warnings
    ]
    report_problems(file, warnings)
    if not as_json:
        change = "deployed" if outcome.is_new else "unchanged"
        click.echo(f"{file}: {change}: {workflow.workflow_id} version {workflow.version}")


def _document(outcome: Outcome) -> dict[str, object]:
    if not isinstance(outcome, DeployedWorkflow):
        return {"deployed": False, "problems": outcome}
    workflow = outcome.workflow
    return {
        "deployed": True,
        "workflow_id": workflow.workflow_id,
        "version": workflow.version,
        "is_new": outcome.is_new,
        "warnings": workflow.warnings,
    }
