"""`windlass graph`: a workflow as a picture in text, Mermaid or DOT."""

import shutil
from pathlib import Path

import click

from windlass.cli.documents import read_workflow, report
from windlass.cli.output.drawing import as_dot, as_mermaid, as_text
from windlass.core.errors import DefinitionInvalid
from windlass.spec import compile_plan

PIPE_COLUMNS = 120


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "mermaid", "dot"]), default="text", show_default=True)
def command(file: Path, form: str) -> int:
    """Draw a workflow as text, Mermaid or DOT.

    The text form draws boxes and lines where they fit the terminal, else one line a node. Siblings that are alike
    share one box.
    """
    try:
        definition, _ = read_workflow(file)
    except DefinitionInvalid as refused:
        report(file, refused.problems)
        return 2
    plan = compile_plan(definition, 1)
    if form == "mermaid":
        click.echo("\n".join(as_mermaid(plan)))
    elif form == "dot":
        click.echo("\n".join(as_dot(plan)))
    else:
        click.echo(as_text(plan, shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns))
    return 0
