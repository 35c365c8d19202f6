"""`windlass graph`: draws a workflow as text, Mermaid or DOT."""

import shutil
from pathlib import Path

import click

from windlass.cli.documents import read_workflow, report_problems
from windlass.cli.exit_codes import INVALID
from windlass.cli.options import FILE
from windlass.cli.output.drawing import draw_dot, draw_mermaid, draw_text
from windlass.core.errors import DefinitionInvalid
from windlass.spec import compile_plan

PIPE_COLUMNS = 120


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "mermaid", "dot"]),
    default="text",
    show_default=True,
)
def command(file: Path, format_: str) -> int:
    """Draw a workflow as text, Mermaid or DOT.

    The text format uses boxes and lines if they fit the terminal, otherwise one line per node with its dependencies.
    Similar siblings share one box.
    """
    try:
        definition, _ = read_workflow(file)
    except DefinitionInvalid as error:
        report_problems(file, error.problems)
        return INVALID
    plan = compile_plan(definition, 1)
    if format_ == "mermaid":
        click.echo(draw_mermaid(plan))
    elif format_ == "dot":
        click.echo(draw_dot(plan))
    else:
        click.echo(draw_text(plan, shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns))
    return 0
