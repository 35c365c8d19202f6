"""`windlass deploy`: stores workflow documents on a server."""

from pathlib import Path
from typing import Literal

import click
import msgspec

from windlass.cli.documents import report
from windlass.cli.output.tables import print_json
from windlass.cli.server_address import SERVER, ask
from windlass.client import Client, DeployedWorkflow
from windlass.core.errors import DefinitionInvalid, Problem

UNUSABLE = 2


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: file -> what became of it.")
def command(files: tuple[Path, ...], server: str | None, as_json: bool) -> int:
    """Store workflows on a server, each as a new version if it differs from the newest.

    All problems of all documents are listed; those that can be used are deployed all the same, and the exit code is 2.
    """

    documents = {file: file.read_bytes() for file in files}

    async def deploy(client: Client) -> dict[str, DeployedWorkflow | list[Problem]]:
        return {str(file): await _deployed(client, file, content) for file, content in documents.items()}

    outcomes = ask(server, deploy)
    if as_json:
        print_json({file: _shape(outcome) for file, outcome in outcomes.items()})
    for file, outcome in outcomes.items():
        if not isinstance(outcome, DeployedWorkflow):
            report(Path(file), outcome)
            continue
        workflow = outcome.workflow
        report(Path(file), [msgspec.convert(one, Problem, from_attributes=True) for one in workflow.warnings])
        if not as_json:
            kind = "deployed" if outcome.is_new else "unchanged"
            click.echo(f"{file}: {kind}: {workflow.workflow_id} version {workflow.version}")
    return 0 if all(isinstance(outcome, DeployedWorkflow) for outcome in outcomes.values()) else UNUSABLE


async def _deployed(client: Client, file: Path, content: bytes) -> DeployedWorkflow | list[Problem]:
    format: Literal["json", "yaml"] = "json" if file.suffix == ".json" else "yaml"
    try:
        return await client.workflows.deploy(content, format=format)
    except DefinitionInvalid as refused:
        return list(refused.problems)


def _shape(outcome: DeployedWorkflow | list[Problem]) -> dict[str, object]:
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
