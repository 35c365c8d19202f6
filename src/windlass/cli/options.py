"""Options and arguments that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorate = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

SERVER = click.option("--server", metavar="URL", help="Server to use (default: WINDLASS_SERVER).")
DATABASE = click.option(
    "--database", metavar="URL", help="Database to use (default: the setting database_url)."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
IMPORTS = click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="MODULE",
    help="Python module that declares handlers; repeatable.",
)
HOST = click.option(
    "--host", metavar="ADDRESS", help="Listen address (default: the setting server.host)."
)
PORT = click.option(
    "--port", type=click.IntRange(0, 65_535), help="Listen port (default: the setting server.port)."
)
INPUT_PAIRS = click.option(
    "-i",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="One input, parsed as JSON if possible; repeatable.",
)
INPUT_FILE = click.option(
    "--input",
    "input_file",
    type=FILE,
    help="File with the input as a JSON or YAML object; -i overrides its keys.",
)
IDEMPOTENCY_KEY = click.option(
    "--key",
    "idempotency_key",
    metavar="KEY",
    help="Idempotency key: the same request with the same key returns the same job.",
)
WAIT = click.option(
    "--wait",
    is_flag=True,
    help="Follow the job until it finishes; exit code 1 unless it completes.",
)
CURSOR = click.option("--cursor", metavar="CURSOR", help="Continue after a page: its next_cursor.")
WORKFLOW_FILTER = click.option(
    "--workflow", "workflow_id", metavar="ID", help="Only those of this workflow."
)
EVENTS_LIMIT = click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1_000, show_default=True
)
EVENTS_AFTER = click.option(
    "--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only events after this one."
)


def version_option(text: str) -> Decorate:
    """Return the option for a version: a number, or else an alias."""
    return click.option("--version", metavar="VERSION", callback=_parse_version, help=text)


def _parse_version(
    _context: click.Context, _option: click.Parameter, version: str | None
) -> int | str | None:
    # Other digits than those of ASCII are no numbers: "²".
    if version is not None and version.isascii() and version.isdigit():
        return int(version)
    return version
