"""`windlass validate`: lists all problems of workflow files."""

from collections.abc import Collection
from pathlib import Path

import click
from msgspec import Struct

from windlass.cli.documents import read_workflow, report_problems
from windlass.cli.exit_codes import COMPLETED, INVALID
from windlass.cli.options import FILE, IMPORTS
from windlass.cli.output.console import print_json
from windlass.cli.user_code import import_modules
from windlass.core.errors import DefinitionInvalid, Problem
from windlass.factory import build_handlers
from windlass.settings_loader import load_settings


class Validation(Struct, frozen=True):
    """Whether a file is valid, and its problems and warnings."""

    valid: bool
    problems: list[Problem]


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object: file -> {valid, problems}."
)
@IMPORTS
def command(files: tuple[Path, ...], as_json: bool, imports: tuple[str, ...]) -> int:
    """Check workflow files and list all problems (exit code 0 if all are valid, otherwise 2).

    Each problem is one line: FILE:LINE:COLUMN: path: message (hint). An unknown handler is a warning.
    """
    settings = load_settings({"worker.imports": list(imports) or None}).settings
    import_modules(settings.worker.imports)
    handlers = build_handlers(settings)
    validations = {file: validate(file, handlers) for file in files}
    if as_json:
        print_json({str(file): validation for file, validation in validations.items()})
    else:
        for file, validation in validations.items():
            report_problems(file, validation.problems)
            if validation.valid:
                click.echo(f"{file}: valid")
    if all(validation.valid for validation in validations.values()):
        return COMPLETED
    return INVALID


def validate(file: Path, handlers: Collection[str]) -> Validation:
    """Check one file."""
    try:
        _, warnings = read_workflow(file, handlers)
    except DefinitionInvalid as error:
        return Validation(False, list(error.problems))
    return Validation(True, warnings)
