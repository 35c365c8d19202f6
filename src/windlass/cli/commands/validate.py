"""`windlass validate`: every problem of every document."""

from collections.abc import Collection
from pathlib import Path

import click
import msgspec

from windlass.cli.documents import read_workflow, report
from windlass.cli.user_code import import_modules
from windlass.core.errors import DefinitionInvalid, Problem
from windlass.factory import build_handlers
from windlass.settings import load_settings


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object: file -> {valid, problems}.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A Python module that declares handlers.")
def command(files: tuple[Path, ...], as_json: bool, imports: tuple[str, ...]) -> int:
    """Check workflow documents and list every problem of each (exit 0 when all are usable, else 2).

    Each problem is one line: FILE:LINE:COLUMN: path: message (hint). A handler that is not known here is a warning.
    """
    settings = load_settings({"worker.imports": list(imports)} if imports else {}).settings
    import_modules(settings.worker.imports)
    known = build_handlers(settings)
    results = {path: check(path, known) for path in files}
    if as_json:
        document = {str(path): {"valid": valid, "problems": problems} for path, (valid, problems) in results.items()}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
    else:
        for path, (valid, problems) in results.items():
            report(path, problems)
            if valid:
                click.echo(f"{path}: valid")
    return 0 if all(valid for valid, _ in results.values()) else 2


def check(path: Path, handlers: Collection[str]) -> tuple[bool, list[Problem]]:
    """Whether the document can be used, and what is wrong or doubtful with it."""
    try:
        return True, read_workflow(path, handlers)[1]
    except DefinitionInvalid as refused:
        return False, list(refused.problems)
